/**
 * Each parameter that /openapi.json documents for the analytics endpoints changes live responses as
 * its description says. The effect of a parameter is stated once by its name, so it also applies to
 * endpoints that gain the parameter. A parameter without a stated effect fails.
 */
import { beforeAll, expect, test } from 'vitest';
import type { OpenApi, Operation } from '../../api/service/openapi.ts';
import { addressOf, MARKETS } from '../support/api-bookings.ts';
import { NOW } from '../support/api-expected.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';

const seeded = forFile(startSeeded);
let schemas: OpenApi['components']['schemas'];
let operations: readonly (readonly [path: string, operation: Operation])[];

const NOT_ANALYTICS = /\/stream|\/user\/|\/tiers|\/recent_matches|\/search|\/alerts|\/destinations/;

beforeAll(async () => {
  const document: OpenApi = (await get(`${seeded.api.url}/openapi.json`, undefined)).body;
  schemas = document.components.schemas;
  operations = Object.entries(document.paths).flatMap(([path, { get: operation }]) =>
    operation === undefined || NOT_ANALYTICS.test(path) ? [] : [[path, operation] as const],
  );
});

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, compared and not trusted.
type Element = any;
type Query = Readonly<Record<string, string>>;
type Asked = {
  readonly body: Element;
  readonly list: readonly Element[];
  readonly next: string | undefined;
};

/** One operation, for the effects. */
type Subject = {
  readonly path: string;
  /** The response with these parameters; those of the path have existing values. */
  readonly ask: (query: Query, values?: Query) => Promise<Asked>;
  /** The longest response that it has without the parameter. */
  readonly whole: Asked;
};

const cursorOf = ({ next }: Asked) =>
  new URL(next ?? '', 'http://localhost').searchParams.get('cursor') ?? '';

const KNOWN: Query = { address: addressOf(3), id: '1005', id_or_slug: '1005' };
const DAY = 86_400;

/** A point of PnL has the end of its hour. */
const startOf = ({ hour, time, unrealised_pnl }: Element) =>
  Date.parse(time ?? `${hour}Z`) / 1_000 - (unrealised_pnl === undefined ? 0 : 3_600);
/** An hour and a fill count by their start, a candle and a point of PnL by any time in it. */
const endOf = (entry: Element) =>
  startOf(entry) + ((entry.open ?? entry.unrealised_pnl) === undefined ? 1 : 3_600);

const atLeast = (field: string) => bound(field, 1);
const atMost = (field: string) => bound(field, -1);

/** The parameter keeps exactly the elements on its side of a value that divides them. */
function bound(field: string, sign: 1 | -1, unit = 1) {
  return async ({ ask }: Subject, name: string) => {
    const whole = await ask({ time_frame: '4H' });
    const figureOf = (entry: Element) => Number(entry[field]) / unit;
    const values = whole.list.map(figureOf).sort((a, b) => a - b);
    const middle = (values[0] ?? 0) + ((values.at(-1) ?? 0) - (values[0] ?? 0)) / 2;
    // A whole number has the form of every bound.
    const value = sign > 0 ? Math.ceil(middle) : Math.floor(middle);
    const kept = whole.list.filter((entry) => sign * (figureOf(entry) - value) >= 0);
    expect(kept.length).toBeGreaterThan(0);
    expect(kept.length).toBeLessThan(whole.list.length);
    const { body, list } = await ask({ time_frame: '4H', [name]: String(value) });
    expect(list.map((entry) => entry.profile)).toEqual(kept.map((entry) => entry.profile));
    expect(body.total_count).toBe(kept.length);
  };
}

/** The sort key of each order, greatest first, by the end of the path. The first order is the default. */
const FIGURES: Readonly<Record<string, Readonly<Record<string, (entry: Element) => number>>>> = {
  '/leaderboard': {
    pnl: (entry) => Number(entry.total_pnl),
    roi: (entry) => Number(entry.roi),
    win_rate: (entry) => Number(entry.win_rate),
    market_count: (entry) => Number(entry.markets_count),
    volume: (entry) => Number(entry.total_volume),
  },
  '/v2/markets': {
    volume_24h: (entry) => entry.volume_24h,
    volume: (entry) => entry.volume,
    traders: (entry) => entry.traders,
    change_24h: (entry) => entry.change_24h,
    newest: (entry) => Date.parse(entry.first_match_at),
    closing: (entry) => -Date.parse(entry.market.end_date || '9999-01-01'),
  },
  '/positions': {
    value: (position) => position.value,
    pnl: (position) => position.pnl,
    age: (position) => -Date.parse(position.first_trade_at),
    last_trade: (position) => Date.parse(position.last_trade_at),
  },
};

/** The response has some of the elements, at least one and not all, in their order. */
async function keeps({ ask, whole }: Subject, query: Query, isKept: (entry: Element) => boolean) {
  const kept = whole.list.filter(isKept);
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.length).toBeLessThan(whole.list.length);
  expect((await ask(query)).list).toEqual(kept);
}

/** The effect of each parameter, by its name. */
const EFFECTS: Readonly<Record<string, (subject: Subject, name: string) => Promise<void>>> = {
  async address({ ask }) {
    const [one, other] = [await ask({}), await ask({}, { address: addressOf(5) })];
    expect(other.body).not.toEqual(one.body);
    expect((await ask({}, { address: addressOf(5).toUpperCase() })).body).toEqual(other.body);
  },
  async id({ ask, path }) {
    const [one, other] = [await ask({}), await ask({}, { id: '1003' })];
    expect(other.body).not.toEqual(one.body);
    if (path.includes('/traders/')) return;
    // The lists of a market do not repeat it.
    if (path.endsWith('/{id}')) expect(Number(other.body.market.id)).toBe(1003);
    expect((await ask({}, { id: 'market-1003' })).body).toEqual(other.body);
    expect((await ask({}, { id: `0x${MARKETS[3]?.conditionId}` })).body).toEqual(other.body);
  },
  async id_or_slug({ ask }) {
    const { body } = await ask({}, { id_or_slug: 'market-1003' });
    expect(body.market.id).toBe('1003');
    expect((await ask({}, { id_or_slug: '1003' })).body).toEqual(body);
  },
  async limit({ ask, whole }) {
    expect((await ask({ limit: '2' })).list).toEqual(whole.list.slice(0, 2));
  },
  async offset({ ask, whole }) {
    const { body, list } = await ask({ offset: '2' });
    expect(list).toEqual(whole.list.slice(2));
    expect(body.total_count).toBe(whole.list.length);
  },
  async cursor({ ask, whole }) {
    const cursor = cursorOf(await ask({ limit: '2' }));
    expect((await ask({ cursor })).list).toEqual(whole.list.slice(2));
  },
  async order({ ask, whole }) {
    const [one, other] = [await ask({ order: 'asc' }), await ask({ order: 'desc' })];
    expect(one.list).toEqual(other.list.toReversed());
    expect([one.list, other.list]).toContainEqual(whole.list);
  },
  async time_frame({ ask, whole }) {
    expect((await ask({ time_frame: '30D' })).list).toEqual(whole.list);
    const volumes = [];
    for (const frame of ['1H', '4H', '1D', '3D', '7D', '30D']) {
      const { list } = await ask({ time_frame: frame });
      volumes.push(list.reduce((sum, entry) => sum + Number(entry.total_volume), 0));
    }
    expect(volumes).toEqual(volumes.toSorted((a, b) => a - b));
    expect(new Set(volumes).size).toBe(6);
  },
  async q({ ask, whole }) {
    const named = (text: string) =>
      whole.list.filter((entry) => entry.market.question.toLowerCase().includes(text));
    expect((await ask({ q: '1003' })).list).toEqual(named('1003'));
    expect((await ask({ q: 'of  QUESTION' })).list).toEqual(named('question'));
    expect((await ask({ q: 'event-1001' })).list).toEqual(named('1001'));
    expect((await ask({ q: 'question nowhere' })).list).toEqual([]);
  },
  event: (subject) =>
    keeps(subject, { event: 'EVENT-1005' }, (entry) => entry.market.event_slug === 'event-1005'),
  async sort_by({ ask, path, whole }) {
    const [form = ''] = Object.keys(FIGURES).filter((end) => path.endsWith(end));
    const figures = Object.entries(FIGURES[form] ?? {});
    const more: Query = form === '/positions' ? { status: 'all' } : {};
    expect((await ask({ sort_by: figures[0]?.[0] ?? '' })).list).toEqual(whole.list);
    for (const [sort_by, figureOf] of figures) {
      const query = { ...more, sort_by };
      const { list } = await ask(query);
      expect(list.length).toBeGreaterThan(2);
      const values = list.map(figureOf);
      expect(values).toEqual(values.toSorted((a, b) => b - a));
      expect((await ask({ ...query, order: 'asc' })).list).toEqual(list.toReversed());
      const cursor = cursorOf(await ask({ ...query, limit: '2' }));
      expect((await ask({ ...query, cursor })).list).toEqual(list.slice(2));
    }
  },
  async tag({ ask, whole }) {
    expect((await ask({ tag: 'all' })).body).toEqual(whole.body);
    const [sports, esports] = [await ask({ tag: 'sports' }), await ask({ tag: 'esports' })];
    expect(sports.body).not.toEqual(whole.body);
    expect(sports.body).not.toEqual(esports.body);
    expect((await ask({ tag: 'SPORTS' })).body).toEqual(sports.body);
    expect((await ask({ tag: 'All' })).body).toEqual(whole.body);
    const [five, nothing] = [await ask({ tag: '5M' }), await ask({ tag: 'weather' })];
    expect(five.body).not.toEqual(nothing.body);
    expect((await ask({ tag: '5m' })).body).toEqual(five.body);
  },
  async series({ ask, whole }) {
    const [x, y] = [await ask({ series: 'series-x' }), await ask({ series: 'series-y' })];
    expect(x.body).not.toEqual(whole.body);
    expect(x.body).not.toEqual(y.body);
    expect((await ask({ series: 'Series-X' })).body).toEqual(x.body);
  },
  min_win_rate: atLeast('win_rate'),
  max_win_rate: atMost('win_rate'),
  min_roi: atLeast('roi'),
  max_roi: atMost('roi'),
  min_market_count: atLeast('markets_count'),
  max_market_count: atMost('markets_count'),
  min_pnl: bound('total_pnl', 1, 1_000_000),
  async last_active_hours({ ask, whole }) {
    const newest = (entry: Element) =>
      Date.parse(entry.last_trade_at ?? entry.profile.last_trade_at) / 1_000;
    const kept = whole.list.filter((entry) => newest(entry) >= NOW - 3_600);
    expect(kept.length).toBeLessThan(whole.list.length);
    expect((await ask({ last_active_hours: '1' })).list.map((entry) => entry.profile)).toEqual(
      kept.map((entry) => entry.profile),
    );
  },
  async status(subject) {
    const { ask, whole, path } = subject;
    if (path === '/v2/markets') {
      for (const status of ['open', 'closed', 'resolved']) {
        await keeps(subject, { status }, (entry) => entry.status === status);
      }
      return;
    }
    expect((await ask({ status: 'open' })).list).toEqual(whole.list);
    const { list: all } = await ask({ status: 'all', limit: '100' });
    for (const status of ['open', 'resolved']) {
      const { list } = await ask({ status, limit: '100' });
      expect(list.length).toBeGreaterThan(0);
      expect(list.length).toBeLessThan(all.length);
      expect(list.every((position) => position.status === status)).toBe(true);
    }
  },
  async market(subject) {
    if (subject.path.includes('leaderboard')) return await boardOfMarket(subject);
    for (const market of ['1005', 'market-1005', `0x${MARKETS[5]?.conditionId}`]) {
      await keeps(subject, { market }, (trade) => trade.market.id === 1005);
    }
  },
  async reason(subject) {
    for (const reason of ['split', 'transfer'])
      await keeps(subject, { reason }, (one) => one.reason === reason);
  },
  async side(subject) {
    for (const side of ['BUY', 'SELL']) await keeps(subject, { side }, (one) => one.side === side);
  },
  min_usdc: (subject) =>
    keeps(subject, { min_usdc: '100' }, ({ usdc, value }) => (usdc ?? value) >= 100_000_000),
  async type(subject) {
    for (const type of ['opened', 'closed', 'settled']) {
      await keeps(subject, { type }, (one) => one.type === type);
    }
  },
  max_usdc: (subject) => keeps(subject, { max_usdc: '100' }, ({ usdc }) => usdc <= 100_000_000),
  async is_active(subject) {
    const isActive = (entry: Element) => entry.market.resolved_at === '';
    await keeps(subject, { is_active: 'true' }, isActive);
    await keeps(subject, { is_active: 'false' }, (entry) => !isActive(entry));
  },
  async include_orders({ ask }) {
    const [yes, no] = [
      await ask({ include_orders: 'true' }),
      await ask({ include_orders: 'false' }),
    ];
    expect(yes.list.every((entry) => entry.orders.length > 0)).toBe(true);
    expect(no.list.every((entry) => (entry.orders ?? []).length === 0)).toBe(true);
  },
  async traders({ ask, path }) {
    const given = [addressOf(5), addressOf(2)];
    const { list } = await ask({ traders: given.join(',') });
    if (path === '/v2/position_events') {
      const found = new Set(list.map(({ trader }) => trader.address.toLowerCase()));
      expect([...found].toSorted()).toEqual(given.toSorted());
      return;
    }
    expect(list.map((line) => line.address.toLowerCase())).toEqual(given);
  },
  async hours({ ask, path }) {
    if (path === '/v2/biggest_trades') {
      const six = await ask({ hours: '6', limit: '100' });
      const { list } = await ask({ hours: '24', limit: '100' });
      const kept = list.filter((entry) => entry.time >= six.body.from);
      expect(kept.length).toBeGreaterThan(0);
      expect(kept.length).toBeLessThan(list.length);
      expect(six.list.slice(0, kept.length)).toEqual(kept);
      return;
    }
    const traders = addressOf(5);
    const [six, day] = [await ask({ traders, hours: '6' }), await ask({ traders })];
    expect(day.list[0].pnl).toHaveLength(24);
    expect(six.list[0].pnl).toEqual(day.list[0].pnl.slice(-6));
  },
  async step_hours({ ask }) {
    const traders = addressOf(5);
    const [hours, steps] = [await ask({ traders }), await ask({ traders, step_hours: '12' })];
    const sum = (some: readonly number[]) => some.reduce((all, one) => all + one, 0);
    const { pnl } = hours.list[0];
    expect(steps.list[0].pnl).toEqual([sum(pnl.slice(0, 12)), sum(pnl.slice(12))]);
  },
  async outcome(subject) {
    expect((await subject.ask({ outcome: 'both' })).body).toEqual(subject.whole.body);
    for (const outcome of [0, 1]) {
      await keeps(subject, { outcome: `${outcome}` }, (one) => one.outcome_index === outcome);
    }
  },
  async points({ ask, whole }) {
    const { list } = await ask({ points: '1' });
    expect(list).toHaveLength(1);
    const shares = (prices: typeof list) => prices.reduce((sum, one) => sum + one.shares, 0);
    expect(shares(list)).toBe(shares(whole.list));
  },
  async interval({ ask, path }) {
    if (path.endsWith('/pnl')) {
      const { list } = await ask({ interval: '1d' });
      expect(list).toHaveLength(30);
      // The last point is now.
      const days = list.slice(0, -1).map(({ time }) => Date.parse(time) / 1_000 / DAY);
      expect(days).toEqual(days.map((_, i) => Math.floor(NOW / DAY) - 28 + i));
      return;
    }
    for (const [interval, seconds] of [
      ['15m', 900],
      ['6h', 21_600],
    ] as const) {
      const { list } = await ask({ interval });
      const starts = list.map((candle) => Date.parse(candle.time) / 1_000);
      expect(starts.length).toBeGreaterThan(10);
      expect(starts).toEqual(starts.map((_, i) => (starts[0] ?? 0) + i * seconds));
    }
  },
  async from(subject) {
    const from = NOW - 2 * DAY;
    for (const text of [String(from), new Date(from * 1_000).toISOString()]) {
      await keeps(subject, { from: text }, (entry) => endOf(entry) > from);
    }
  },
  async to({ ask, whole }) {
    const to = NOW - 2 * DAY;
    const kept = whole.list.filter((entry) => startOf(entry) <= to);
    expect(kept.length).toBeLessThan(whole.list.length);
    // The default of `from` depends on `to`, so earlier hours are added at the end, earlier candles and points at
    // the start.
    const { list } = await ask({ to: String(to) });
    const isOldestFirst = list[0].time !== undefined;
    expect(isOldestFirst ? list.slice(-kept.length) : list.slice(0, kept.length)).toEqual(kept);
  },
};

/** A leaderboard of one market, by each of its names. */
async function boardOfMarket({ ask, whole }: Subject): Promise<void> {
  const { body, list } = await ask({ market: '1003' });
  expect(list.length).toBeGreaterThan(0);
  expect(list).not.toEqual(whole.list);
  expect((await ask({ market: 'market-1003' })).body).toEqual(body);
  expect((await ask({ market: `0x${MARKETS[3]?.conditionId}` })).body).toEqual(body);
}

test('every documented parameter of analytics does what it says', async () => {
  expect(operations.length).toBeGreaterThan(12);
  for (const [path, operation] of operations) {
    const { $ref = '' } = operation.responses[200]?.content?.['application/json']?.schema ?? {};
    const { properties = {} } = schemas[$ref.split('/').pop() ?? ''] ?? {};
    const [list = ''] = Object.entries(properties)
      .filter(([, member]) => typeof member === 'object' && member.type === 'array')
      .map(([name]) => name);
    const ask = async (query: Query, values: Query = {}): Promise<Asked> => {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => values[name] ?? KNOWN[name] ?? '');
      // As many as exist, because a default page may have fewer.
      const isBoard = path.includes('leaderboard');
      const full: Record<string, string> = { ...(isBoard && { limit: '100' }), ...query };
      if (path.endsWith('/trades')) full.limit ??= '1000';
      if (path === '/v2/markets') full.status ??= 'all';
      // Without traders, it has one day.
      if (path === '/v2/position_events') {
        full.traders ??= addressOf(3);
        full.limit ??= '500';
      }
      const url = `${seeded.api.url}${filled}?${new URLSearchParams(full)}`;
      const { body, headers, status, text } = await get(url, seeded.key);
      expect(status, `${url}: ${text}`).toBe(200);
      const next = /^<([^>]+)>/.exec(headers.get('link') ?? '')?.[1];
      // Boards are refreshed at any time.
      delete body.as_of;
      return { body, list: body[list] ?? [], next };
    };
    const whole = await ask({});
    for (const { name } of operation.parameters.filter((one) => one.in !== 'header')) {
      const effect = EFFECTS[name];
      expect(effect, `what ${name} of ${path} does`).toBeDefined();
      await effect?.({ path, ask, whole }, name).catch((cause: Error) => {
        throw new Error(`${name} of ${path}: ${cause.message}`, { cause });
      });
    }
  }
});
