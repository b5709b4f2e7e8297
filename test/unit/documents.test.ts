import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { TIERS } from '../../api/auth/tiers.ts';
import { ServiceConfig } from '../../infra/config.ts';
import packageJson from '../../package.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '../..');
const document = (name: string) => readFileSync(join(ROOT, name), 'utf8');

/** The anchors of a document's headings, as GitHub derives them. */
function headingsOf(name: string): string[] {
  return [...document(name).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('docs/configuration.md lists every variable with its default', () => {
  const configuration = document('docs/configuration.md');
  const defaults = ServiceConfig.parse({});
  for (const name of Object.keys(ServiceConfig.shape) as (keyof typeof defaults)[]) {
    const row = configuration
      .split('\n')
      .find((line) => line.split('|')[1]?.includes(`\`${name}\``));
    expect(row, name).toBeDefined();
    const value = defaults[name];
    if (typeof value === 'string' || typeof value === 'number')
      expect(row).toContain(`\`${value}\``);
  }
});

test('docs/api.md has the quotas of every tier', () => {
  const lines = document('docs/api.md').split('\n');
  for (const [tier, limits] of Object.entries(TIERS)) {
    const number = (value: number | null) => value?.toLocaleString('en') ?? 'no limit';
    const filter = [limits.filterAddressesMax, limits.filterTagsMax, limits.filterSeriesMax];
    expect(lines).toContain(
      `| ${[
        tier,
        `${limits.requestsPerSecond}, ${limits.accountRequestsPerSecond}`,
        limits.sessionsMax,
        limits.streamsMax,
        limits.nakedStreamsMax,
        filter.map(number).join(', '),
        number(limits.streamSecondsPerDayMax),
      ].join(' | ')} |`,
    );
  }
});

test('docs/README.md lists every document in its directory', () => {
  const index = document('docs/README.md');
  const names = readdirSync(join(ROOT, 'docs')).filter(
    (name) => name.endsWith('.md') && name !== 'README.md',
  );
  expect(names.filter((name) => !index.includes(`(${name})`))).toEqual([]);
});

test('every link between documents, or to a heading, works', () => {
  const names = [
    ...globSync('*.md', { cwd: ROOT }),
    ...globSync('{docs,api}/**/*.md', { cwd: ROOT }),
  ];
  const broken = names.flatMap((from) =>
    [...document(from).matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)]
      .map(([, path = '', heading]) => ({ from, to: path && join(dirname(from), path), heading }))
      // Links to pages that GitHub adds.
      .filter(({ to }) => !to.startsWith('..'))
      .filter(({ to, heading }) => {
        if (!existsSync(join(ROOT, to))) return true;
        return heading !== undefined && !headingsOf(to || from).includes(heading);
      }),
  );
  expect(broken).toEqual([]);
});

test('CONTRIBUTING.md gives a reason for every dependency', () => {
  const contributing = document('CONTRIBUTING.md');
  const names = Object.keys({
    ...packageJson.dependencies,
    ...packageJson.optionalDependencies,
    ...packageJson.devDependencies,
  }).filter((name) => !name.startsWith('@types/'));
  const short = (name: string) => name.replace(/^@nats-io\/(jetstream|kv|obj)$/, '$1');
  expect(names.filter((name) => !contributing.includes(`\`${short(name)}\``))).toEqual([]);
});

test('README.md and CONTRIBUTING.md name the Node that package.json needs', () => {
  const needed = packageJson.engines.node.replace('>=', '');
  for (const name of ['README.md', 'CONTRIBUTING.md']) {
    expect(document(name), name).toContain(`Node ${needed} or newer`);
  }
});

test('every source file that CONTRIBUTING.md and ARCHITECTURE.md name exists', () => {
  const names = ['CONTRIBUTING.md', 'ARCHITECTURE.md'].flatMap((name) => [
    ...document(name).matchAll(
      /`((?:ingest|projector|api|sql|infra|test)\/[\w./-]+\.(?:tsx?|sql|json))`/g,
    ),
  ]);
  const missing = names.filter(([, path = '']) => !existsSync(join(ROOT, path)));
  expect(names.length).toBeGreaterThan(20);
  expect(missing.map(([, path]) => path)).toEqual([]);
});
