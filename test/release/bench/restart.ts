/**
 * Restarts a projector over many open positions, which ClickHouse itself makes: 1,000 in each market. Then LEDGER names
 * a few markets, as a block of the chain does, and after that every market, as a long catch-up does.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { connectClickHouse } from '../../../infra/clickhouse.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import type { Match } from '../../../ingest/contract.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { partitionsOf } from '../../../projector/lease.ts';
import { Store } from '../../../projector/store.ts';
import { blockHash, conditionId, traderAddress } from '../../support/ledger-generator.ts';
import { publishEvents } from '../../support/publish-ledger.ts';
import { start, temporaryDirectory } from '../../support/service.ts';
import { startParts } from '../../support/stack.ts';
import { peakMiB } from './process-figures.ts';
import { readable } from './report.ts';

const DATABASE = 'fillstream';
const POSITIONS_PER_MARKET = 1_000;
/** Markets in a block on Polygon. */
const MATCHES = 15;
const MATCHES_PER_BLOCK = 100;
const TIME = Date.parse('2026-11-01T00:00:00Z') / 1_000;
/** Time of the checkpoint; all positions are older. */
const BLOCK = 1_000;
const STATEMENT_MS_MAX = 4 * 3_600_000;

export async function measureRestart(positions: number) {
  const directory = temporaryDirectory();
  const parts = await startParts(directory.path, []);
  const client = connectClickHouse({
    ...{ url: parts.env.CLICKHOUSE_URL, database: DATABASE, name: 'bench' },
    requestTimeoutMs: STATEMENT_MS_MAX,
  });
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  try {
    const markets = Math.ceil(positions / POSITIONS_PER_MARKET);
    await makePositions(client, positions, markets);
    await ensureStreams(nats, 1);
    const partitions = partitionsOf(0, 1);
    const place = { blockNumber: BLOCK, blockHash: blockHash(BLOCK), logIndex: 9 };
    await publishEvents(nats, [match(BLOCK, 0, 9)]);
    await new Store(client, partitions, { database: DATABASE }).writeCheckpoints(
      new Map(partitions.map((id) => [id, place])),
    );
    await publishEvents(nats, matches(BLOCK + 1, Math.min(MATCHES, markets), markets));
    const startedAt = performance.now();
    const projector = start('projector/main.ts', [], parts.env);
    const storedAfter = async (number: number) => {
      await projector.reached('stored', (line) => Number(line.block) >= number);
      return (performance.now() - startedAt) / 1_000;
    };
    await projector.event('projecting');
    const projecting = (performance.now() - startedAt) / 1_000;
    const stored = await storedAfter(BLOCK + 1);
    const memory = peakMiB(projector.pid);
    const [from, before] = [BLOCK + 2, performance.now()];
    const every = matches(from, markets, markets);
    await publishEvents(nats, every);
    await storedAfter(every.at(-1)?.blockNumber ?? from);
    const all = (performance.now() - before) / 1_000;
    const allMemory = peakMiB(projector.pid);
    await projector.stop();
    const row = (what: string, value: number) => ({ what, value: readable(value) });
    return [
      row('until it projects, seconds', projecting),
      row(`until a block with ${Math.min(MATCHES, markets)} markets is stored, seconds`, stored),
      row('peak of its memory until then, MiB', memory),
      row(`blocks that name all ${readable(markets)} markets, seconds`, all),
      row('peak of its memory until then, MiB', allMemory),
    ];
  } finally {
    await nats.close();
    await client.close();
    await parts.stop();
    directory.remove();
  }
}

/** Rows of bookings without those of its views, which would take most of the time, and those of market_traders. */
async function makePositions(client: ClickHouseClient, positions: number, markets: number) {
  const market = `unhex(leftPad(hex(${BigInt(conditionId(0))} + number % ${markets}), 64, '0'))`;
  const trader = 'substring(SHA1(toString(number)), 1, 20)';
  const statements = [
    'CREATE TABLE made AS bookings',
    `INSERT INTO made (block_number, block_time, log_index, event_log_index, condition_id, trader, shares, usdc,
       position_shares, position_cost, partition, batch_id)
     SELECT 1 + number % ${BLOCK - 1}, ${TIME}, number, number, ${market}, ${trader}, 1000000 + number, 500000,
       1000000 + number, 500000, number % 16, 1
     FROM numbers(${positions})`,
    `ALTER TABLE bookings ATTACH PARTITION 202611 FROM made`,
    'DROP TABLE made',
    `INSERT INTO market_traders (condition_id, trader, position, fills)
     SELECT ${market}, ${trader}, (1 + number % ${BLOCK - 1}, 0, 1000000 + number, 500000, 10), 1
     FROM numbers(${positions})`,
  ];
  for (const query of statements) await client.command({ query });
}

function match(number: number, market: number, logIndex: number): Match {
  return {
    ...{ kind: 'match', blockNumber: number, blockTime: TIME + number, logIndex },
    ...{ txHash: blockHash(number), exchange: traderAddress(1), conditionId: conditionId(market) },
    fills: [
      {
        ...{ logIndex: logIndex - 1, orderHash: blockHash(logIndex), trader: traderAddress(2) },
        ...{ isTaker: true, side: 'BUY', outcomeIndex: 0, tokenId: '1' },
        ...{ shares: 1_000_000n, usdc: 500_000n, fee: 0n },
      },
    ],
  };
}

/** A match in each of `count` of the markets, evenly spread over them, in blocks from this one on. */
function matches(from: number, count: number, markets: number): readonly Match[] {
  const step = Math.floor(markets / count);
  return Array.from({ length: count }, (_, i) => {
    const number = from + Math.floor(i / MATCHES_PER_BLOCK);
    return match(number, i * step, (i % MATCHES_PER_BLOCK) * 2 + 1);
  });
}
