/** Open positions are read when LEDGER names their market, and forgotten when memory is full. */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import type { Match, Resolution } from '../../ingest/contract.ts';
import { WholeLedger } from '../../ingest/ledger/whole-ledger.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { runProjector } from '../../projector/consume.ts';
import { OpenPositions, type StoredMarket } from '../../projector/fold/positions.ts';
import { partitionsOf } from '../../projector/lease.ts';
import { Store } from '../../projector/store.ts';
import {
  blockHash,
  conditionId,
  eventsBetween,
  ledgerEvents,
  traderAddress,
} from '../support/ledger-generator.ts';
import { publishEvents } from '../support/publish-ledger.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { start, temporaryDirectory, until } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

type Event = Match | Resolution;

const SEED = TEST_SEED;
const TIME = Date.parse('2026-11-01T00:00:00Z') / 1_000;
const MARKETS = 300;
const EVENTS = [
  ...ledgerEvents({
    ...{ seed: SEED, traders: 60, markets: MARKETS, matches: 2_400, matchesPerMarket: 60 },
    ...{ from: TIME, to: TIME + 200_000 },
  }),
];
const STAGES = 20;
/** Fewer positions than a stage names. */
const ROOM = 100;
const PARTITIONS = partitionsOf(0, 1);
const DATABASE = 'fillstream';

/** The real store, with a record of the reads. */
class WatchedStore extends Store {
  readonly read: string[] = [];

  override markets(ids: readonly string[]): Promise<ReadonlyMap<string, StoredMarket>> {
    this.read.push(...ids);
    return super.markets(ids);
  }
}

/** Every row that the fold computes from these events with everything in memory, as text. */
function expectedRows(events: readonly Event[]): readonly string[] {
  const positions = new OpenPositions();
  return events
    .flatMap((event) => positions.apply(event))
    .map((row) =>
      [
        ...[row.kind, row.blockNumber, row.logIndex, row.trader, row.conditionId, row.realisedPnl],
        ...[row.realisedCost, row.positionShares, row.positionCost, row.positionFees],
      ].join(' '),
    );
}

describe(`open positions in memory (seed ${SEED})`, () => {
  const directory = temporaryDirectory();
  let parts: Parts;
  let nats: Nats;
  let client: ReturnType<typeof connectClickHouse>;

  beforeAll(async () => {
    parts = await startParts(directory.path, []);
    nats = await connectNats({ url: parts.env.NATS_URL, name: 'memory test' });
    await ensureStreams(nats, 1);
    const url = parts.env.CLICKHOUSE_URL;
    client = connectClickHouse({ url, database: DATABASE, name: 'memory test' });
  });

  afterAll(async () => {
    await client?.close();
    await nats?.close();
    await parts?.stop();
    directory.remove();
  });

  async function storedRows(): Promise<readonly string[]> {
    const rows = await parts.query<{ row: string }>(
      `SELECT concatWithSeparator(' ', kind, block_number, log_index, concat('0x', lower(hex(trader))),
         concat('0x', lower(hex(condition_id))), realised_pnl, realised_cost, position_shares, position_cost,
         position_fees) AS row
       FROM bookings ORDER BY block_number, event_log_index, leg`,
    );
    return rows.map(({ row }) => row);
  }

  async function checkpointBlock(): Promise<number> {
    const [row] = await parts.query<{ block: string }>(
      'SELECT toString(max(block_number)) AS block FROM projector_checkpoints FINAL',
    );
    return Number(row?.block);
  }

  /** Runs a projector in this process while `work` runs; `stored` resolves when a block is stored. */
  async function projecting(
    work: (stored: (block: number) => Promise<unknown>) => Promise<void>,
  ): Promise<readonly string[]> {
    const store = new WatchedStore(client, PARTITIONS, { database: DATABASE });
    const stop = new AbortController();
    let reached = -1;
    const running = runProjector({
      ...{ nats, store, partitions: PARTITIONS, inMemory: ROOM, signal: stop.signal },
      ledger: await WholeLedger.open(nats, { NATS_REPLICAS: 1 }),
      logger: pino({ level: 'silent' }),
      assertOwner: () => undefined,
      onStart: () => undefined,
      onStored: ({ block }) => {
        reached = block;
      },
    });
    try {
      await work((block) => until(async () => reached >= block || undefined));
    } finally {
      stop.abort();
      await running;
    }
    return store.read;
  }

  async function publish(events: readonly Event[]): Promise<number> {
    await publishEvents(nats, events);
    return events.at(-1)?.blockNumber ?? 0;
  }

  test('an evicted market that is named again has its positions', async () => {
    const read = await projecting(async (stored) => {
      for (let stage = 0; stage < STAGES; stage++) {
        const events = eventsBetween(EVENTS, stage / STAGES, (stage + 1) / STAGES);
        await stored(await publish(events));
      }
    });
    const markets = new Set(EVENTS.map((event) => event.conditionId));
    expect(read.length).toBeGreaterThan(markets.size);
    expect(await storedRows()).toEqual(expectedRows(EVENTS));
  });

  test('a start reads no market but those of the blocks that it reads again', async () => {
    const checkpoint = await checkpointBlock();
    const read = await projecting(async (stored) => {
      await stored(EVENTS.at(-1)?.blockNumber ?? 0);
    });
    const again = EVENTS.filter(({ blockNumber }) => blockNumber >= checkpoint);
    expect(new Set(read)).toEqual(new Set(again.map((event) => event.conditionId)));
  });

  test('a resolution after kill −9 settles all holders, also of rows beyond the checkpoint', async () => {
    const block = (EVENTS.at(-1)?.blockNumber ?? 0) + 1;
    const market = conditionId(MARKETS + 1);
    const place = (number: number, logIndex: number) => ({
      ...{ blockNumber: number, blockTime: TIME + 300_000 + number, logIndex },
      ...{ txHash: blockHash(number), conditionId: market },
    });
    const match = (number: number): Match => ({
      ...{ kind: 'match', ...place(number, 9), exchange: traderAddress(99) },
      fills: [0, 1, 2].map((i) => ({
        ...{ logIndex: i, orderHash: blockHash(i), trader: traderAddress(number * 3 + i) },
        ...{ isTaker: i === 2, side: 'BUY', outcomeIndex: i === 0 ? 0 : 1, tokenId: '1' },
        ...{ shares: 100n, usdc: 40n, fee: 1n },
      })),
    });
    const matches = [match(block), match(block + 1)];
    const projector = start('projector/main.ts', [], parts.env);
    await projector.event('projecting');
    for (const one of matches) {
      await publish([one]);
      await projector.reached('stored', (line) => Number(line.block) >= one.blockNumber);
    }
    projector.kill('SIGKILL');
    await projector.exit;
    expect(await checkpointBlock()).toBeLessThan(block + 1);

    const resolution: Resolution = {
      ...{ kind: 'resolution', ...place(block + 2, 1), payouts: [1n, 0n] },
    };
    await publish([resolution]);
    const again = start('projector/main.ts', [], parts.env);
    await again.reached('stored', (line) => Number(line.block) >= block + 2);
    expect(await again.stop()).toBe(0);
    const rows = await storedRows();
    expect(rows).toEqual(expectedRows([...EVENTS, ...matches, resolution]));
    expect(rows.filter((row) => row.startsWith(`settlement ${block + 2} `))).toHaveLength(6);
  });
});
