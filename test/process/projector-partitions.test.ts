import { afterEach, describe, expect, test } from 'vitest';
import { connectNats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { LEASE_TTL_MS, PROJECTORS_BUCKET, partitionsOf } from '../../projector/lease.ts';
import { eventsBetween, ledgerEvents } from '../support/ledger-generator.ts';
import { publishEvents } from '../support/publish-ledger.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { start, temporaryDirectory, until, viewsAgree } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

const SEED = TEST_SEED;
const EVENTS = [
  ...ledgerEvents({
    seed: SEED,
    traders: 60,
    markets: 40,
    from: Date.parse('2026-10-30T00:00:00Z') / 1_000,
    to: Date.parse('2026-11-02T00:00:00Z') / 1_000,
    matches: 3_000,
    matchesPerMarket: 150,
  }),
];

type Events = ReturnType<typeof eventsBetween>;
const part = (from: number, to: number) => eventsBetween(EVENTS, from, to);

const WAITING = 'another process holds the lease, waiting';
/** Level of a log line, as in pino. */
const FATAL = 60;

/** Columns that are equal for any division of the work: no sequences, batches or owners. */
const RESULT = `SELECT toString(count()) AS rows,
    toString(groupBitXor(cityHash64(kind, block_number, log_index, trader, condition_id, realised_pnl,
      realised_cost, position_shares, position_cost, position_fees))) AS bookings,
    (SELECT toString(groupBitXor(cityHash64(trader, hour, condition_id, p, v, s))) FROM (
      SELECT trader, hour, condition_id, sum(realised_pnl) AS p, sum(maker_volume + taker_volume) AS v,
        sum(settlements) AS s FROM trader_hours GROUP BY trader, hour, condition_id)) AS hours
  FROM bookings`;

async function publish(parts: Parts, events: Events): Promise<void> {
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'partitions test' });
  await publishEvents(nats, events, 5);
  await nats.close();
}

/** Resolves when no projector's lease is alive. */
async function leasesExpired(parts: Parts): Promise<void> {
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'partitions test' });
  const kv = await openKv(nats, PROJECTORS_BUCKET, { ttlMs: LEASE_TTL_MS });
  await until(async () => ((await kv.get('0')) === undefined ? true : undefined));
  await nats.close();
}

/** The number of projectors, as each reports it. */
async function reports(parts: Parts) {
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'partitions test' });
  const counts: number[] = [];
  nats.connection.subscribe('fillstream.state.projector', {
    callback: (_error, message) => void counts.push(message.json<{ count: number }>().count),
  });
  return { counts, close: () => nats.close() };
}

async function storedTo(parts: Parts, events: Events): Promise<unknown> {
  const last = events.findLast((event) => event.kind === 'match');
  const expected = events.reduce(
    (rows, event) => rows + (event.kind === 'match' ? event.fills.length : 0),
    0,
  );
  return until(async () => {
    const [row] = await parts.query<{ fills: string; block: string }>(
      `SELECT toString(countIf(kind = 'fill')) AS fills, toString(max(block_number)) AS block
       FROM bookings`,
    );
    if (Number(row?.fills) < expected || Number(row?.block) < (last?.blockNumber ?? 0)) {
      return undefined;
    }
    return (await viewsAgree(parts)) ? (await parts.query(RESULT))[0] : undefined;
  });
}

describe(`partitions shared among projectors (seed ${SEED})`, () => {
  const directory = temporaryDirectory();
  const projectors: ReturnType<typeof start>[] = [];
  const running: Parts[] = [];

  afterEach(async () => {
    for (const projector of projectors.splice(0)) await projector.stop();
    for (const parts of running.splice(0)) await parts.stop();
    directory.remove();
  });

  test('every partition has exactly one owner', () => {
    for (const count of [1, 2, 3, 16]) {
      const owned = Array.from({ length: count }, (_, i) => partitionsOf(i, count)).flat();
      expect(owned.toSorted((a, b) => a - b)).toEqual(partitionsOf(0, 1));
    }
  });

  test('a projector that was stopped for longer than its leases last continues by itself', async () => {
    const parts = await startParts(`${directory.path}/frozen`, []);
    running.push(parts);
    const projector = start('projector/main.ts', [], parts.env);
    projectors.push(projector);
    await projector.event('projecting');
    await publish(parts, part(0, 0.5));
    await storedTo(parts, part(0, 0.5));

    projector.kill('SIGSTOP');
    await leasesExpired(parts);
    await publish(parts, part(0.5, 1));
    projector.kill('SIGCONT');
    await storedTo(parts, EVENTS);
    expect(projector.lines.some((line) => line.level === FATAL)).toBe(false);
    expect(await projector.stop()).toBe(0);
  });

  test('two projectors, a kill, and a hand-over to one have the same result as a single one', async () => {
    const alone = await startParts(`${directory.path}/alone`, ['projector']);
    running.push(alone);
    await publish(alone, EVENTS);
    const expected = await storedTo(alone, EVENTS);

    const shared = await startParts(`${directory.path}/shared`, []);
    running.push(shared);
    const project = (instance: string) => {
      const projector = start('projector/main.ts', [], {
        ...shared.env,
        PROJECTOR_INSTANCE: instance,
      });
      projectors.push(projector);
      return projector;
    };
    const [first, second] = [project('0/2'), project('1/2')];
    await Promise.all([first.event('projecting'), second.event('projecting')]);
    await publish(shared, part(0, 0.3));
    await storedTo(shared, part(0, 0.3));

    second.kill('SIGKILL');
    await second.exit;
    await publish(shared, part(0.3, 0.6));
    const again = project('1/2');
    await again.event('projecting');
    await storedTo(shared, part(0, 0.6));

    // The new owner of everything waits for the leases of both. Until then, the api expects these two alone.
    const reported = await reports(shared);
    const whole = project('0/1');
    await until(async () => whole.lines.some(({ msg }) => msg === WAITING) || undefined);
    await publish(shared, part(0.6, 1));
    await storedTo(shared, EVENTS);
    await until(async () => (reported.counts.length >= 4 ? true : undefined));
    expect(new Set(reported.counts)).toEqual(new Set([2]));
    await reported.close();
    await Promise.all([first.stop(), again.stop()]);
    await whole.event('projecting');
    expect(await storedTo(shared, EVENTS)).toEqual(expected);
  });
});
