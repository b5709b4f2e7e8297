/** Checks the direction of imports: api → projector → ingest, infra below all of them, and no cycles. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/** What each part may import apart from itself; a trailing slash allows all files of that folder. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ingest: ['infra/', 'infra/nats/'],
  projector: [
    'ingest/contract.ts',
    'ingest/ledger.ts',
    'ingest/whole-ledger.ts',
    'ingest/streams.ts',
    'infra/',
    'infra/nats/',
  ],
  api: [
    'ingest/contract.ts',
    'ingest/ledger.ts',
    'ingest/streams.ts',
    'projector/contract.ts',
    'infra/',
    'infra/nats/',
  ],
  sql: ['infra/', 'infra/nats/'],
  infra: [],
  // `npm start` composes the service, and the devnet implements a chain.
  'infra/local': [
    'infra/',
    'infra/nats/',
    'api/auth/keys.ts',
    'ingest/contract.ts',
    'sql/migrate.ts',
  ],
  'infra/local/devnet': [
    ...['infra/loopback.ts', 'infra/process.ts', 'infra/local/lock.ts', 'infra/local/ports.ts'],
    'ingest/token-ids.ts',
  ],
};

const files = globSync('{ingest,projector,api,sql,infra}/**/*.{ts,tsx}', { cwd: ROOT });
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): readonly string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const found = [...text.matchAll(/(?:from |import |import\()'(\.[^']+)'/g)];
  return found.map((match) => normalize(join(dirname(file), match[1] ?? '')));
}

/** The most specific part that a file belongs to. */
function partOf(file: string): string {
  const parts = Object.keys(ALLOWED).filter((part) => file.startsWith(`${part}/`));
  return parts.sort((a, b) => b.length - a.length)[0] ?? '';
}

function isAllowed(file: string, imported: string): boolean {
  const part = partOf(file);
  if (partOf(imported) === part) return true;
  return (ALLOWED[part] ?? []).some((allowed) =>
    allowed.endsWith('/') ? dirname(imported) === allowed.slice(0, -1) : imported === allowed,
  );
}

test('imports flow api → projector → ingest, and infra imports nothing of them', () => {
  expect(files.length).toBeGreaterThan(50);
  const wrong = files.flatMap((file) =>
    (imports.get(file) ?? [])
      .filter((imported) => !isAllowed(file, imported))
      .map((imported) => `${file} imports ${imported}`),
  );
  expect(wrong).toEqual([]);
});

test('there are no import cycles', () => {
  expect(cycles()).toEqual([]);
});

test('the page imports only types and the client from the API', () => {
  const wrong = files
    .filter((file) => file.startsWith('api/web/'))
    .flatMap((file) => {
      const text = readFileSync(join(ROOT, file), 'utf8');
      const values = text.matchAll(/^(?:import|export)\s(?!type\b)[^;]*?'(\.[^']+)'/gm);
      return [...values].map((match) => [file, normalize(join(dirname(file), match[1] ?? ''))]);
    })
    .filter(([, imported]) => !/^api\/(web|client)\//.test(imported ?? ''));
  expect(wrong).toEqual([]);
});

test('the published client imports only its own files', () => {
  const published = ['index', 'http', 'stream', 'endpoints', 'types'];
  const own = published.map((name) => `api/client/${name}.ts`);
  for (const file of own) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    expect([...text.matchAll(/from '([^.][^']*)'/g)], file).toEqual([]);
    expect(
      (imports.get(file) ?? []).filter((one) => !own.includes(one)),
      file,
    ).toEqual([]);
  }
});

/** The import cycles found by a depth-first search, as chains of files. */
function cycles(): readonly string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string) => {
    const start = path.indexOf(file);
    if (start >= 0) found.push([...path.slice(start), file].join(' → '));
    if (start >= 0 || done.has(file)) return;
    path.push(file);
    for (const imported of imports.get(file) ?? []) visit(imported);
    path.pop();
    done.add(file);
  };
  for (const file of files) visit(file);
  return found;
}
