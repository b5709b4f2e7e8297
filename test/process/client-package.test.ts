/**
 * The client as it is published: the contents of the package, every installed runtime, and every program of its
 * README and of the guides, type-checked and run.
 */
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { beforeAll, expect, test } from 'vitest';
import { OPEN_API } from '../../apps/reference/document.ts';
import { CHROMIUM, launch, MISSING } from '../page/browser.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { positionOf, publish, publishFinal } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { installPackage, runtimesHere } from '../support/runtimes.ts';
import { match } from '../unit/feed-matches.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const DIST = join(ROOT, 'apps/client/dist');
const SCRIPT_BYTES_MAX = 13 * 1024;

const seeded = forFile(startSeeded);
const installed = forFile(() => installPackage(DIST));
let directory: string;

beforeAll(async () => {
  ({ directory } = installed);
  const matches = [1, 2, 3].map((n) => match(n));
  await publish(seeded.nats.nats, 'FEED', matches);
  await publishFinal(seeded.nats.nats, 'FEED', matches.slice(2));
});

test('contains its code, types, README and licence, and is small', async () => {
  expect(installed.files).toEqual(
    [
      'LICENSE',
      'README.md',
      ...['address', 'endpoints', 'http', 'index', 'stream', 'traded', 'types'].map(
        (name) => `${name}.d.ts`,
      ),
      'index.js',
      'package.json',
    ].sort(),
  );
  const script = await readFile(join(DIST, 'index.js'));
  expect(gzipSync(script, { level: 9 }).length).toBeLessThanOrEqual(SCRIPT_BYTES_MAX);
  const { dependencies } = JSON.parse(await readFile(join(DIST, 'package.json'), 'utf8'));
  expect(dependencies).toBe(undefined);
});

/** Pages, an error and a stream, in any runtime. */
const USE = `async ({ ApiError, Fillstream }, { url, key, from }) => {
  const fillstream = new Fillstream({ url, key });
  const ranks = [];
  for await (const { rank } of fillstream.leaderboard({ time_frame: '7D', limit: 2 })) {
    if (ranks.push(rank) === 5) break;
  }
  const refused = await fillstream.market('no-such-market').catch((error) => error);
  const events = [];
  for await (const { type } of fillstream.feed({ finality: true }, { from })) {
    if (events.push(type) === 3) break;
  }
  return { ranks, code: refused instanceof ApiError && refused.code, events };
}`;
const USED = {
  ranks: [1, 2, 3, 4, 5],
  code: 'not_found',
  events: ['order', 'order', 'final'],
};

test.each(runtimesHere())('runs in $name', async ({ command, args }) => {
  const program = `
import * as client from '@fillstream/client';
const { CURSOR: from, FILLSTREAM_URL: url, FILLSTREAM_KEY: key } = process.env;
console.log(JSON.stringify(await (${USE})(client, { url, key, from })));`;
  await writeFile(join(directory, 'everywhere.js'), program);
  const options = { cwd: directory, env: environment() };
  const { stdout } = await run(command, [...args, 'everywhere.js'], options);
  expect(JSON.parse(stdout)).toEqual(USED);
});

if (CHROMIUM === undefined) console.info(`skipped: ${MISSING}`);
test.skipIf(CHROMIUM === undefined).each([
  ['in a page', "import('./program.js').then(({ used }) => used)"],
  [
    'in a worker',
    `new Promise((resolve, reject) => {
      const worker = new Worker('./program.js', { type: 'module' });
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
    })`,
  ],
])('runs in Chromium, %s', async (_, useProgram) => {
  const { api, key } = seeded;
  const given = JSON.stringify({ url: api.url, key, from: positionOf(1) });
  const program = `import * as client from './index.js';
    export const used = await (${USE})(client, ${given});
    if (globalThis.document === undefined) postMessage(used);`;
  const browser = await launch();
  const page = await browser.newPage();
  const modules = join(directory, 'node_modules/@fillstream/client');
  await page.route(`${api.url}/packed/**`, async (route) => {
    const name = basename(new URL(route.request().url()).pathname);
    if (name === 'packed') return route.fulfill({ contentType: 'text/html', body: 'A page' });
    const body = name === 'program.js' ? program : await readFile(join(modules, name));
    await route.fulfill({ contentType: 'text/javascript', body });
  });
  await page.goto(`${api.url}/packed/`);
  expect(await page.evaluate(useProgram)).toEqual(USED);
  await browser.close();
});

test('runs the programs of its README and of the guides', async () => {
  const programs = ['apps/client/README.md', ...globSync('docs/*.md', { cwd: ROOT })].flatMap(
    (name) =>
      [...readFileSync(join(ROOT, name), 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)].map(
        ([, text = '']) => text,
      ),
  );
  expect(programs.length).toBeGreaterThan(5);
  const names = programs.map((_, n) => `program-${n}.ts`);
  for (const [n, name] of names.entries()) {
    await writeFile(join(directory, name), programs[n] ?? '');
  }
  await checkTypes(names);
  for (const name of names) {
    const { stdout } = await run(process.execPath, [name], { cwd: directory, env: environment() });
    expect(stdout, name).not.toBe('');
  }
});

test('type-checks the samples of the reference for each operation', async () => {
  const operations = Object.values(OPEN_API.paths).flatMap((item) => Object.values(item));
  const names = operations.map(({ operationId }) => `sample-${operationId}.ts`);
  for (const [n, { 'x-codeSamples': samples = [] }] of operations.entries()) {
    const shown = samples.find(({ lang }) => lang === 'typescript');
    await writeFile(join(directory, names[n] ?? ''), shown?.source ?? 'nothing is shown');
  }
  await checkTypes(names);
});

function environment(): NodeJS.ProcessEnv {
  const { api, key } = seeded;
  return {
    ...{ ...process.env, FILLSTREAM_URL: api.url, FILLSTREAM_KEY: key, CURSOR: positionOf(1) },
    ...installed.env,
  };
}

/** As strictly as a program can be checked, without the libraries of a browser. */
async function checkTypes(names: readonly string[]): Promise<void> {
  const compilerOptions = {
    ...{ strict: true, noEmit: true, exactOptionalPropertyTypes: true, skipLibCheck: false },
    ...{ module: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'] },
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: names }),
  );
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { stdout } = await run(process.execPath, [tsc, '-p', directory]).catch((error) => error);
  expect(stdout).toBe('');
}
