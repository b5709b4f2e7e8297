/**
 * Position alerts of fifty traders on the development chain against what was booked: every trade of theirs is found, with the
 * position before and after it.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AlertEvent } from '../../apps/alerts/event.ts';
import { Client } from '../support/raw-client.ts';
import { type Service, startService, temporaryDirectory, until } from '../support/service.ts';

const TRADERS = 50;
const EVENTS = 400;

type Booked = {
  readonly tx: string;
  readonly trader: string;
  readonly market: string;
  readonly block: number;
  readonly before: string;
  readonly after: string;
};

const { path: data, remove } = temporaryDirectory();
let service: Service;
beforeAll(async () => {
  service = await startService(data, { args: ['--demo-rate', '20', '--history-days', '1'] });
});
afterAll(async () => {
  await service?.up.stop();
  remove();
});

async function busiest(): Promise<readonly string[]> {
  const { traders } = await service.get<{ traders: { profile: { address: string } }[] }>(
    `/v2/analytics/leaderboard?sort_by=volume&time_frame=30D&limit=${TRADERS}`,
  );
  const watched = traders.map(({ profile }) => profile.address.toLowerCase());
  expect(watched).toHaveLength(TRADERS);
  return watched;
}

test('a position alert finds every trade, with the position before and after it', async () => {
  const watched = await busiest();
  await create(service, { type: 'position', traders: watched });
  const events = await until(async () => {
    const all = await eventsOf(service);
    const confirmed = all.filter(({ state }) => state === 'confirmed');
    return confirmed.length >= EVENTS ? all : undefined;
  });
  const wanted = events.filter(({ state }) => state === 'confirmed');
  const booked = await bookedOf(service, watched);
  const found = Map.groupBy(wanted, ({ data }) => {
    const { market, trader, tx_hash } = data as Data;
    return [tx_hash, trader.address, market.condition_id].join(' ');
  });
  const blocks = [...found.keys()].flatMap((key) => booked.get(key)?.block ?? []);
  const [first, last] = [Math.min(...blocks), Math.max(...blocks)];
  const differences = [...found].flatMap(([key, own]) => {
    const [before, after] = netOf(own.map(({ data }) => data as Data));
    const { before: known, after: next } = booked.get(key) ?? {};
    return known === String(before) && next === String(after)
      ? []
      : [`${key}: ${before} → ${after}, booked ${known} → ${next}`];
  });
  expect(differences).toEqual([]);
  const missing = [...booked].filter(
    ([key, { after, before, block }]) =>
      before !== after && block > first + 2 && block < last - 2 && !found.has(key),
  );
  expect(missing).toEqual([]);
  expect(new Set(wanted.map(({ data }) => data.event))).toEqual(
    new Set(['opened', 'added', 'reduced', 'closed']),
  );
});

test('a managed stream tells what its matches did to positions, exactly once they are booked', async () => {
  const watched = await busiest();
  const headers = { 'X-Service-Key': service.ready.key, 'Content-Type': 'application/json' };
  const created = await fetch(`${service.ready.url}/streams`, {
    ...{ method: 'POST', headers },
    body: JSON.stringify({ name: 'busiest', addresses: watched }),
  });
  const { id } = (await created.json()) as { id: string };
  const path = `/streams/${id}`;
  const port = Number(new URL(service.ready.url).port);
  const query = 'positions=true&finality=true';
  const live = await new Client(port, { path, query, headers }).begun();
  const start = (await live.until(({ lastEventId }) => lastEventId !== undefined)).lastEventId;
  await live.until((client) => dataOf(client, 'position').length >= EVENTS);
  const shown = new Set(dataOf(live, 'position').map(({ match_id }) => match_id));
  // Until it is known what became of each.
  await live.until((client) => {
    const known = [...dataOf(client, 'final'), ...dataOf(client, 'void')];
    return known.filter(({ match_id }) => shown.has(match_id)).length >= shown.size;
  });
  live.close();
  const final = new Set(dataOf(live, 'final').map(({ match_id }) => match_id));
  const last = dataOf(live, 'final').at(-1)?.tx_hash;
  await until(async () =>
    [...(await bookedOf(service, watched)).values()].find(({ tx }) => tx === last),
  );
  const again = new Client(port, {
    path,
    query,
    headers: { ...headers, 'Last-Event-ID': start ?? '' },
  });
  await again.until(({ blocks }) => blocks.some(({ id }) => id === live.lastEventId));
  again.close();
  const wanted = dataOf(again, 'position').filter(
    ({ match_id }) => shown.has(match_id) && final.has(match_id),
  );
  expect(new Set(wanted.map(({ state }) => state))).toEqual(new Set(['final']));
  const booked = await bookedOf(service, watched);
  const found = Map.groupBy(wanted, ({ market, trader, tx_hash }) =>
    [tx_hash, trader.address, market.condition_id].join(' '),
  );
  const differences = [...found].flatMap(([key, parts]) => {
    const asAlert = ({ shares_after, shares_before, token_ids_index, ...rest }: Told) => ({
      ...{ ...rest, outcome_index: token_ids_index },
      ...{ shares_after: Number(shares_after), shares_before: Number(shares_before) },
    });
    const [before, after] = netOf(parts.map(asAlert));
    const { before: known, after: next } = booked.get(key) ?? {};
    const isSame = known === String(before) && next === String(after);
    return isSame ? [] : [`${key}: ${before} → ${after}, booked ${known} → ${next}`];
  });
  expect(differences).toEqual([]);
  expect(found.size).toBeGreaterThan(EVENTS / 4);
});

test('alerts find every settled position of their traders, and every resolved market of their tags', async () => {
  const watched = await busiest();
  const settled = await create(service, {
    ...{ type: 'position', traders: watched, events: ['settled'] },
  });
  const resolved = await create(service, { type: 'resolution', tags: ['crypto'] });
  const [paid, results] = await until(async () => {
    const all = await eventsOf(service);
    const own = [settled, resolved].map((id) => all.filter(({ alert }) => alert.id === id));
    const [first = [], second = []] = own;
    return first.length >= 10 && second.length >= 3 ? ([first, second] as const) : undefined;
  });
  const list = watched.map((one) => `unhex('${one.slice(2)}')`).join(', ');
  const rows = await service.query<Record<string, string>>(`
    SELECT toString(block_number) AS block, concat(concat('0x', lower(hex(trader))), ' ',
      concat('0x', lower(hex(condition_id))), ' ', toString(shares), ' ', toString(usdc)) AS about
    FROM bookings WHERE kind = 'settlement' AND trader IN (${list})`);
  const blocks = paid.map(({ data }) => Number(data.block_number));
  const within = ({ block }: Record<string, string>) =>
    Number(block) > Math.min(...blocks) && Number(block) < Math.max(...blocks);
  const found = paid.map(({ data }) => {
    const { market, shares_before, trader, value } = data as Data & { value: number };
    return [trader.address, market.condition_id, shares_before, value].join(' ');
  });
  expect(rows.filter((row) => within(row) && !found.includes(row.about ?? ''))).toEqual([]);
  const booked = rows.map(({ about }) => about);
  expect(found.filter((one) => !booked.includes(one))).toEqual([]);
  expect(new Set(found).size).toBe(found.length);
  const conditions = results.map(({ data }) => (data as Data).market.condition_id);
  const known = await service.query<Record<string, string>>(`
    SELECT concat('0x', lower(hex(condition_id))) AS id, toString(payout_0) AS zero
    FROM resolutions FINAL WHERE condition_id IN
      (SELECT condition_id FROM markets WHERE has(tags, 'crypto'))`);
  const payouts = new Map(known.map(({ id, zero }) => [id, zero]));
  for (const { data } of results) {
    const { market, payouts: paidOut } = data as Data & { payouts: number[] };
    expect(payouts.get(market.condition_id)).toBe(String(paidOut[0]));
  }
  expect(new Set(conditions).size).toBe(conditions.length);
});

test('a trader whose PnL crosses a level is found', async () => {
  const { traders } = await service.get<{
    traders: { profile: { address: string }; total_pnl: number }[];
  }>('/v2/analytics/leaderboard?sort_by=volume&time_frame=30D&limit=10');
  const alerts = new Map<string, { readonly direction: string; readonly level: number }>();
  for (const { profile, total_pnl } of traders) {
    for (const [direction, by] of [
      ['above', 0.01],
      ['below', -0.01],
    ] as const) {
      const level = Math.round(total_pnl / 1e4 + by * 100) / 100;
      const rule = { type: 'pnl', traders: [profile.address], window: '30D', level, direction };
      alerts.set(await create(service, rule), { direction, level });
    }
  }
  const events = await until(async () => {
    const own = (await eventsOf(service)).filter(({ alert }) => alerts.has(alert.id));
    return own.length > 0 ? own : undefined;
  });
  for (const { alert, data, state } of events) {
    const { direction, level } = alerts.get(alert.id) ?? {};
    const pnl = Number(data.pnl) / 1e6;
    expect([state, direction === 'above' ? pnl >= Number(level) : pnl <= Number(level)]).toEqual([
      'final',
      true,
    ]);
  }
});

/** Data of `event: position`. */
type Told = Pick<Data, 'tx_hash' | 'trader' | 'market'> & {
  readonly match_id: string;
  readonly state: string;
  readonly token_ids_index: number;
  readonly shares_before: string;
  readonly shares_after: string;
};

/** The data of a client's events of a kind; of other kinds, it has the match's ids. */
function dataOf({ blocks }: Client, kind: string): readonly Told[] {
  return blocks.flatMap(({ data, event }) => (event === kind ? [JSON.parse(data ?? '')] : []));
}

type Data = {
  readonly tx_hash: string;
  readonly trader: { readonly address: string };
  readonly market: { readonly condition_id: string };
  readonly outcome_index: number;
  readonly shares_before: number;
  readonly shares_after: number;
};

/** Net shares of outcome 0 before the first and after the last part of a trade. */
function netOf(parts: readonly Data[]): readonly [number, number] {
  const signed = ({ outcome_index }: Data, shares: number) =>
    shares * (outcome_index === 0 ? 1 : -1);
  const [first] = parts as readonly [Data, ...Data[]];
  const last = parts.at(-1) ?? first;
  // A trade that changes sides is closed, then opened.
  return [signed(first, first.shares_before) + 0, signed(last, last.shares_after) + 0];
}

async function create(service: Service, rule: object): Promise<string> {
  const response = await fetch(`${service.ready.url}/v2/alerts`, {
    method: 'POST',
    headers: { 'X-Service-Key': service.ready.key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'positions', rule, confirm: true }),
  });
  const text = await response.text();
  expect([response.status, text]).toEqual([201, text]);
  return JSON.parse(text).id;
}

async function eventsOf(service: Service): Promise<AlertEvent[]> {
  const all: AlertEvent[] = [];
  for (let cursor = ''; ; ) {
    const more = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = await service.get<{ events: AlertEvent[]; next_cursor: string }>(
      `/v2/alerts/events?limit=500${more}`,
    );
    all.push(...page.events);
    if (page.events.length < 500) return all;
    cursor = page.next_cursor;
  }
}

/** Of each transaction, trader and market: net shares before the first and after the last fill. */
async function bookedOf(
  service: Service,
  traders: readonly string[],
): Promise<Map<string, Booked>> {
  const list = traders.map((one) => `unhex('${one.slice(2)}')`).join(', ');
  const rows = await service.query<Booked>(`
    SELECT concat('0x', lower(hex(tx_hash))) AS tx, concat('0x', lower(hex(trader))) AS trader,
      concat('0x', lower(hex(condition_id))) AS market, toUInt32(any(block_number)) AS block,
      toString(argMin(position_before, (log_index, rank))) AS before,
      toString(argMax(if(position_outcome = 0, position_shares, -position_shares), (log_index, rank))) AS after
    FROM (SELECT * FROM bookings WHERE kind = 'fill' AND trader IN (${list}))
    GROUP BY tx_hash, trader, condition_id`);
  return new Map(rows.map((row) => [`${row.tx} ${row.trader} ${row.market}`, row]));
}
