/**
 * Leaderboards, the analysts' examples and the api's queries on a benchmark's data: every statement that
 * the analytics endpoints ask, through the api's own reader, one at a time, each with other parameters
 * than the one before; idle, and while LEDGER is written to and projected at INSERT_FILLS_PER_SECOND. What whole endpoints take,
 * statements side by side, is measured by `npm run bench:api`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createMetadata } from '../../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../../api/analytics/query.ts';
import { createSelect, type Select } from '../../../infra/clickhouse.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import { blocksOf, publishMetadata } from '../../support/ledger-generator.ts';
import { TestLedger } from '../../support/publish-ledger.ts';
import { start } from '../../support/service.ts';
import { answerUncached, type Case, casesOf } from './endpoint-calls.ts';
import { Exchange } from './exchange.ts';
import { listingOf, type Market } from './exchange-markets.ts';
import type { Dataset } from './fills.ts';
import { percentile, readable } from './report.ts';

const FRAMES = ['1h', '4h', '1d', '3d', '7d', '30d'] as const;
const CALLS = Number(process.env.CALLS || 200);
const WARM_CALLS = 30;
const EXAMPLES = join(import.meta.dirname, '../../../sql/analyst/examples');
const EXAMPLE_ROUNDS = 3;
const INSERT_FILLS_PER_SECOND = 10_000;
const INSERT_SECONDS_MAX = 180;

export async function refreshBoards({ parts }: Dataset) {
  const rows: { frame: string; 'refresh, ms': string; rows: string }[] = [];
  for (const frame of FRAMES) {
    await parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
    const startedAt = performance.now();
    await parts.query(`SYSTEM REFRESH VIEW leaderboard_${frame}_mv`);
    await parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
    const ms = readable(performance.now() - startedAt);
    const [row] = await parts.query<{ n: string }>(
      `SELECT toString(count()) AS n FROM leaderboard_${frame}`,
    );
    rows.push({ frame, 'refresh, ms': ms, rows: readable(Number(row?.n)) });
  }
  return rows;
}

/** As the analysts' user, over plain HTTP. Throws where one is refused. */
export async function measureExamples({ parts }: Dataset) {
  const url = `${new URL(parts.env.CLICKHOUSE_URL).origin}/?database=analyst`;
  const rows: { example: string; rows: string; ms: string }[] = [];
  for (const name of readdirSync(EXAMPLES).sort()) {
    const body = readFileSync(join(EXAMPLES, name), 'utf8');
    const times: number[] = [];
    let lines = 0;
    for (let round = 0; round < EXAMPLE_ROUNDS; round++) {
      const startedAt = performance.now();
      const response = await fetch(url, { method: 'POST', body });
      const text = await response.text();
      times.push(performance.now() - startedAt);
      if (response.status !== 200) throw new Error(`${name}: ${text}`);
      lines = text.split('\n').length - 1;
    }
    const ms = readable(percentile(times, 0.5));
    rows.push({ example: name.replace('.sql', ''), rows: String(lines), ms });
  }
  return rows;
}

export async function measureQueries(data: Dataset) {
  const select = createSelect({
    url: data.parts.env.CLICKHOUSE_URL,
    database: 'fillstream',
    name: 'bench',
  });
  // Those of a start come all at once, in a service each has its own time.
  for (const frame of FRAMES) await data.parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
  const idle = await times(select, data);
  const inserting = await whileInserting(data, () => times(select, data));
  return [...idle].map(([query, calls]) => {
    const busy = inserting.get(query) ?? [];
    return {
      query,
      'p50 idle': readable(percentile(calls, 0.5)),
      'p99 idle': readable(percentile(calls, 0.99)),
      'p50 inserting': busy.length === 0 ? '' : readable(percentile(busy, 0.5)),
      'p99 inserting': busy.length === 0 ? '' : readable(percentile(busy, 0.99)),
    };
  });
}

/** Milliseconds of each run of a statement, by the first request that asks it and its table. */
async function times(select: Select, data: Dataset) {
  const names = new Map<string, string>();
  const measured = new Map<string, number[]>();
  for (const one of casesOf(data)) {
    for (let i = 0; i < CALLS + WARM_CALLS; i++) {
      let last: Promise<unknown> = Promise.resolve();
      const alone: Select = (statement) => {
        const asked = last.then(async () => {
          const startedAt = performance.now();
          const rows = await select(statement);
          const name = nameOf(statement.sql, one, names);
          const calls = measured.get(name) ?? [];
          if (i >= WARM_CALLS) calls.push(performance.now() - startedAt);
          measured.set(name, calls);
          return rows;
        });
        last = asked.catch(() => undefined);
        return asked;
      };
      // Nothing is cached: every statement of a request runs.
      const metadata = createMetadata({ select: alone, queryMsMax: QUERY_MS_MAX });
      await answerUncached(one, i, { select: alone, metadata, now: Date.now });
    }
  }
  return new Map([...measured].filter(([, calls]) => calls.length >= CALLS / 2));
}

function nameOf(sql: string, { name }: Case, names: Map<string, string>): string {
  const known = names.get(sql) ?? `${name}: ${/FROM (\w+)/.exec(sql)?.[1]}`;
  names.set(sql, known);
  return known;
}

/** Runs `work` while a projector stores what is published at the rate, behind what is there. */
async function whileInserting<T>({ exchange, parts }: Dataset, work: () => Promise<T>): Promise<T> {
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  const ledger = await TestLedger.open(nats);
  const projector = start('projector/main.ts', [], parts.env);
  await projector.event('projecting');
  const now = Math.floor(Date.now() / 1_000);
  const options = {
    ...exchange,
    from: now,
    to: now + INSERT_SECONDS_MAX,
    // More than are published: a small exchange has fewer in minutes without a market of some series.
    fills: 3 * INSERT_FILLS_PER_SECOND * INSERT_SECONDS_MAX,
  };
  let done = false;
  const publishing = (async () => {
    const startedAt = performance.now();
    let fills = 0;
    const markets: Market[] = [];
    const events = new Exchange(options, (market) => markets.push(market)).events();
    for (const block of blocksOf(events)) {
      if (done) break;
      if (markets.length > 0) await publishMetadata(nats, markets.splice(0).map(listingOf));
      await ledger.publish([block]);
      fills += block.matches.reduce((sum, match) => sum + match.fills.length, 0);
      const aheadMs = (fills / INSERT_FILLS_PER_SECOND) * 1_000 - (performance.now() - startedAt);
      if (aheadMs > 20) await delay(aheadMs);
    }
  })();
  try {
    return await work();
  } finally {
    done = true;
    await publishing;
    ledger.close();
    await nats.close();
    await projector.stop();
  }
}
