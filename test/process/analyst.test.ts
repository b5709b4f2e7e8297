/**
 * An analyst's first hour, as the read-only user of the embedded endpoint over plain HTTP, on the data of a real
 * devnet: look around and run the examples. Rejected statements: rules/analyst-guard.test.ts. Results of the
 * examples: rules/analyst-examples.test.ts.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { weightedUsd } from '../../api/analytics/trader-windows.ts';
import { nearest } from '../support/prices.ts';
import {
  type Devnet,
  rpc,
  settled,
  startDevnet,
  temporaryDirectory,
  until,
} from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

const EXAMPLES = join(import.meta.dirname, '../../sql/analyst/examples');
const NAMES = readdirSync(EXAMPLES).sort();

type RawRow = {
  readonly kind: 'fill' | 'settlement' | 'movement';
  readonly trader: string;
  readonly condition: string;
  readonly is_taker: boolean;
  readonly side: 'BUY' | 'SELL' | 'NONE';
  readonly outcome: number;
  readonly shares: string;
  readonly usdc: string;
  readonly pnl: string;
};

let directory: ReturnType<typeof temporaryDirectory>;
let devnet: Devnet;
let parts: Parts;
let raw: readonly RawRow[];

beforeAll(async () => {
  directory = temporaryDirectory();
  devnet = await startDevnet(join(directory.path, 'devnet'), { matches: 1_000, days: 6, rate: 0 });
  parts = await startParts(join(directory.path, 'parts'), ['ingest', 'projector'], devnet.env);
  await settled(parts, Number(await rpc<string>(devnet.rpcUrl, 'eth_blockNumber', [])));
  await until(async () => {
    const [row] = await parts.query<Record<'booked' | 'known' | 'markets' | 'tagged', string>>(
      `SELECT uniqExact(condition_id) AS booked,
         uniqExactIf(condition_id, condition_id IN (SELECT condition_id FROM markets)) AS known,
         (SELECT count() FROM markets FINAL) AS markets,
         (SELECT count() FROM market_dictionary) AS tagged FROM bookings`,
    );
    return (row?.booked === row?.known && row?.markets === row?.tagged) || undefined;
  });
  for (const view of ['leaderboard_7d_mv', 'market_counts_mv', 'market_stats_mv']) {
    await parts.query(`SYSTEM REFRESH VIEW ${view}`);
    await parts.query(`SYSTEM WAIT VIEW ${view}`);
  }
  raw = await parts.query<RawRow>(
    `SELECT kind, lower(hex(trader)) AS trader, lower(hex(condition_id)) AS condition,
       is_taker, side, outcome_index AS outcome, toString(shares) AS shares, toString(usdc) AS usdc,
       toString(realised_pnl) AS pnl
     FROM bookings`,
  );
});

afterAll(async () => {
  await parts?.stop();
  await devnet?.process.stop();
  directory?.remove();
});

/** Status and text of a statement's response, as `analyst`. */
async function ask(statement: string, settings: Readonly<Record<string, string>> = {}) {
  const search = new URLSearchParams({ database: 'analyst', ...settings });
  const response = await fetch(`${new URL(parts.env.CLICKHOUSE_URL).origin}/?${search}`, {
    method: 'POST',
    body: statement,
  });
  return { status: response.status, text: await response.text() };
}

async function rowsOf(statement: string): Promise<readonly Record<string, string>[]> {
  const settings = { default_format: 'JSONEachRow', output_format_json_quote_decimals: '1' };
  const { status, text } = await ask(statement, settings);
  expect(status, text).toBe(200);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/** Micro-units as the views show them. */
function decimal(micro: bigint): string {
  const digits = `${micro < 0n ? -micro : micro}`.padStart(7, '0');
  const text = `${digits.slice(0, -6)}.${digits.slice(-6)}`.replace(/\.?0+$/, '');
  return micro < 0n ? `-${text}` : text;
}

describe('looking around', () => {
  test('lists the tables with their comments', async () => {
    const tables = await rowsOf(
      "SELECT name, comment FROM system.tables WHERE database = 'analyst' ORDER BY name",
    );
    expect(tables.map((row) => row.name)).toEqual([
      ...['activity', 'balances', 'fills', 'holders', 'leaderboards', 'market_stats', 'markets'],
      ...['movements', 'position_events', 'positions'],
      ...['prices_1m', 'settlements', 'trader_days', 'trader_hours', 'traders', 'trades'],
    ]);
    expect(tables.every((row) => row.comment !== '')).toBe(true);
  });

  test('describes a table with the meaning of each column', async () => {
    const columns = await rowsOf('DESCRIBE TABLE fills');
    expect(columns.length).toBeGreaterThan(15);
    expect(columns.every((row) => row.comment !== '')).toBe(true);
  });

  test('shows all fills, settlements and movements, in USDC', async () => {
    const [row] = await rowsOf(
      `SELECT (SELECT count() FROM fills) AS fills, (SELECT count() FROM settlements) AS settlements,
         (SELECT count() FROM movements) AS movements,
         (SELECT sum(realised_pnl) FROM trader_hours) AS pnl`,
    );
    const count = (kind: RawRow['kind']) => String(raw.filter((one) => one.kind === kind).length);
    expect(row).toEqual({
      fills: count('fill'),
      settlements: count('settlement'),
      movements: count('movement'),
      pnl: decimal(raw.reduce((sum, one) => sum + BigInt(one.pnl), 0n)),
    });
  });

  test('joins every view with every other', async () => {
    const [row] = await rowsOf(
      `SELECT count() AS rows FROM positions AS a
       INNER JOIN positions AS b ON b.condition_id = a.condition_id
       INNER JOIN traders AS t ON t.trader = a.trader
       INNER JOIN traders AS u ON u.trader = b.trader
       INNER JOIN markets AS m ON m.condition_id = a.condition_id
       LEFT JOIN leaderboards AS l ON l.trader = t.trader AND l.time_frame = '7D' AND l.tag = 'all'`,
    );
    const held = await rowsOf('SELECT condition_id, count() AS n FROM positions GROUP BY 1');
    expect(Number(row?.rows)).toBe(held.reduce((sum, one) => sum + Number(one.n) ** 2, 0));
  });
});

describe('prices and positions', () => {
  const last = <Row>(rows: readonly Row[]) => rows.at(-1);

  test('a trade is the fill of its taker, at the price of outcome 0', async () => {
    const expected = raw
      .filter((row) => row.kind === 'fill' && row.is_taker)
      .map((row) => {
        const [shares, usdc] = [BigInt(row.shares), BigInt(row.usdc)];
        const up = (row.side === 'BUY') === (row.outcome === 0);
        const price = nearest(row.outcome === 0 ? usdc : shares - usdc, shares);
        const condition = `0x${row.condition}`;
        return `${condition} 0x${row.trader} ${decimal(BigInt(price))} ${decimal(up ? shares : -shares)}`;
      });
    const found = await rowsOf(
      'SELECT condition_id, trader, price_yes, signed_shares FROM trades WHERE shares > 0',
    );
    expect(found.map((row) => Object.values(row).join(' ')).sort()).toEqual(expected.sort());
    const [own] = await rowsOf(
      `SELECT countIf(f.price_yes = t.price_yes AND f.signed_shares = t.signed_shares) AS same, count() AS n
       FROM trades AS t INNER JOIN fills AS f ON f.block_number = t.block_number AND f.log_index = t.log_index`,
    );
    expect(own).toEqual({ same: String(expected.length), n: String(expected.length) });
  });

  test('candles, days, holders and statistics of markets agree with trades, hours and positions', async () => {
    const same = async (one: string, other: string) => {
      const rows = await rowsOf(one);
      expect(rows.length).toBeGreaterThan(0);
      expect(rows).toEqual(await rowsOf(other));
    };
    await same(
      `SELECT condition_id, minute, open, close, volume, shares, matches FROM prices_1m ORDER BY 1, 2`,
      `SELECT condition_id, toStartOfMinute(time) AS minute, argMin(price_yes, (block_number, log_index)) AS open,
         argMax(price_yes, (block_number, log_index)) AS close,
         sum(usdc) AS volume, sum(t.shares) AS shares, count() AS matches
       FROM trades AS t WHERE t.shares > 0 GROUP BY 1, 2 ORDER BY 1, 2`,
    );
    // The extremes of a minute are stored rounded down.
    expect(
      await rowsOf(
        `SELECT count() AS far FROM prices_1m AS p INNER JOIN
           (SELECT condition_id, toStartOfMinute(time) AS minute, max(price_yes) AS high, min(price_yes) AS low
            FROM trades WHERE shares > 0 GROUP BY 1, 2) AS t ON t.condition_id = p.condition_id AND t.minute = p.minute
         WHERE abs(p.high - t.high) > 0.000001 OR t.low - p.low NOT BETWEEN 0 AND 0.000001
           OR p.high < greatest(p.open, p.close) OR p.low > least(p.open, p.close)`,
      ),
    ).toEqual([{ far: '0' }]);
    const sums = 'sum(realised_pnl) AS pnl, sum(taker_volume) AS volume, sum(fills) AS n';
    await same(
      `SELECT trader, day, category, ${sums} FROM trader_days GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
      `SELECT trader, toDate(hour) AS day, category, ${sums} FROM trader_hours GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
    );
    const columns =
      'trader, condition_id, outcome, shares, cost_basis, open_fees, mark, mark_source, value';
    await same(
      `SELECT ${columns} FROM positions ORDER BY 1, 2`,
      `SELECT ${columns} FROM holders ORDER BY 1, 2`,
    );
    await same(
      `SELECT condition_id, open_interest FROM market_stats WHERE open_interest > 0 ORDER BY 1`,
      `SELECT condition_id, sum(shares) AS open_interest FROM holders WHERE outcome_index = 0 GROUP BY 1 ORDER BY 1`,
    );
    await same(
      `SELECT condition_id, category, volume, matches, last_match_at FROM market_stats ORDER BY 1`,
      `SELECT condition_id, any(category) AS category, sum(usdc) AS volume, count() AS matches,
         max(time) AS last_match_at FROM trades GROUP BY 1 ORDER BY 1`,
    );
  });

  test('a position has the value of its shares at the last match of its market', async () => {
    const held = await rowsOf('SELECT * FROM positions ORDER BY trader, condition_id');
    expect(held.length).toBeGreaterThan(10);
    const micro = (text = '') => BigInt(Math.round(Number(text) * 1e6));
    const trades = await rowsOf(
      'SELECT * FROM trades WHERE shares > 0 ORDER BY block_number, log_index',
    );
    for (const row of held.filter((one) => one.mark_source === 'last_match')) {
      const match = last(trades.filter((one) => one.condition_id === row.condition_id)) ?? {};
      const [shares, usdc] = [micro(match.shares), micro(match.usdc)];
      const worth = match.outcome_index === row.outcome_index ? usdc : shares - usdc;
      const value = (micro(row.shares) * worth) / shares;
      expect(row.value).toBe(decimal(value));
      expect(row.unrealised_pnl).toBe(
        decimal(value - micro(row.cost_basis) - micro(row.open_fees)),
      );
      expect(row.marked_at).toBe(match.time);
    }
  });

  test('the category of a market has the weight of the market in the weighted volume', async () => {
    const rows = await rowsOf('SELECT tags, category FROM markets');
    const weightOf = (tags: readonly string[]) => weightedUsd([{ tags, unweighted: 1_000_000n }]);
    for (const { tags, category } of rows) {
      expect(weightOf([category ?? ''])).toBe(weightOf(tags as unknown as readonly string[]));
    }
    expect(new Set(rows.map((row) => row.category)).size).toBeGreaterThan(6);
  });
});

describe('the examples', () => {
  test('are nineteen', () => expect(NAMES).toHaveLength(19));

  test.each(NAMES.slice(10, 15))('%s has ten lines or fewer', (name) => {
    const lines = readFileSync(join(EXAMPLES, name), 'utf8').trimEnd().split('\n');
    expect(lines.filter((line) => !line.startsWith('--')).length).toBeLessThanOrEqual(10);
  });

  test.each(NAMES)('%s returns rows', async (name) => {
    const statement = readFileSync(join(EXAMPLES, name), 'utf8');
    expect(statement).toMatch(/^-- [A-Z][^?]*\?/);
    expect((await rowsOf(statement)).length).toBeGreaterThan(0);
  });
});
