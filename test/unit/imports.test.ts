import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/** What a part may import of the others, besides itself; a trailing slash allows the folder. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ingest: ['infra/', 'infra/nats/', 'infra/local/devnet/addresses.ts'],
  projector: ['ingest/contract.ts', 'infra/', 'infra/nats/'],
  api: [
    'ingest/contract.ts',
    'ingest/contract-feed.ts',
    'projector/contract.ts',
    'infra/',
    'infra/nats/',
  ],
  sql: ['infra/', 'infra/nats/'],
  // What everybody connects with knows only the streams' names.
  infra: ['ingest/contract.ts', 'ingest/contract-feed.ts'],
};

/** `infra/local/up` composes the parts, and the devnet is a chain: these few imports are their business. */
const COMPOSING: Readonly<Record<string, readonly string[]>> = {
  'infra/local/service.ts': ['api/auth/keys.ts', 'sql/migrate.ts'],
  'infra/local/data-directory.ts': ['api/auth/keys.ts'],
  'infra/local/devnet/': ['ingest/token-ids.ts'],
};

function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return [...text.matchAll(/(?:from|import) '(\.[^']+)'/g)].map((match) =>
    normalize(join(dirname(file), match[1] ?? '')),
  );
}

function isAllowed(file: string, imported: string): boolean {
  const part = file.split('/')[0] ?? '';
  if (imported.startsWith(`${part}/`)) return true;
  const composing = Object.entries(COMPOSING).flatMap(([name, allowed]) =>
    file.startsWith(name) ? allowed : [],
  );
  return [...(ALLOWED[part] ?? []), ...composing].some((allowed) =>
    // A folder means its connection files, not what lies below it.
    allowed.endsWith('/') ? dirname(imported) === allowed.slice(0, -1) : imported === allowed,
  );
}

test('imports flow api → projector → ingest, only through the contract files', () => {
  const files = globSync('{ingest,projector,api,sql,infra}/**/*.ts', { cwd: ROOT });
  expect(files.length).toBeGreaterThan(50);
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((imported) => !isAllowed(file, imported))
      .map((imported) => `${file} imports ${imported}`),
  );
  expect(wrong).toEqual([]);
});
