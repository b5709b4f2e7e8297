/**
 * The commands of the documents, run unchanged against a running service, in this clone or in an empty folder beside it. Programs
 * in TypeScript that no command names are run by client-package.test.ts, queries in SQL by analyst.test.ts.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { hasCurl } from '../support/runtimes.ts';
import { type Service, startService, temporaryDirectory, until } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENTS = [
  ...['README.md', 'CONTRIBUTING.md', 'docs/*.md', 'examples/README.md'],
  ...['apps/client/README.md', 'apps/cli/README.md'],
];

/** Commands that cannot be run here, with the reason or the test that runs them. */
const ELSEWHERE: readonly (readonly [command: RegExp, reason: string])[] = [
  [/^npm (ci|start|test)\b|^npm run dev\b/, 'up.test.ts, and what runs this test'],
  [/^docker compose\b/, 'needs containers; the commands in them are run by compose.test.ts'],
  [/https:\/\/your\.node/, 'needs a Polygon node'],
  [/\$DOMAIN/, 'needs a domain; cluster-proxy.test.ts tests the site'],
  [/^sudo apt-get\b/, 'changes the machine'],
  [/^infra\/deploy\/make-secrets\.sh$/, 'compose.test.ts'],
  [/> infra\/deploy\/[\w./]*\.env$/, 'changes files'],
  [/^ls backups\b/, 'the output of a backup, which has its test'],
  [/^npm run (backup|restore)\b/, 'backup.test.ts'],
  [/^mkdir -p backups$/, 'for the next command'],
  [/^npm run rebuild\b/, 'rebuild.test.ts'],
  [/^npm run (export|import)\b/, 'archive.test.ts'],
  [/^npm run (schema|client:types)\b/, 'changes files; schema and client.test.ts compare them'],
  [/^npm run (client|cli):build\b/, 'packages.ts, before all tests of this lane'],
  [/^npm run (bench:|faults:)/, 'takes minutes to hours'],
  [/^npm exec -- biome check --write/, 'changes files'],
  [/^npm run migrate\b|^node .*(ingest|projector|api|alerts)\/main\.ts/, 'what npm start runs'],
];
/** It runs until it is stopped. Its first output is enough, or that it listens. */
const ENDLESS = /curl -sN|fillstream tail|fillstream\.py/;
const LISTENS = /(?:copy-a-whale|whale-alert|feed-to-sqlite)\.ts/;

const HAS_CURL = hasCurl();
const HAS_PYTHON = spawnSync('python3', ['--version']).status === 0;

type Command = {
  readonly document: string;
  /** The lines above it in its document that set variables. A reader begins with an empty shell. */
  readonly exports: readonly string[];
  readonly text: string;
  /** The folder beside the clone in which it runs, if its block names the clone as `../fillstream`. */
  readonly beside: string | undefined;
  /** The TypeScript above it, which it may run as `program.ts`. */
  readonly program: string;
};

function commandsOf(document: string): Command[] {
  const source = readFileSync(join(ROOT, document), 'utf8');
  const commands: Command[] = [];
  let program = '';
  for (const [, language, block = ''] of source.matchAll(/^```(sh|ts)\n(.*?)^```$/gms)) {
    if (language === 'ts') program = block;
    if (language === 'ts') continue;
    const beside = block.includes('../fillstream/') ? document.replaceAll(/\W/g, '-') : undefined;
    for (const line of block.replaceAll('\\\n', ' ').split('\n')) {
      const text = line.replace(/\s{2,}# .*| # .*$/, '').trim();
      const before = commands.map((one) => one.text);
      const exports = before.filter((one) => one.startsWith('export '));
      if (text !== '') commands.push({ document, exports, text, beside, program });
    }
  }
  return commands;
}

const commands = globSync(DOCUMENTS, { cwd: ROOT }).sort().flatMap(commandsOf);
const isElsewhere = ({ text }: Command) => ELSEWHERE.some(([command]) => command.test(text));
/** A line that several documents have after the same variables runs once. */
const here = [
  ...new Map(
    commands.map((one) => [[one.beside, ...one.exports, one.text].join('\n'), one]),
  ).values(),
].filter((one) => !isElsewhere(one));
/** Variables that this process may have, but not a reader's shell. The last is set by `npm run --silent`. */
const UNSET = [
  ...['URL', 'KEY', 'FILLSTREAM_URL', 'FILLSTREAM_KEY', 'CLICKHOUSE_URL', 'NATS_URL'],
  'npm_config_loglevel',
];

test.each(globSync(DOCUMENTS, { cwd: ROOT }))('%s sets what its programs need', (document) => {
  const source = readFileSync(join(ROOT, document), 'utf8');
  const read = [...source.matchAll(/process\.env\.(\w+)!/g)].map(([, name]) => name);
  const set = commandsOf(document).filter(({ text }) => text.startsWith('export '));
  const isSet = (name = '') => set.some(({ text }) => text.includes(` ${name}=`));
  expect(read.filter((name) => !isSet(name))).toEqual([]);
});

describe('commands', () => {
  const directory = temporaryDirectory();
  const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const CURSOR_FILE = join(directory.path, 'whale-alert.cursor');
  const env: NodeJS.ProcessEnv = { ...process.env, PATH, CURSOR_FILE };
  for (const name of UNSET) delete env[name];
  let service: Service;
  /** Values that the reader copies from the output of npm start, and differences of this service from the usual one. */
  let own: readonly (readonly [RegExp, string])[];

  beforeAll(async () => {
    symlinkSync(ROOT, join(directory.path, 'fillstream'));
    const data = join(directory.path, 'data');
    service = await startService(data, { args: ['--history-days', '2'] });
    const { url, key, nats_url } = service.ready;
    const [trader] = await service.query<{ address: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS address FROM traders LIMIT 1`,
    );
    const analyst = new URL(service.ready.clickhouse_url);
    own = [
      [/nats:\/\/127\.0\.0\.1:PORT/, nats_url],
      [/127\.0\.0\.1:PORT/, analyst.host],
      [/\.data\//g, `${data}/`],
      [/0x…/, trader?.address ?? ''],
      [/https:\/\/discord\.com\S+/, 'http://127.0.0.1:9'],
      [/feed\.db/, join(directory.path, 'feed.db')],
      [/FILLSTREAM_KEY=…/, `FILLSTREAM_KEY=${key}`],
      [/http:\/\/127\.0\.0\.1:8080/, url],
      // Its defaults are the usual port and directory.
      [/^npm run keys --/, `$& --data ${data}`],
      [/^npx fillstream/, `FILLSTREAM_URL=${url} DATA_DIRECTORY=${data} $&`],
      [/--(output|state) /, `$&${directory.path}/`],
      [/\.\/your-program/, 'cat'],
    ];
  });

  afterAll(async () => {
    await service?.up.stop();
    directory.remove();
  });

  const listeners = async () => (await service.get<{ data: unknown[] }>('/sessions')).data.length;

  test.for(here)('$document: $text', async ({ exports, text, beside, program }, { skip }) => {
    skip(!HAS_CURL && /\bcurl\b/.test(text), 'there is no curl');
    skip(!HAS_PYTHON && /\bpython3\b/.test(text), 'there is no python3');
    const cwd = beside === undefined ? ROOT : join(directory.path, beside);
    mkdirSync(cwd, { recursive: true });
    if (text.endsWith('node program.ts')) {
      const saved = join(cwd, 'program.ts');
      writeFileSync(saved, program, { flag: 'wx' });
      onTestFinished(() => rmSync(saved));
    }
    const filled = (given: string) =>
      own.reduce((so, [found, value]) => so.replace(found, value), given);
    const line = filled(text);
    const child = spawn(
      'bash',
      ['-o', 'pipefail', '-c', [...exports.map(filled), line].join('\n')],
      {
        ...{ cwd, env, detached: true },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const said = { stdout: '', stderr: '' };
    const closed = once(child, 'close');
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk) => {
        said[name] += chunk;
      });
    }
    const [, file] = /--(?:output|state) (\S+)/.exec(line) ?? [];
    const hasOutput = () => /\S/.test(file === undefined ? said.stdout : textOf(file));
    if (ENDLESS.test(line) || LISTENS.test(line)) {
      const works = async () => (LISTENS.test(line) ? (await listeners()) > 0 : hasOutput());
      await until(async () => (await works()) || child.exitCode !== null || undefined);
      expect(child.exitCode, said.stderr).toBe(null);
      process.kill(-(child.pid ?? 0), 'SIGTERM');
      await closed;
      await until(async () => (await listeners()) === 0 || undefined);
      return;
    }
    const [code] = await closed;
    expect(code, said.stderr).toBe(0);
    expect(hasOutput()).toBe(!/^(?:export|cp) /.test(line));
    expect(said.stdout).not.toMatch(/"error":|DB::Exception/);
  });

  test('the configuration of docs/mcp.md starts the tools', async () => {
    const source = readFileSync(join(ROOT, 'docs/mcp.md'), 'utf8');
    const blocks = [...source.matchAll(/^```json\n(.*?)^```$/gms)].map(([, block = '']) => block);
    const { command, args } = JSON.parse(
      blocks.find((block) => block.includes('"command"'))?.replace('/path/to/fillstream', ROOT) ??
        '',
    ).mcpServers.fillstream;
    const { url: FILLSTREAM_URL, key: FILLSTREAM_KEY } = service.ready;
    const program = spawn(command, args, {
      ...{ cwd: directory.path, env: { ...env, FILLSTREAM_URL, FILLSTREAM_KEY } },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    program.stdin.end('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n');
    const { result } = (await json(program.stdout)) as { result: { tools: unknown[] } };
    expect(result.tools).not.toEqual([]);
  });

  test.each(ELSEWHERE)('%s, run elsewhere (%s), is still in a document', (command) => {
    expect(commands.some(({ text }) => command.test(text))).toBe(true);
  });
});

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
