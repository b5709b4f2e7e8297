/**
 * The commands of the documents, run unchanged against a running service. Programs in TypeScript are run by
 * client-package.test.ts, queries in SQL by analyst.test.ts.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasCurl } from '../support/runtimes.ts';
import { type Service, startService, temporaryDirectory, until } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENTS = ['README.md', 'CONTRIBUTING.md', 'docs/*.md', 'apps/cli/README.md'];

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
  [/^npm run (client|cli):build\b/, 'client-package.test.ts, cli.test.ts'],
  [/^npm run (bench:|faults:)/, 'takes minutes to hours'],
  [/^npm exec -- biome check --write/, 'changes files'],
  [/^npm run migrate\b|^node .*(ingest|projector|api)\/main\.ts/, 'what npm start runs'],
];
/** It runs until it is stopped; its first output is enough. */
const ENDLESS = /curl -sN|fillstream tail/;

const HAS_CURL = hasCurl();

type Command = {
  readonly document: string;
  /** The lines above it in its document that set variables. A reader begins with an empty shell. */
  readonly exports: readonly string[];
  readonly text: string;
};

function commandsOf(document: string): Command[] {
  const source = readFileSync(join(ROOT, document), 'utf8');
  const lines = [...source.matchAll(/^```sh\n(.*?)^```$/gms)]
    .flatMap(([, block = '']) => block.replaceAll('\\\n', ' ').split('\n'))
    .map((line) => line.replace(/\s{2,}# .*| # .*$/, '').trim())
    .filter((text) => text !== '');
  return lines.map((text, n) => {
    const exports = lines.slice(0, n).filter((line) => line.startsWith('export '));
    return { document, exports, text };
  });
}

const commands = globSync(DOCUMENTS, { cwd: ROOT }).sort().flatMap(commandsOf);
const isElsewhere = ({ text }: Command) => ELSEWHERE.some(([command]) => command.test(text));
/** A line that several documents have after the same variables runs once. */
const here = [
  ...new Map(commands.map((one) => [[...one.exports, one.text].join('\n'), one])).values(),
].filter((one) => !isElsewhere(one));
/** Variables that this process may have, but not a reader's shell. */
const UNSET = ['URL', 'KEY', 'FILLSTREAM_URL', 'FILLSTREAM_KEY', 'CLICKHOUSE_URL', 'NATS_URL'];

test.each(globSync(DOCUMENTS, { cwd: ROOT }))('%s sets what its programs read', (document) => {
  const source = readFileSync(join(ROOT, document), 'utf8');
  const read = [...source.matchAll(/process\.env\.(\w+)/g)].map(([, name]) => name);
  const set = commandsOf(document).filter(({ text }) => text.startsWith('export '));
  const isSet = (name = '') => set.some(({ text }) => text.includes(` ${name}=`));
  expect(read.filter((name) => !isSet(name))).toEqual([]);
});

describe('commands', () => {
  const directory = temporaryDirectory();
  const env = { ...process.env };
  for (const name of UNSET) delete env[name];
  let service: Service;
  /** Values that the reader copies from the output of npm start, and differences of this service from the usual one. */
  let own: readonly (readonly [RegExp, string])[];

  beforeAll(async () => {
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
      [/param_t=0x…/, `param_t=${trader?.address}`],
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

  test.for(here)('$document: $text', async ({ exports, text }, { skip }) => {
    skip(!HAS_CURL && /\bcurl\b/.test(text), 'there is no curl');
    const filled = (given: string) =>
      own.reduce((so, [found, value]) => so.replace(found, value), given);
    const line = filled(text);
    const child = spawn(
      'bash',
      ['-o', 'pipefail', '-c', [...exports.map(filled), line].join('\n')],
      {
        ...{ cwd: ROOT, env, detached: true },
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
    if (ENDLESS.test(line)) {
      await until(async () => (hasOutput() || child.exitCode !== null ? true : undefined));
      expect(child.exitCode, said.stderr).toBe(null);
      process.kill(-(child.pid ?? 0), 'SIGTERM');
      await closed;
      return;
    }
    const [code] = await closed;
    expect(code, said.stderr).toBe(0);
    expect(hasOutput()).toBe(!line.startsWith('export '));
    expect(said.stdout).not.toMatch(/"error":|DB::Exception/);
  });

  test.each(ELSEWHERE)('%s, run elsewhere (%s), is still in a document', (command) => {
    expect(commands.some(({ text }) => command.test(text))).toBe(true);
  });
});

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
