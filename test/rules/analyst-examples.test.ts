/**
 * Compares each of the analysts' examples with a result that is computed here from the raw rows without SQL, on a ledger
 * with cases that queries often get wrong (support/analyst-ledger.ts). process/analyst.test.ts runs them on a real
 * devnet.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { refreshView } from '../../infra/clickhouse.ts';
import { batchesOf } from '../../projector/fold/batches.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import { Store } from '../../projector/store.ts';
import {
  type Book,
  dayText,
  decimal,
  down,
  fillsOf,
  groups,
  type Row,
  readBook,
  signedShares,
  sum,
  timeText,
  up,
  yesPrice,
} from '../support/analyst-book.ts';
import { awkwardLedger, LISTINGS } from '../support/analyst-ledger.ts';
import { blockHash } from '../support/ledger-generator.ts';
import { nearest } from '../support/prices.ts';
import { SEED } from '../support/seed.ts';
import { DATABASE, type Schema, startSchema } from '../support/stack.ts';

const ROOT = join(import.meta.dirname, '../..');
const EXAMPLES = join(ROOT, 'sql/analyst/examples');
const NAMES = readdirSync(EXAMPLES).sort();
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
/** The tags that have a leaderboard. */
const BOARDS = [
  ...['sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech'],
  ...['economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer'],
  ...['tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];
const NAMED = '0x0000000000000000000000000000001000000003';

type Answer = readonly Readonly<Record<string, unknown>>[];

let schema: Schema;
let book: Book;

beforeAll(async () => {
  schema = await startSchema();
  const { client } = schema;
  const now = await serverNow();
  console.log(`SEED=${SEED} now=${now}`);
  const positions = new OpenPositions();
  const events = awkwardLedger(SEED, now);
  const store = new Store(client, [0], { database: DATABASE, cluster: undefined });
  await store.writeFacts(events.filter((event) => event.kind === 'resolution'));
  const booked = events.map((event) => ({
    blockHash: blockHash(event.blockNumber),
    rows: positions.apply(event),
  }));
  for (const batch of batchesOf(booked)) await store.writeBatch(batch);
  await client.insert({
    table: 'markets',
    format: 'JSONEachRow',
    columns: [
      ...(['condition_id_hex', 'market_id', 'question', 'slug', 'series_slug', 'tags'] as const),
      ...['outcomes', 'token_ids', 'sports_market_type'],
    ],
    values: LISTINGS.map((listing) => ({
      condition_id_hex: listing.conditionId.slice(2),
      ...{ market_id: listing.marketId, question: listing.question, slug: listing.slug },
      ...{ series_slug: listing.seriesSlug, tags: listing.tags, outcomes: listing.outcomes },
      ...{ token_ids: listing.tokenIds, sports_market_type: listing.sportsMarketType },
    })),
  });
  await client.command({
    query: `INSERT INTO traders (trader, name) VALUES (unhex('${NAMED.slice(2)}'), 'Ann')`,
  });
  await client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
  for (const view of ['leaderboard_7d_mv', 'market_counts_mv', 'market_stats_mv'])
    await refreshView(client, view);
  book = await readBook(schema);
});

afterAll(() => schema?.stop());

async function serverNow(): Promise<number> {
  const [row] = await schema.rows<{ now: string }>(
    'SELECT toString(toUnixTimestamp(now())) AS now',
  );
  return Number(row?.now);
}

/** Rows of a statement, as the analyst. */
async function ask(statement: string): Promise<Answer> {
  const settings = new URLSearchParams({
    ...{ default_format: 'JSONEachRow', output_format_json_quote_decimals: '1' },
    // Otherwise inf and nan are shown as null.
    output_format_json_quote_denormals: '1',
  });
  const response = await fetch(`${new URL(schema.url).origin}/?${settings}`, {
    method: 'POST',
    body: statement,
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/**
 * No row of the ledger leaves a window within ten minutes, but windows of whole hours and days move at the start of an
 * hour.
 */
async function expectAnswer(statement: string, expected: (now: number) => Answer): Promise<void> {
  const now = await serverNow();
  const answer = await ask(statement);
  const isSameHour = hourOf(await serverNow()) === hourOf(now);
  if (!isSameHour) return expectAnswer(statement, expected);
  const rows = expected(now);
  expect(rows.length).toBeGreaterThan(0);
  expect(answer).toEqual(rows);
}

/** The expected rows of the example with this number at the given time. */
function example(number: number, expected: (now: number) => Answer): void {
  const name = NAMES[number - 1] ?? '';
  test(name, () => expectAnswer(readFileSync(join(EXAMPLES, name), 'utf8'), expected));
}

/** A double that was rounded to this many digits; halves may be rounded either way. */
function rounded(value: number, digits: number): unknown {
  return expect.closeTo(value, digits - 0.001);
}

const ratio = (a: bigint, b: bigint) => Number(a) / Number(b);
const hourOf = (time: number) => time - (time % HOUR);
const minuteOf = (time: number) => time - (time % MINUTE);
const takersOf = (rows: readonly Row[]) => rows.filter((row) => row.isTaker);
const makersOf = (rows: readonly Row[]) => rows.filter((row) => !row.isTaker);
const volumeOf = (rows: readonly Row[]) => sum(fillsOf(rows), (row) => row.usdc);
const sharesOf = (rows: readonly Row[]) => sum(rows, (row) => row.shares);
const pnlOf = (rows: readonly Row[]) => sum(rows, (row) => row.pnl);
const countOf = (list: Iterable<unknown>) => String(new Set(list).size);
const isBefore = (a: Row, b: Row) => a.block < b.block || (a.block === b.block && a.log < b.log);

test('the ledger has the cases that break wrong queries', () => {
  const now = book.bookings.at(-1)?.time ?? 0;
  const ties = groups(book.priced, (row) => `${row.condition} ${row.time}`).map(([, rows]) => rows);
  expect(
    ties.filter((rows) => new Set(rows.map((row) => row.block)).size > 1).length,
  ).toBeGreaterThan(50);
  expect(book.bookings.some((row) => row.isTaker && row.shares === 0n)).toBe(true);
  expect(book.priced.some((row) => row.usdc > row.shares)).toBe(true);
  const labels = book.listings.map(({ outcomes }) => outcomes);
  expect(labels.filter(([one, other]) => one === other).length).toBeGreaterThan(5);
  expect(book.boardOf(now, 'all').filter((entry) => entry.pnl > 0n).length).toBeGreaterThan(20);
  const outcomes = new Map(
    groups(book.openPositions(), (row) => `${row.condition} ${row.held.outcome}`),
  );
  expect(Math.max(...[...outcomes.values()].map((rows) => rows.length))).toBeGreaterThan(25);
});

describe('the examples', () => {
  test('are nineteen', () => expect(NAMES).toHaveLength(19));

  example(1, (now) =>
    BOARDS.toSorted(up).flatMap((tag) =>
      book
        .boardOf(now, tag)
        .filter((entry) => entry.pnl > 0n)
        .slice(0, 3)
        .map(({ trader, pnl, cost, volume, markets }) => ({
          ...{ tag, trader, realised_pnl: decimal(pnl), volume: decimal(volume) },
          roi_percent: cost === 0n ? 0 : rounded(100 * ratio(pnl, cost), 2),
          markets: markets.length,
          wins: markets.filter((own) => own > 0n).length,
        })),
    ),
  );

  example(2, (now) =>
    groups(book.since(hourOf(now - 7 * DAY)), (row) => timeText(hourOf(row.time)))
      .sort(([a], [b]) => up(a, b))
      .map(([hour, rows]) => {
        const fills = fillsOf(rows);
        return {
          hour,
          maker_usdc: decimal(volumeOf(makersOf(fills))),
          taker_usdc: decimal(volumeOf(takersOf(fills))),
          fees: decimal(sum(fills, (row) => row.fee)),
          traders: countOf(fills.map((row) => row.trader)),
        };
      }),
  );

  example(3, (now) => {
    const rows = book
      .fillsSince(now - 7 * DAY)
      .filter(
        (row) =>
          row.side === 'BUY' && row.shares > 0n && book.winnerOf(row.condition) !== undefined,
      );
    return groups(rows, (row) => `${tenth(BigInt(nearest(row.usdc, row.shares)))}`)
      .sort(([a], [b]) => up(a, b))
      .map(([bucket, list]) => {
        const bought = sharesOf(list);
        const won = sharesOf(list.filter((row) => book.winnerOf(row.condition) === row.outcome));
        return {
          price_from: Number(bucket) / 10,
          fills: String(list.length),
          ...{ shares_bought: decimal(bought), shares_won: decimal(won) },
          won_percent: rounded(100 * ratio(won, bought), 1),
        };
      });
  });

  example(4, (now) =>
    groups(
      book.since(hourOf(now - 7 * DAY)),
      (row) => book.listingOf(row.condition)?.series || '(none)',
    )
      .map(([series_name, rows]) => {
        const fills = fillsOf(rows);
        const fees = sum(fills, (row) => row.fee);
        return { series_name, fees, taken: volumeOf(takersOf(fills)) };
      })
      .sort((a, b) => down(a.fees, b.fees) || up(a.series_name, b.series_name))
      .map(({ series_name, fees, taken }) => ({
        ...{ series_name, fees: decimal(fees), taker_usdc: decimal(taken) },
        fee_percent: taken === 0n ? null : rounded(100 * ratio(fees, taken), 3),
      })),
  );

  example(5, (now) => {
    const market = book.busiest(
      now,
      (condition) => book.listingOf(condition) !== undefined && !book.resolutions.has(condition),
    );
    return ([0, 1] as const).flatMap((outcome) =>
      book
        .openPositions()
        .filter((row) => row.condition === market && row.held.outcome === outcome)
        .sort((a, b) => down(a.held.shares, b.held.shares) || up(a.trader, b.trader))
        .slice(0, 25)
        .map((row) => ({
          ...book.valued(row).columns,
          trader: row.trader,
          name: row.trader === NAMED ? 'Ann' : '',
        })),
    );
  });

  example(6, (now) =>
    groups(book.fillsSince(now - 7 * DAY), (row) => `${row.trader} ${row.condition}`)
      .map(([key, rows]) => {
        const bought = rows.filter((row) => row.side === 'BUY');
        const price = (outcome: 0 | 1) => {
          const own = bought.filter((row) => row.outcome === outcome);
          const shares = sharesOf(own);
          return shares === 0n ? undefined : decimal((volumeOf(own) * 1_000_000n) / shares);
        };
        const pnl = pnlOf(rows);
        return { key, spent: volumeOf(bought), price_0: price(0), price_1: price(1), pnl };
      })
      .filter(({ price_0, price_1 }) => price_0 !== undefined && price_1 !== undefined)
      .sort((a, b) => down(a.spent, b.spent) || up(a.key, b.key))
      .slice(0, 50)
      .map(({ key, spent, price_0, price_1, pnl }) => ({
        ...{ trader: key.slice(0, 42), condition_id: key.slice(43), bought_usdc: decimal(spent) },
        ...{ price_0, price_1, realised_by_fills: decimal(pnl) },
      })),
  );

  example(7, (now) => {
    const rows = book
      .fillsSince(hourOf(now - 7 * DAY))
      .filter((row) => book.listingOf(row.condition));
    return groups(rows, (row) => book.listingOf(row.condition)?.type || '(no sports)')
      .map(([type, list]) => ({ type, list, taken: volumeOf(takersOf(list)) }))
      .sort((a, b) => down(a.taken, b.taken) || up(a.type, b.type))
      .map(({ type, list, taken }) => ({
        type,
        markets: countOf(list.map((row) => row.condition)),
        taker_usdc: decimal(taken),
        fills: String(list.length),
        traders: countOf(list.map((row) => row.trader)),
      }));
  });

  example(8, (now) => {
    const from = hourOf(now - 7 * DAY);
    const firsts = new Map<string, number>();
    for (const { trader, time } of book.fillsSince(0))
      if (!firsts.has(trader)) firsts.set(trader, time);
    const first = (row: Row) => firsts.get(row.trader) ?? 0;
    const rows = book.fillsSince(from).filter((row) => first(row) >= from);
    return groups(
      rows,
      (row) => `${dayText(first(row))} ${dayNumber(row.time) - dayNumber(first(row))}`,
    )
      .sort(([a], [b]) => up(a, b))
      .map(([key, list]) => ({
        cohort: key.slice(0, 10),
        days_later: key.slice(11),
        traders: countOf(list.map((row) => row.trader)),
        volume: decimal(volumeOf(list)),
      }));
  });

  example(9, (now) => {
    const market = book.busiest(now, () => true);
    const rows = book.priced.filter((row) => row.condition === market && row.time >= now - 7 * DAY);
    return groups(rows, (row) => timeText(row.time - (row.time % 900))).map(([quarter, list]) => {
      const shares = sharesOf(list);
      const paid = sum(list, (row) => (row.outcome === 0 ? row.usdc : row.shares - row.usdc));
      return {
        quarter,
        average_price: decimal((paid * 1_000_000n) / shares),
        last_price: decimal(yesPrice(list.at(-1) as Row)),
        shares_traded: decimal(shares),
      };
    });
  });

  example(10, (now) =>
    book
      .fillsSince(now - 8 * DAY)
      .flatMap((row) => {
        const { at, winner } = book.resolutions.get(row.condition) ?? { at: 0, winner: undefined };
        const before = at - row.time;
        const isLate = at >= now - 7 * DAY && before > 0 && before < HOUR;
        if (!isLate || row.side !== 'BUY' || row.outcome !== winner || row.shares === 0n) return [];
        return [{ row, winner, before, gain: row.shares - row.usdc - row.fee }];
      })
      .sort(
        (a, b) =>
          down(a.gain, b.gain) ||
          up(a.row.trader, b.row.trader) ||
          (isBefore(a.row, b.row) ? -1 : 1),
      )
      .slice(0, 50)
      .map(({ row, winner, before, gain }) => ({
        trader: row.trader,
        question: book.listingOf(row.condition)?.question,
        winning_outcome: book.listingOf(row.condition)?.outcomes[winner],
        seconds_before: String(before),
        ...{ is_taker: row.isTaker, shares: decimal(row.shares) },
        ...{ price: decimal(BigInt(nearest(row.usdc, row.shares))), gain: decimal(gain) },
      })),
  );

  example(11, (now) =>
    groups(
      book.bookings.filter(
        (row) => book.category(row) === 'politics' && dayNumber(row.time) > dayNumber(now) - 14,
      ),
      (row) => row.trader,
    )
      .map(([trader, rows]) => {
        const days = groups(rows, (row) => dayText(row.time)).map(([, own]) => pnlOf(own));
        const pnl = sum(days, (day) => day);
        const all = [...days, ...Array<bigint>(14 - days.length).fill(0n)];
        // 14 times the deviation of each day from the mean, so that it is a whole number.
        const squares = sum(all, (day) => (14n * day - pnl) ** 2n);
        const deviation = Math.sqrt(Number(squares) / 196 / 13) / 1e6;
        const mean = Number(pnl) / 14 / 1e6;
        // They are ranked by the shown figure.
        const sharpe = Math.round((100 * Math.sqrt(365) * mean) / deviation) / 100;
        return { trader, pnl, mean, deviation, sharpe };
      })
      .filter(({ deviation }) => deviation > 0)
      .sort((a, b) => down(a.sharpe, b.sharpe) || up(a.trader, b.trader))
      .slice(0, 20)
      .map(({ trader, pnl, mean, deviation, sharpe }) => ({
        ...{ trader, pnl: decimal(pnl), mean: rounded(mean, 9), deviation: rounded(deviation, 9) },
        sharpe,
      })),
  );

  example(12, (now) =>
    groups(
      book.fillsSince(now - DAY).filter((row) => {
        const tags = book.tagsOf(row.condition);
        return tags.includes('crypto') && tags.includes('5M') && !row.isTaker && row.shares > 0n;
      }),
      (row) => row.trader,
    )
      .map(([trader, rows]) => {
        const spread = sum(rows, (row) => {
          const close = book.lastPriced(
            row.condition,
            ({ time }) => minuteOf(time) === minuteOf(row.time),
          );
          return signedShares(row) * (yesPrice(close as Row) - yesPrice(row));
        });
        return { trader, volume: volumeOf(rows), spread };
      })
      .sort((a, b) => down(a.volume, b.volume) || up(a.trader, b.trader))
      .slice(0, 20)
      .map(({ trader, volume, spread }) => ({
        ...{ trader, volume: decimal(volume), spread: decimal(spread, 12) },
        basis_points: rounded((10_000 * ratio(spread, volume)) / 1e6, 1),
      })),
  );

  example(13, (now) =>
    groups(
      book.priced.filter((row) => row.time >= now - DAY && row.time <= now - 10 * MINUTE),
      (row) => row.trader,
    )
      .map(([trader, rows]) => {
        const moves = rows.filter((row) => {
          const end = minuteOf(row.time + 10 * MINUTE);
          const later = book.lastPriced(row.condition, ({ time }) => time < end);
          const move = yesPrice(later as Row) - yesPrice(row);
          return (signedShares(row) > 0n ? move : -move) >= 100_000n;
        });
        return { trader, rows, moves: moves.length };
      })
      .sort(
        (a, b) =>
          down(a.moves, b.moves) || up(a.rows.length, b.rows.length) || up(a.trader, b.trader),
      )
      .slice(0, 20)
      .map(({ trader, rows, moves }) => ({
        ...{ trader, trades: String(rows.length), volume: decimal(volumeOf(rows)) },
        before_moves: String(moves),
      })),
  );

  example(14, (now) => {
    const takers = takersOf(book.bookings);
    const categories = [...new Set(takers.map((row) => book.category(row)))];
    const compared = Array.from({ length: 7 }, (_, i) => dayNumber(now) - 1 - i).flatMap((day) => {
      const traded = (on: number, of: string) =>
        takers.filter((row) => dayNumber(row.time) === on && book.category(row) === of);
      return categories
        .filter((of) => traded(day, of).length + traded(day - 7, of).length > 0)
        .map((of) => ({
          of,
          volume: volumeOf(traded(day, of)),
          before: volumeOf(traded(day - 7, of)),
        }))
        .sort((a, b) => down(a.volume, b.volume) || up(a.of, b.of))
        .map(({ of, volume, before }) => ({
          ...{ day: dayText(day * DAY), category: of },
          ...{ volume: decimal(volume), week_before: decimal(before) },
          change_percent: before === 0n ? null : rounded(100 * (ratio(volume, before) - 1), 1),
        }));
    });
    expect(new Set(compared.map((row) => row.change_percent))).toContain(null);
    expect(compared.some((row) => row.volume === '0')).toBe(true);
    return compared;
  });

  example(15, () => {
    const open = book.openPositions();
    const [market] = groups(open, (row) => row.condition)
      .map(([condition, rows]) => ({ condition, rows, interest: openInterest(rows) }))
      .sort((a, b) => down(a.interest, b.interest) || down(a.condition, b.condition));
    const [holder] = (market?.rows ?? []).toSorted(
      (a, b) => down(a.held.shares, b.held.shares) || down(a.trader, b.trader),
    );
    const all = book.bookings.filter((row) => row.trader === holder?.trader);
    return open
      .filter((row) => row.trader === holder?.trader)
      .map((row) => ({ row, ...book.valued(row) }))
      .sort((a, b) => down(a.value, b.value) || up(a.row.condition, b.row.condition))
      .slice(0, 100)
      .map(({ row, columns, markedAt }) => {
        const own = all.filter(({ condition }) => condition === row.condition);
        return {
          ...columns,
          marked_at: markedAt,
          realised_pnl: decimal(pnlOf(own)),
        };
      });
  });

  example(16, (now) =>
    groups(
      book
        .fillsSince(now - DAY)
        .filter((row) => !row.isTaker && row.shares > 0n)
        .flatMap((row) => [5, 60, 300, 3_600].map((after) => ({ row, after })))
        .filter(({ row, after }) => row.time <= now - after),
      ({ row, after }) => `${book.category(row)} ${String(after).padStart(4, '0')}`,
    )
      .sort(([a], [b]) => up(a, b))
      .map(([key, list]) => {
        const gain = sum(list, ({ row, after }) => {
          const later = book.lastPriced(row.condition, ({ time }) => time <= row.time + after);
          return signedShares(row) * (yesPrice(later as Row) - yesPrice(row));
        });
        const volume = sum(list, ({ row }) => row.usdc);
        return {
          category: key.split(' ')[0],
          seconds_after: Number(key.split(' ')[1]),
          volume: decimal(volume),
          basis_points: rounded((10_000 * ratio(gain, volume)) / 1e6, 1),
        };
      }),
  );

  example(17, (now) => {
    const markets = [...book.resolutions].flatMap(([condition, { at, winner }]) => {
      const price = book.lastPriced(condition, ({ time }) => minuteOf(time) <= at - 61 * MINUTE);
      if (at < now - 30 * DAY || winner === undefined || price === undefined) return [];
      return [{ price: yesPrice(price), won: winner === 0 ? 1 : 0 }];
    });
    const average = (list: readonly number[]) => list.reduce((a, b) => a + b, 0) / list.length;
    return groups(markets, ({ price }) => `${tenth(price)}`)
      .sort(([a], [b]) => up(a, b))
      .map(([bucket, list]) => {
        const prices = list.map(({ price }) => Number(price) / 1e6);
        return {
          price_from: Number(bucket) / 10,
          markets: String(list.length),
          average_price: rounded(average(prices), 3),
          won_percent: rounded(100 * average(list.map(({ won }) => won)), 1),
          brier_score: rounded(average(list.map(({ won }, i) => ((prices[i] ?? 0) - won) ** 2)), 4),
        };
      });
  });

  example(18, (now) => {
    const open = book.bookings.filter((row) => row.isTaker && !book.resolutions.has(row.condition));
    const rows = groups(open, (row) => book.category(row))
      .map(([name, list]) => ({
        ...{ name, list, volume: volumeOf(list) },
        interest: openInterest(book.openPositions().filter((row) => book.category(row) === name)),
        day: volumeOf(list.filter((row) => row.shares > 0n && row.time >= minuteOf(now - DAY))),
      }))
      .sort((a, b) => down(a.interest, b.interest) || up(a.name, b.name))
      .map(({ name, list, volume, interest, day }) => ({
        category: name,
        markets: countOf(list.map((row) => row.condition)),
        ...{ open_interest: decimal(interest), volume: decimal(volume), volume_24h: decimal(day) },
        turnover_24h: interest === 0n ? null : rounded(ratio(day, interest), 3),
      }));
    expect(new Set(rows.map((row) => row.turnover_24h))).toContain(null);
    return rows;
  });

  example(19, (now) => {
    const leaders = book
      .boardOf(now, 'all')
      .slice(0, 20)
      .map(({ trader }) => trader);
    const trades = book.priced.filter((row) => row.time >= now - 7 * DAY);
    const led = trades.filter((row) => leaders.includes(row.trader));
    const follows = trades.flatMap((row) => {
      const leader = led.findLast(
        (one) =>
          one.condition === row.condition &&
          signedShares(one) > 0n === signedShares(row) > 0n &&
          one.trader !== row.trader &&
          one.time < row.time,
      );
      return leader === undefined || row.time > leader.time + HOUR ? [] : [{ row, leader }];
    });
    expect(follows.some(({ row }) => leaders.includes(row.trader))).toBe(true);
    return groups(follows, ({ row, leader }) => `${leader.trader} ${row.trader}`)
      .map(([key, list]) => ({ key, list, volume: sum(list, ({ row }) => row.usdc) }))
      .sort(
        (a, b) =>
          down(a.list.length, b.list.length) || down(a.volume, b.volume) || up(a.key, b.key),
      )
      .slice(0, 50)
      .map(({ key, list, volume }) => {
        const seconds = list.reduce((all, { row, leader }) => all + row.time - leader.time, 0);
        return {
          ...{ leader: key.slice(0, 42), follower: key.slice(43), follows: String(list.length) },
          markets: countOf(list.map(({ row }) => row.condition)),
          volume: decimal(volume),
          seconds_after: rounded(seconds / list.length, 0),
        };
      });
  });
});

describe('examples/python/analysis.py', () => {
  const text = readFileSync(join(ROOT, 'examples/python/analysis.py'), 'utf8');
  const queries = [...text.matchAll(/rows\("""(.*?)"""\)/gs)].map(([, sql = '']) => sql);

  test('volume of the last days', () =>
    expectAnswer(queries[0] ?? '', (now) =>
      groups(
        book.bookings.filter((row) => row.isTaker && row.time >= now - 7 * DAY),
        (row) => dayText(row.time),
      )
        .sort(([a], [b]) => down(a, b))
        .map(([day, rows]) => ({
          day,
          volume: expect.toSatisfy(
            (value) => Math.abs(Number(value) - Number(volumeOf(rows)) / 1e6) <= 0.5,
          ),
          matches: String(rows.length),
          takers: countOf(rows.map((row) => row.trader)),
        })),
    ));

  test('price and how often it won', () =>
    expectAnswer(queries[1] ?? '', () =>
      groups(
        book.priced.filter((row) => book.winnerOf(row.condition) !== undefined),
        (row) => `${(yesPrice(row) / 100_000n) * 10n}`,
      )
        .sort(([a], [b]) => up(Number(a), Number(b)))
        .map(([from_cents, rows]) => {
          const won = rows.filter((row) => book.winnerOf(row.condition) === 0).length;
          return {
            ...{ from_cents, trades: String(rows.length) },
            won_percent: rounded((100 * won) / rows.length, 0),
          };
        }),
    ));

  test('winners, two weeks later', () =>
    expectAnswer(queries[2] ?? '', (now) => {
      const age = (row: Row) => dayNumber(now) - dayNumber(row.time);
      const best = groups(
        book.bookings.filter((row) => age(row) < 28),
        (row) => row.trader,
      )
        .map(([trader, rows]) => ({
          trader,
          before: pnlOf(rows.filter((row) => age(row) >= 14)),
          later: pnlOf(rows.filter((row) => age(row) < 14)),
        }))
        .filter(({ before }) => before > 0n)
        .sort((a, b) => down(a.before, b.before) || up(a.trader, b.trader))
        .slice(0, 100);
      const total = sum(best, ({ later }) => later);
      return [
        {
          gained: String(best.filter(({ later }) => later > 0n).length),
          lost: String(best.filter(({ later }) => later < 0n).length),
          mean_dollars: rounded(Number(total) / best.length / 1e6, 2),
        },
      ];
    }));
});

/** 0 to 9, of a price in micro-USDC. */
function tenth(price: bigint): bigint {
  return price >= 1_000_000n ? 9n : price / 100_000n;
}

function dayNumber(time: number): number {
  return Math.floor(time / DAY);
}

/** Shares of outcome 0. */
function openInterest(rows: readonly Row[]): bigint {
  return sum(rows, ({ held }) => (held.outcome === 0 ? held.shares : 0n));
}
