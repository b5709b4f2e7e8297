/** Alerts from rule to receiver, with a real nats-server, api, process of alerts, and HTTP receivers. */
import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { AlertEvent, eventId } from '../../apps/alerts/event.ts';
import { publishEvent } from '../../apps/alerts/logs.ts';
import { openPushKeys } from '../../apps/alerts/push-keys.ts';
import { startAlerts, startReceiver } from '../support/alerts-harness.ts';
import { publish, publishFinal, publishSequel } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { newSubscription, signedClaims, startPushService } from '../support/push-service.ts';
import { until } from '../support/service.ts';
import { startNats } from '../support/stack.ts';
import { address, fill, hash, match } from '../unit/feed-matches.ts';

const service = forFile(startAlerts);
const call: typeof service.call = (...given) => service.call(...given);

let numbers = 0;

/** A pending match of this trader, which no other test watches. Detected now, because the process forgets old events. */
function pendingMatch(trader: number, over: Parameters<typeof match>[1] = {}) {
  numbers += 1;
  const taker = fill(trader, { orderHash: hash(5_000_000 + numbers) });
  return match(numbers, {
    ...{ taker, makers: [], detectedAtMs: Date.now() },
    sent: { sender: address(99), nonce: numbers },
    ...over,
  });
}

async function created(key: string, path: string, body: object) {
  const { status, body: answer } = await call(key, 'POST', path, body);
  expect([status, answer.detail]).toEqual([201, undefined]);
  return answer;
}

async function webhook(key: string, url: string) {
  const { destination, secret } = await created(key, '/v2/destinations', {
    name: 'bot',
    target: { kind: 'webhook', url },
  });
  return { id: destination.id as string, secret: secret as string };
}

const show = (one: ReturnType<typeof match>) => publish(service.nats, 'FEED', [one]);

/** Sends test events until one arrives: from then on, the process evaluates what was created before. */
async function known(key: string, alert: string, at: { readonly received: readonly unknown[] }) {
  await call(key, 'POST', `/v2/alerts/${alert}/test`);
  await until(async () => at.received[0]);
}

test('a match is sent once, signed, and taken back when it is void', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id, secret } = await webhook(key, receiver.url);
  const rule = { type: 'match', traders: [address(101)], min_usdc: 4 };
  const alert = await created(key, '/v2/alerts', { name: 'whales', rule, destinations: [id] });
  expect(alert).toMatchObject({ name: 'whales', rule, destinations: [id], enabled: true });
  await known(key, alert.id, receiver);
  const [wanted, other] = [pendingMatch(101), pendingMatch(102)];
  const small = pendingMatch(101, { taker: fill(101, { usdc: 3_999_999n }) });
  for (const one of [other, small, wanted]) await show(one);
  await publishSequel(service.nats, wanted, { kind: 'void', reason: 'reverted' });
  const events = await until(async () => {
    return receiver.events().length === 3 ? receiver.events() : undefined;
  });
  const [, first, second] = events;
  expect(first).toMatchObject({
    ...{ type: 'match', state: 'pending', refers_to: null },
    alert: { id: alert.id, name: 'whales' },
    text: 'trader-101 bought Yes of “Will “it” rain\nin Zürich? 雨”: 4.50 USDC at 45.0¢',
    data: { tx_hash: wanted.txHash, taker_order: { usdc: '4500000' } },
  });
  expect(second).toMatchObject({
    ...{ state: 'retracted', refers_to: first?.id },
    data: { settled_by: { reason: 'reverted', tx_hash: wanted.txHash } },
  });
  for (const { body, headers } of receiver.received) {
    const verified = new Webhook(secret).verify(body, headers as Record<string, string>);
    expect(AlertEvent.parse(verified).id).toBe(headers['webhook-id']);
  }
  const deliveries = await call(key, 'GET', `/v2/destinations/${id}/deliveries`);
  expect(deliveries.body.data.map((one: { status: number }) => one.status)).toEqual([
    200, 200, 200,
  ]);
});

test('a final match is confirmed only if the alert says so, and a restored one is sent again', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const alertOf = (trader: number, confirm: boolean) =>
    created(key, '/v2/alerts', {
      ...{ name: 'one', rule: { type: 'match', traders: [address(trader)] } },
      ...{ destinations: [id], confirm },
    });
  await alertOf(111, false);
  const alert = await alertOf(112, true);
  await known(key, alert.id, receiver);
  const [silent, confirmed] = [pendingMatch(111), pendingMatch(112)];
  for (const one of [silent, confirmed]) await show(one);
  await publishFinal(service.nats, 'FEED', [silent, confirmed]);
  const lost = pendingMatch(112);
  await show(lost);
  await publishSequel(service.nats, lost, { kind: 'void', reason: 'never_mined' });
  await publishSequel(service.nats, lost, { kind: 'restored' });
  const states = await until(async () => {
    const found = receiver
      .events()
      .slice(1)
      .map(({ data, state }) => `${data.tx_hash} ${state}`);
    return found.length === 6 ? found.sort() : undefined;
  });
  expect(states).toEqual(
    [
      `${silent.txHash} pending`,
      ...[`${confirmed.txHash} pending`, `${confirmed.txHash} confirmed`],
      ...[`${lost.txHash} pending`, `${lost.txHash} retracted`, `${lost.txHash} restored`],
    ].sort(),
  );
});

test('a paused alert sends nothing, and what it sent is still taken back', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const rule = { type: 'match', traders: [address(121)] };
  const alert = await created(key, '/v2/alerts', { name: 'one', rule, destinations: [id] });
  const watch = { type: 'match', traders: [address(122)] };
  await created(key, '/v2/alerts', { name: 'two', rule: watch, destinations: [id] });
  await known(key, alert.id, receiver);
  const first = pendingMatch(121);
  await show(first);
  await until(async () => receiver.received[1]);
  const paused = await call(key, 'PATCH', `/v2/alerts/${alert.id}`, { enabled: false });
  expect([paused.status, paused.body.enabled]).toEqual([200, false]);
  await call(key, 'POST', `/v2/alerts/${alert.id}/test`);
  await until(async () => receiver.received[2]);
  await show(pendingMatch(121));
  await publishSequel(service.nats, first, { kind: 'void', reason: 'replaced' });
  await show(pendingMatch(122));
  const states = await until(async () => {
    const found = receiver
      .events()
      .slice(3)
      .map(({ alert, state }) => `${alert.name} ${state}`);
    return found.length >= 2 ? found.sort() : undefined;
  });
  expect(states).toEqual(['one retracted', 'two pending']);
});

test('after a crash, every event arrives, with the id it had', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const rule = { type: 'match', traders: [address(131)] };
  const alert = await created(key, '/v2/alerts', { name: 'one', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  const before = [pendingMatch(131), pendingMatch(131)];
  const during = [pendingMatch(131), pendingMatch(131)];
  for (const one of before) await show(one);
  await service.crash(async () => {
    for (const one of during) await show(one);
    await publishSequel(service.nats, before[0] as (typeof before)[0], {
      ...{ kind: 'void', reason: 'never_mined' },
    });
  });
  const hashes = [...before, ...during].map(({ txHash }) => txHash);
  const wanted = [...hashes.map((one) => `${one} pending`), `${hashes[0]} retracted`].sort();
  const events = await until(async () => {
    const byId = new Map(
      receiver
        .events()
        .slice(1)
        .map((event) => [event.id, event]),
    );
    return byId.size >= wanted.length ? [...byId.values()] : undefined;
  });
  expect(events.map(({ data, state }) => `${data.tx_hash} ${state}`).sort()).toEqual(wanted);
});

test('an event that is found again is sent as it was stored', async () => {
  const event: AlertEvent = {
    ...{ id: eventId('an alert', 'a match'), type: 'position', state: 'pending', refers_to: null },
    ...{ timestamp: '2026-05-01T12:00:00.000Z', alert: { id: 'an alert', name: 'him' }, data: {} },
    text: 'now 5% of the portfolio',
  };
  const first = {
    ...{ event, account: 'nobody', about: 'a match', matches: [], destinations: ['first'] },
    confirm: false,
  };
  const again = { ...first, event: { ...event, text: 'now 6%' }, destinations: ['second'] };
  const { signal } = new AbortController();
  const stored = await publishEvent(service.nats, first, signal);
  expect(stored.message).toEqual(first);
  expect(await publishEvent(service.nats, again, signal)).toEqual(stored);
});

test('a failed delivery is tried again, 410 disables, and neither holds up another destination', async () => {
  const key = await service.newKey();
  let isUp = false;
  using failing = await startReceiver((response) => {
    response.writeHead(isUp ? 204 : 503, { 'retry-after': '1' }).end('not now');
  });
  using gone = await startReceiver((response) => response.writeHead(410).end());
  using hanging = await startReceiver(() => undefined);
  using good = await startReceiver();
  const ids: string[] = [];
  for (const { url } of [failing, gone, hanging, good]) ids.push((await webhook(key, url)).id);
  const rule = { type: 'match', traders: [address(141)] };
  const alert = await created(key, '/v2/alerts', { name: 'one', rule, destinations: ids });
  await known(key, alert.id, good);
  const one = pendingMatch(141);
  await show(one);
  await until(async () => good.received[1]);
  const disabled = await until(async () => {
    const { body } = await call(key, 'GET', `/v2/destinations/${ids[1]}`);
    return body.enabled ? undefined : body;
  });
  expect(disabled).toMatchObject({ disabled_because: 'gone', waiting: expect.any(Number) });
  expect(disabled.updated_at > disabled.created_at).toBe(true);
  const attempts = await until(async () => {
    const { body } = await call(key, 'GET', `/v2/destinations/${ids[0]}/deliveries`);
    return body.data.length > 0 ? body.data : undefined;
  });
  expect(attempts.at(-1)).toMatchObject({
    ...{ attempt: 1, delivered: false, status: 503, response: 'not now' },
    retry_at: expect.any(String),
  });
  const state = await call(key, 'GET', `/v2/destinations/${ids[0]}`);
  expect(state.body).toMatchObject({ enabled: true, failing_since: expect.any(String) });
  isUp = true;
  await until(async () => {
    const { body } = await call(key, 'GET', `/v2/destinations/${ids[0]}`);
    return body.waiting === 0 && body.failing_since === null ? body : undefined;
  });
  expect(new Set(failing.events().map(({ id }) => id)).size).toBe(2);
});

test('a group of wallets is found when enough of them bought the same outcome', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const traders = [151, 152, 153].map(address);
  const rule = { type: 'group', traders, count: 3, within_seconds: 600 };
  const alert = await created(key, '/v2/alerts', { name: 'set', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  const sold = (trader: number) =>
    fill(trader, { ...{ side: 'SELL', outcomeIndex: 1 }, orderHash: hash(6_000_000 + trader) });
  await show(pendingMatch(151));
  await show(pendingMatch(151));
  const second = pendingMatch(152, { taker: sold(152) });
  await show(second);
  await show(pendingMatch(153));
  const event = await until(async () => receiver.events()[1]);
  expect(event).toMatchObject({
    ...{ type: 'group', state: 'pending' },
    text: '3 traders bought Yes of “Will “it” rain\nin Zürich? 雨”: trader-151, trader-152, trader-153, 19.00 USDC together',
    data: { outcome: 'Yes', traders: traders.map((address) => ({ address })), value: 19_000_000 },
  });
  await publishSequel(service.nats, second, { kind: 'void', reason: 'reverted' });
  const later = await until(async () => receiver.events()[2]);
  expect(later).toMatchObject({ state: 'retracted', refers_to: event.id });
});

test('a market that moves is found once, and the next move begins there', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const conditionId = hash(7_000_001);
  const rule = { type: 'move', markets: [conditionId], points: 10, within_seconds: 60 };
  const unknown = { ...rule, markets: ['no-such-market'] };
  const refused = await call(key, 'POST', '/v2/alerts', { name: 'move', rule: unknown });
  expect([refused.status, refused.body.error]).toEqual([404, 'not_found']);
  const alert = await created(key, '/v2/alerts', { name: 'move', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  // 45, 52, 54.9, 55: the last is 10 above the first. Then 60, and 45 as 55 of the other outcome.
  const at = (usdc: bigint, outcomeIndex: 0 | 1 = 0) =>
    show(pendingMatch(161, { conditionId, taker: fill(161, { usdc, outcomeIndex }) }));
  for (const usdc of [4_500_000n, 5_200_000n, 5_490_000n, 5_500_000n, 6_000_000n]) await at(usdc);
  await at(5_500_000n, 1);
  const events = await until(async () => {
    return receiver.events().length === 3 ? receiver.events().slice(1) : undefined;
  });
  expect(events.map(({ data }) => [data.price_before, data.price])).toEqual([
    [450_000, 550_000],
    [600_000, 450_000],
  ]);
  expect(events[0]?.text).toBe('Yes of “Will “it” rain\nin Zürich? 雨” rose from 45.0¢ to 55.0¢');
});

test('a position is opened, grows, changes sides and closes, also while matches are pending', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const rule = { type: 'position', traders: [address(221)] };
  const alert = await created(key, '/v2/alerts', { name: 'him', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  const conditionId = hash(7_000_002);
  const trades = [
    { side: 'BUY', outcomeIndex: 0, shares: 10_000_000n, usdc: 4_000_000n },
    { side: 'BUY', outcomeIndex: 0, shares: 5_000_000n, usdc: 3_000_000n },
    { side: 'SELL', outcomeIndex: 0, shares: 6_000_000n, usdc: 3_000_000n },
    { side: 'BUY', outcomeIndex: 1, shares: 12_000_000n, usdc: 6_000_000n },
    { side: 'SELL', outcomeIndex: 1, shares: 3_000_000n, usdc: 1_500_000n },
  ] as const;
  for (const trade of trades) {
    await show(pendingMatch(221, { conditionId, taker: fill(221, trade) }));
  }
  const events = await until(async () => {
    return receiver.events().length === 7 ? receiver.events().slice(1) : undefined;
  });
  const briefly = events.map(({ data }) =>
    [data.event, data.outcome, data.shares_before, data.shares_after, data.value].join(' '),
  );
  // Several are delivered at once, so in no order.
  expect(briefly.sort()).toEqual(
    [
      'opened Yes 0 10000000 4000000',
      'added Yes 10000000 15000000 3000000',
      'reduced Yes 15000000 9000000 3000000',
      'closed Yes 9000000 0 4500000',
      'opened No 0 3000000 1500000',
      'closed No 3000000 0 1500000',
    ].sort(),
  );
});

test('a price that crosses a level is found each time', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const conditionId = hash(7_000_003);
  const rule = { type: 'price', market: conditionId, level: 50, direction: 'below' };
  const given = { ...rule, outcome_index: 1 };
  const alert = await created(key, '/v2/alerts', { name: 'no', rule: given, destinations: [id] });
  expect(alert.rule).toEqual(given);
  await known(key, alert.id, receiver);
  // Of Yes: 40, 45, then 55 (No falls to 45), void, 56 (again), 60, 30, 50 (exactly).
  const at = (usdc: bigint) =>
    pendingMatch(231, { conditionId, taker: fill(231, { usdc, shares: 10_000_000n }) });
  for (const usdc of [4_000_000n, 4_500_000n]) await show(at(usdc));
  const first = at(5_500_000n);
  await show(first);
  await until(async () => receiver.received[1]);
  await publishSequel(service.nats, first, { kind: 'void', reason: 'reverted' });
  for (const usdc of [5_600_000n, 6_000_000n, 3_000_000n, 5_000_000n]) await show(at(usdc));
  const events = await until(async () => {
    return receiver.events().length === 5 ? receiver.events().slice(1) : undefined;
  });
  const briefly = events.map(({ data, state }) => [state, data.price_before, data.price].join(' '));
  expect(briefly.sort()).toEqual(
    [
      'pending 550000 450000',
      'retracted 550000 450000',
      'pending 550000 440000',
      'pending 700000 500000',
    ].sort(),
  );
});

test('the event stream resumes, and pages have the same events', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id } = await webhook(key, receiver.url);
  const rule = { type: 'match', traders: [address(171)] };
  const alert = await created(key, '/v2/alerts', { name: 'one', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  const [first] = await streamed(key, undefined, 1, () => show(pendingMatch(171)));
  await show(pendingMatch(171));
  const [second] = await streamed(key, first?.id, 1);
  const { body } = await call(key, 'GET', '/v2/alerts/events');
  expect(body.events.slice(1)).toEqual([first?.event, second?.event]);
  const rest = await call(key, 'GET', `/v2/alerts/events?cursor=${first?.id}`);
  expect(rest.body).toEqual({ events: [second?.event], next_cursor: second?.id });
  const other = await call(await service.newKey(), 'GET', '/v2/alerts/events');
  expect(other.body).toEqual({ events: [], next_cursor: '' });
});

test('a secret is rotated with overlap, and an event is delivered again', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const { id, secret } = await webhook(key, receiver.url);
  const rule = { type: 'match', traders: [address(181)] };
  const alert = await created(key, '/v2/alerts', { name: 'one', rule, destinations: [id] });
  await known(key, alert.id, receiver);
  const rotated = await call(key, 'POST', `/v2/destinations/${id}/secret`);
  expect(rotated.body.secret).not.toBe(secret);
  const { id: event } = receiver.events()[0] as AlertEvent;
  const again = await call(key, 'POST', `/v2/destinations/${id}/deliveries/${event}`);
  expect([again.status, again.body.id]).toEqual([200, event]);
  const { body, headers } = await until(async () => receiver.received[1]);
  expect(headers['webhook-id']).toBe(event);
  for (const one of [secret, rotated.body.secret]) {
    expect(() => new Webhook(one).verify(body, headers as Record<string, string>)).not.toThrow();
  }
  const shown = await call(key, 'GET', `/v2/destinations/${id}`);
  expect(JSON.stringify(shown.body)).not.toContain('whsec_');
});

test('bad rules, foreign destinations and private targets are refused', async () => {
  const [key, demo] = [await service.newKey(), await service.newKey('demo')];
  const post = (path: string, body: object, by = key) => call(by, 'POST', path, body);
  const bad = [
    { type: 'match' },
    { type: 'match', min_usdc: -1 },
    { type: 'match', traders: ['0x12'] },
    { type: 'match', traderz: [address(1)] },
    { type: 'group', traders: [address(1), address(2)], count: 3, within_seconds: 60 },
    { type: 'group', traders: [address(1), address(1)], count: 2, within_seconds: 60 },
    { type: 'nothing' },
  ];
  for (const rule of bad) {
    const { status, body } = await post('/v2/alerts', { name: 'bad', rule });
    expect([rule, status, body.error]).toEqual([rule, 400, 'invalid_request']);
  }
  const rule = { type: 'match', traders: [address(191)] };
  using receiver = await startReceiver();
  const { id } = await webhook(await service.newKey(), receiver.url);
  const foreign = await post('/v2/alerts', { name: 'bad', rule, destinations: [id] });
  expect([foreign.status, foreign.body.error]).toEqual([404, 'not_found']);
  const long = { ...rule, traders: Array.from({ length: 11 }, (_, n) => address(n + 1)) };
  const tooLong = await post('/v2/alerts', { name: 'long', rule: long }, demo);
  expect([tooLong.status, tooLong.body.quota?.name]).toEqual([403, 'max_filter_addrs']);
  for (let n = 0; n < 3; n += 1) await created(demo, '/v2/alerts', { name: `${n}`, rule });
  const fourth = await post('/v2/alerts', { name: 'too many', rule }, demo);
  expect([fourth.status, fourth.body.quota]).toEqual([
    403,
    { name: 'max_alerts', limit: 3, used: 3 },
  ]);
  for (const url of ['http://10.0.0.1/', 'https://[::1]/', 'https://169.254.169.254/']) {
    const target = { kind: 'webhook', url };
    const { status, body } = await post('/v2/destinations', { name: 'bad', target });
    expect([url, status, body.issues?.[0]?.path]).toEqual([url, 400, 'target.url']);
  }
});

test('the metrics count events and attempts', async () => {
  const text = await (await fetch(await service.metricsUrl())).text();
  expect(text).toMatch(/fillstream_alerts_events_total\{state="pending",process="alerts"\} [1-9]/);
  expect(text).toMatch(
    /fillstream_alerts_attempts_total\{outcome="delivered",process="alerts"\} [1-9]/,
  );
});

/** The next events of the stream; `act` runs once it is open. */
async function streamed(
  key: string,
  after: string | undefined,
  count: number,
  act?: () => Promise<void>,
) {
  const left = new AbortController();
  const response = await fetch(`${service.api.url}/v2/alerts/stream`, {
    headers: { 'X-Service-Key': key, ...(after === undefined ? {} : { 'Last-Event-ID': after }) },
    signal: left.signal,
  });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  await act?.();
  let text = '';
  const found = () =>
    [...text.matchAll(/^event:alert\nid:(\d+)\ndata:(.*)\n\n/gm)].map(([, id, data]) => ({
      id,
      event: z.looseObject({}).parse(JSON.parse(data ?? '')),
    }));
  for await (const chunk of response.body ?? []) {
    text += new TextDecoder().decode(chunk);
    if (found().length >= count) break;
  }
  left.abort();
  return found();
}

test('a deleted destination gets nothing more, and no alert names it', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  using other = await startReceiver();
  const [id, kept] = [(await webhook(key, receiver.url)).id, (await webhook(key, other.url)).id];
  const rule = { type: 'match', traders: [address(201)] };
  const body = { name: 'one', rule, destinations: [id, kept] };
  const alert = await created(key, '/v2/alerts', body);
  await known(key, alert.id, receiver);
  await until(async () => other.received[0]);
  const deleted = await call(key, 'DELETE', `/v2/destinations/${id}`);
  expect([deleted.status, deleted.body]).toEqual([200, { id }]);
  const left = await call(key, 'GET', `/v2/alerts/${alert.id}`);
  expect(left.body.destinations).toEqual([kept]);
  await call(key, 'POST', `/v2/alerts/${alert.id}/test`);
  await until(async () => other.received[1]);
  expect(receiver.received).toHaveLength(1);
  // One without any delivery.
  const unused = await webhook(key, receiver.url);
  expect((await call(key, 'DELETE', `/v2/destinations/${unused.id}`)).status).toBe(200);
});

test('a repeated request with an Idempotency-Key does nothing again', async () => {
  const key = await service.newKey();
  using receiver = await startReceiver();
  const send = async (path: string, body?: object) => {
    const response = await fetch(`${service.api.url}${path}`, {
      method: 'POST',
      headers: {
        ...{ 'X-Service-Key': key, 'Idempotency-Key': 'once' },
        'Content-Type': 'application/json',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return JSON.parse(await response.text());
  };
  const twice = async (path: string, body?: object) => {
    const first = await send(path, body);
    expect(await send(path, body)).toMatchObject(
      path.endsWith('/secret') ? { secret: first.secret } : first,
    );
    return first;
  };
  const target = { kind: 'webhook', url: receiver.url };
  const { destination } = await twice('/v2/destinations', { name: 'bot', target });
  const rule = { type: 'match', traders: [address(211)] };
  const alert = await twice('/v2/alerts', { name: 'a', rule, destinations: [destination.id] });
  await twice(`/v2/destinations/${destination.id}/secret`);
  const { id } = await send(`/v2/alerts/${alert.id}/test`);
  const again = await send(`/v2/alerts/${alert.id}/test`);
  expect(again.id).toBe(id);
  const lists = ['alerts', 'destinations'].map((name) => call(key, 'GET', `/v2/${name}`));
  expect((await Promise.all(lists)).map(({ body }) => body.total_count)).toEqual([1, 1]);
  await until(async () => receiver.received[0]);
  const { body } = await call(key, 'GET', '/v2/alerts/events');
  expect(body.events.map((event: AlertEvent) => event.id)).toEqual([id]);
});

test('a browser gets an event and its retraction, which only its subscription can read', async () => {
  const key = await service.newKey();
  let status = 201;
  using pushService = await startPushService(() => status);
  const { received } = pushService;
  const subscription = newSubscription(`${pushService.url}/send/of-a-browser`);
  const { target } = subscription;
  const { public_key } = (await call(key, 'GET', '/v2/alerts/push_key')).body;
  const answer = await created(key, '/v2/destinations', { name: 'my laptop', target });
  const { id } = answer.destination;
  expect(answer.secret).toBe(null);
  expect(answer.destination).toMatchObject({ kind: 'push', target: pushService.url });
  const rule = { type: 'match', traders: [address(301)] };
  const alert = await created(key, '/v2/alerts', { name: 'whales', rule, destinations: [id] });
  await known(key, alert.id, pushService);
  const wanted = pendingMatch(301);
  await show(wanted);
  await until(async () => received[1]);
  await publishSequel(service.nats, wanted, { kind: 'void', reason: 'reverted' });
  const [, first, second] = await until(async () => (received.length === 3 ? received : undefined));
  const [event, retraction] = [first, second].map((one) => {
    expect(signedClaims(one?.headers.authorization, public_key)?.aud).toBe(pushService.url);
    return JSON.parse(subscription.read(one?.body ?? Buffer.alloc(0)));
  });
  expect(event).toMatchObject({ title: 'whales', state: 'pending', refers_to: null });
  expect(event.text).toContain('trader-301 bought Yes');
  expect(retraction).toMatchObject({ state: 'retracted', refers_to: event.id });
  expect(first?.headers.topic).toBe(second?.headers.topic);

  // The event must not replace its retraction, which may still wait at the push service.
  const again = `/v2/destinations/${id}/deliveries/${event.id}`;
  expect((await call(key, 'POST', again)).status).toBe(200);
  const latest = async () =>
    (await call(key, 'GET', `/v2/destinations/${id}/deliveries?limit=1`)).body.data[0];
  await until(async () => (await latest()).response === 'a later event about it is shown');
  expect(received).toHaveLength(3);

  status = 404;
  await call(key, 'POST', `/v2/alerts/${alert.id}/test`);
  await until(async () => {
    const { body } = await call(key, 'GET', `/v2/destinations/${id}`);
    return body.disabled_because === 'gone' || undefined;
  });
  for (const path of ['/v2/destinations', `/v2/destinations/${id}/deliveries`]) {
    const shown = JSON.stringify((await call(key, 'GET', path)).body);
    for (const secret of ['of-a-browser', target.keys.auth, target.keys.p256dh]) {
      expect(shown).not.toContain(secret);
    }
  }
  const rotated = await call(key, 'POST', `/v2/destinations/${id}/secret`);
  expect(rotated.body.detail).toContain('a destination of kind push has no secret');
  const refused = { ...target, endpoint: 'https://10.0.0.1/send' };
  const { body } = await call(key, 'POST', '/v2/destinations', { name: 'a', target: refused });
  expect(body.issues).toMatchObject([{ path: 'target.endpoint' }]);
});

test('processes that start at the same time, and later ones, sign push messages with the same keys', async () => {
  const store = await startNats();
  const { nats } = store;
  const [first, ...others] = await Promise.all(
    Array.from({ length: 6 }, () => openPushKeys(nats, 1)),
  );
  others.push(await openPushKeys(nats, 1));
  for (const keys of others) expect(keys).toEqual(first);
  await store.stop();
});
