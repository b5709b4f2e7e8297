/** Snapshots of known markets on a real NATS server. */
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { openObjects } from '../../infra/nats/objects.ts';
import type { Hash } from '../../ingest/contract.ts';
import { KnownMarkets } from '../../ingest/events/shares/known-markets.ts';
import { MarketSnapshots } from '../../ingest/ledger/market-snapshots.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { ledgerEvents } from '../support/ledger-generator.ts';
import { temporaryDirectory, until } from '../support/service.ts';

const directory = temporaryDirectory();
const logger = pino({ level: 'silent' });
let server: Awaited<ReturnType<typeof startNatsServer>>;
let nats: Nats;

beforeAll(async () => {
  server = await startNatsServer({ dataDir: directory.path });
  nats = await connectNats({ url: server.url, name: 'test' });
});
afterAll(async () => {
  await nats.close();
  await server.stop();
  directory.remove();
});

const hash = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as const;
const open = () => MarketSnapshots.open(nats, 1, logger);

function knownMarkets() {
  const known = new KnownMarkets();
  const options = { seed: 5, traders: 20, markets: 40, from: 1_780_000_000, to: 1_780_100_000 };
  for (const event of ledgerEvents({ ...options, matches: 300, matchesPerMarket: 8 })) {
    if (event.kind === 'match') {
      const { blockNumber, blockTime, txHash, logIndex, conditionId, exchange } = event;
      const at = { blockNumber, blockTime, txHash, logIndex };
      known.learn({ kind: 'market', ...at, conditionId, collateral: exchange });
    }
    known.learn(event);
  }
  const [first] = known.all();
  if (first === undefined) throw new Error('no market');
  known.learn({ ...market(first.conditionId), feeBips: 250 });
  return known;
}

const market = (conditionId: Hash) => ({
  ...{ kind: 'market' as const, blockNumber: 10_101, blockTime: 0, txHash: hash(1), logIndex: 0 },
  ...{ conditionId, collateral: `0x${'77'.repeat(20)}` as const },
});

test('a snapshot is saved after ten thousand blocks, as of that block', async () => {
  const snapshots = await open();
  expect(await snapshots.load()).toBeUndefined();
  const known = knownMarkets();
  const expected = known.all();
  snapshots.saveIfDue({ number: 100, hash: hash(100) }, known);
  snapshots.saveIfDue({ number: 10_099, hash: hash(10_099) }, known);
  snapshots.saveIfDue({ number: 10_100, hash: hash(10_100) }, known);
  // It is saved in the background.
  const [first] = expected;
  if (first === undefined) throw new Error('no market');
  expect(first.feeBips).toBe(250);
  known.learn({ ...market(first.conditionId), collateral: `0x${'78'.repeat(20)}`, feeBips: 300 });
  const saved = await until(async () => (await open()).load());
  expect(saved.block).toEqual({ number: 10_100, hash: hash(10_100) });
  expect(saved.known.all()).toEqual(expected);
  for (const { tokens, conditionId } of expected)
    for (const [outcomeIndex, id] of (tokens?.ids ?? []).entries())
      expect(saved.known.placeOf(id)).toEqual({ conditionId, outcomeIndex });
});

test('a snapshot that cannot be read counts as none', async () => {
  const objects = await openObjects(nats, 'ingest_markets', { replicas: 1 });
  await objects.put('known', Buffer.from('damaged'));
  expect(await (await open()).load()).toBeUndefined();
});
