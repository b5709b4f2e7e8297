/** Checks the direction of imports: api → projector → ingest, infra below all of them, and no cycles. */
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { importCycles, importsOf, sources } from '../support/structure.ts';

/** What each part may import apart from itself; a trailing slash allows all files of that folder. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ingest: ['infra/', 'infra/nats/'],
  projector: [
    'ingest/contract.ts',
    'ingest/ledger/ledger.ts',
    'ingest/ledger/whole-ledger.ts',
    'ingest/streams.ts',
    'infra/',
    'infra/nats/',
  ],
  api: [
    'ingest/contract.ts',
    'ingest/ledger/ledger.ts',
    'ingest/streams.ts',
    'projector/contract.ts',
    'infra/',
    'infra/analyst/',
    'infra/nats/',
    // Composes the server.
    'apps/mounts.ts',
    'package.json',
  ],
  apps: [
    ...['analytics', 'auth', 'feed', 'http', 'service', 'streams'].map((room) => `api/${room}/`),
    ...['infra/', 'infra/analyst/'],
    // Adds endpoints to the server.
    'apps/alerts/',
  ],
  // A process of its own, and endpoints of the api.
  'apps/alerts': [
    ...['analytics', 'auth', 'feed', 'http', 'streams'].map((room) => `api/${room}/`),
    ...['infra/', 'infra/nats/', 'ingest/contract.ts', 'ingest/streams.ts', 'projector/lease.ts'],
  ],
  ops: [
    'api/auth/',
    'api/http/caller.ts',
    'infra/',
    'infra/nats/',
    'ingest/',
    'ingest/ledger/',
    // Finds the servers of npm start.
    'local/nats-server.ts',
    'projector/',
    'sql/migrate.ts',
  ],
  sql: ['infra/', 'infra/nats/'],
  infra: [],
  // Composes the service; the devnet implements a chain.
  local: [
    'infra/',
    'infra/analyst/',
    'infra/nats/',
    'api/auth/keys.ts',
    'ingest/contract.ts',
    'sql/migrate.ts',
  ],
  'local/devnet': [
    ...['infra/loopback.ts', 'infra/process.ts', 'local/lock.ts', 'local/ports.ts'],
    'ingest/events/token-ids.ts',
  ],
};

const files = sources().filter(({ path }) => partOf(path) !== '');

/** The most specific part that a file belongs to; '' for examples and settings. */
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
    importsOf(file)
      .filter((imported) => !isAllowed(file.path, imported))
      .map((imported) => `${file.path} imports ${imported}`),
  );
  expect(wrong).toEqual([]);
});

test('the core imports nothing of the extras, but the list of what is mounted', () => {
  const isExtra = (path: string) => /^(?:apps|ops|local)\//.test(path);
  const found = files.flatMap((file) =>
    isExtra(file.path)
      ? []
      : importsOf(file)
          .filter(isExtra)
          .map((one) => [file.path, one]),
  );
  expect(found).toEqual([['api/main.ts', 'apps/mounts.ts']]);
});

/** The rooms of a part, each of which may import those before it, and what all of them may import. */
const ROOMS: Readonly<Record<string, { rooms: readonly string[]; shared: readonly string[] }>> = {
  ingest: {
    rooms: ['events', 'chain', 'ledger', 'metadata', 'pending'],
    shared: ['contract.ts', 'metrics.ts', 'streams.ts'],
  },
  // `http` knows nothing of keys, `auth` nothing of what they open.
  api: {
    rooms: ['http', 'auth', 'analytics', 'sessions', 'feed', 'streams', 'service'],
    shared: [],
  },
};

test.each(Object.entries(ROOMS))('the rooms of %s are in one direction', (part, of) => {
  const { rooms, shared } = of;
  const roomOf = (path: string) => rooms.findIndex((room) => path.startsWith(`${part}/${room}/`));
  const isRight = (path: string, imported: string) =>
    roomOf(imported) < 0
      ? shared.includes(imported.slice(part.length + 1))
      : roomOf(imported) <= roomOf(path);
  const wrong = files
    .filter(({ path }) => roomOf(path) >= 0)
    .flatMap((file) =>
      importsOf(file)
        .filter((one) => one.startsWith(`${part}/`) && !isRight(file.path, one))
        .map((one) => `${file.path} imports ${one}`),
    );
  expect(wrong).toEqual([]);
});

test('there are no import cycles', () => {
  expect(importCycles(files)).toEqual([]);
});

test('the page imports only types, the client, the rules of filters and of typos from the API', () => {
  const wrong = files
    .filter(({ path }) => path.startsWith('apps/web/'))
    .flatMap(({ path, text }) => {
      const values = text.matchAll(/^(?:import|export)\s(?!type\b)[^;]*?'(\.[^']+)'/gm);
      return [...values].map((match) => [path, normalize(join(dirname(path), match[1] ?? ''))]);
    })
    .filter(([, imported]) => {
      const isRule = /^api\/(feed\/filter-rules|http\/one-typo)\.ts$/.test(imported ?? '');
      return !isRule && !/^apps\/(web|client)\//.test(imported ?? '');
    });
  expect(wrong).toEqual([]);
});

test('the published client imports only its own files', () => {
  const published = ['index', 'address', 'http', 'stream', 'endpoints', 'traded', 'types'];
  const own = published.map((name) => `apps/client/${name}.ts`);
  const ownFiles = files.filter(({ path }) => own.includes(path));
  expect(ownFiles).toHaveLength(own.length);
  for (const file of ownFiles) {
    expect([...file.text.matchAll(/from '([^.][^']*)'/g)], file.path).toEqual([]);
    expect(
      importsOf(file).filter((one) => !own.includes(one)),
      file.path,
    ).toEqual([]);
  }
});
