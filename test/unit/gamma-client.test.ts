/** The client of the metadata API over real HTTP, with the quirks and faults of the real service. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { structuredTokens } from '../../ingest/events/structured-ids.ts';
import { Gamma, parseListing } from '../../ingest/metadata/gamma.ts';
import { GammaError, type GammaOptions } from '../../ingest/metadata/gamma-http.ts';
import {
  condition,
  derived,
  type FakeGamma,
  type Fault,
  recorder,
  silent,
  startFakeGamma,
  wallet,
} from './gamma-harness.ts';

let fake: FakeGamma;
let ended: AbortController;

beforeEach(async () => {
  fake = await startFakeGamma();
  ended = new AbortController();
});

afterEach(async () => {
  ended.abort();
  await fake.close();
});

const connect = (options: Partial<GammaOptions> = {}) =>
  new Gamma({
    url: fake.url,
    logger: silent,
    signal: ended.signal,
    backoffMinMs: 5,
    backoffMaxMs: 20,
    ...options,
  });

const paths = () => fake.requests.map((url) => url.pathname);

async function failure(asking: Promise<unknown>): Promise<GammaError> {
  const error: unknown = await asking.catch((thrown: unknown) => thrown);
  if (error instanceof GammaError) return error;
  throw new Error('no GammaError was thrown');
}

describe('listings', () => {
  test('finds closed markets, too, which the service hides from a plain query', async () => {
    fake.list({ conditionId: condition(1), tags: ['sports'] });
    fake.list({ conditionId: condition(2), tags: ['crypto'], closed: true });
    const found = await connect().listings([1, 2, 3].map(condition));
    expect([...found.keys()]).toEqual([condition(1), condition(2)]);
    expect(fake.requests.map((url) => url.searchParams.get('closed'))).toEqual([null, 'true']);
    expect(fake.requests[1]?.searchParams.getAll('condition_ids')).toEqual([2, 3].map(condition));
  });

  test('sends one request if every market is open', async () => {
    fake.list({ conditionId: condition(1), tags: ['sports'] });
    await connect().listings([condition(1)]);
    expect(fake.requests).toHaveLength(1);
  });

  test('keeps the URL of a full batch below 8 KB', async () => {
    await connect().listings(Array.from({ length: 50 }, (_, i) => condition(i)));
    for (const url of fake.requests) expect(url.href.length).toBeLessThan(8_000);
  });

  test('completes a page of new markets without events, in several batches', async () => {
    for (let number = 1; number <= 80; number++) {
      fake.list({ conditionId: condition(number), tags: ['a'], eventWithTags: false });
    }
    const { listings } = await connect().newest(undefined);
    expect(listings.map((one) => one.eventSlug)).toEqual(Array.from({ length: 80 }, () => 'e-1'));
  });

  test('takes tags and series from the event if the market has none, with one request per event', async () => {
    fake.events.set('7', { id: '7', tags: ['games', 'mlb'], series: 'mlb' });
    fake.list({ conditionId: condition(1), eventId: '7' });
    fake.list({ conditionId: condition(2), eventId: '7' });
    const gamma = connect();
    const found = await gamma.listings([condition(1), condition(2)]);
    await gamma.listings([condition(1)]);
    for (const listing of found.values()) {
      expect(listing).toMatchObject({
        tags: ['games', 'mlb'],
        seriesSlug: 'mlb',
        eventSlug: 'e-7',
      });
    }
    expect(paths().filter((path) => path === '/events')).toHaveLength(1);
  });

  test('requests a market again without tags if the response with tags omits its event', async () => {
    fake.list({ conditionId: condition(1), tags: ['a'], eventId: '9', eventWithTags: false });
    const found = await connect().listings([condition(1)]);
    expect(found.get(condition(1))).toMatchObject({ tags: ['a'], eventSlug: 'e-9' });
  });

  test('logs a malformed market once and keeps the others', async () => {
    fake.list({ conditionId: condition(1), tags: ['a'] });
    fake.list({
      conditionId: condition(2),
      raw: { id: '2', conditionId: condition(2), outcomes: 'x', clobTokenIds: 'y' },
    });
    fake.list({ conditionId: condition(3), tags: ['a'] });
    const { logger, lines } = recorder();
    const gamma = connect({ logger });
    for (let i = 0; i < 2; i++) {
      const found = await gamma.listings([1, 2, 3].map(condition));
      expect([...found.keys()]).toEqual([condition(1), condition(3)]);
    }
    expect(lines.map(({ msg, id }) => [msg, id])).toEqual([
      ['ignoring a malformed item of metadata', '2'],
    ]);
  });

  test.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['outcomes', { outcomes: null }, { outcomes: ['', ''] }],
    ['outcomes', { outcomes: '["Yes"]' }, { outcomes: ['', ''] }],
    ['', { outcomes: ['Up', 'Down'] }, { outcomes: ['Up', 'Down'] }],
    ['icon', { icon: { url: 'x' } }, { icon: '' }],
    ['negRisk', { negRisk: 'no' }, { negRisk: false }],
    ['tags', { tags: [{ label: 'a' }] }, { tags: [] }],
    [
      'events.icon',
      { events: [{ id: 7, slug: 'e', title: 'E', icon: {}, seriesSlug: 's' }] },
      { eventSlug: 'e', eventTitle: 'E', eventIcon: '', seriesSlug: 's' },
    ],
    ['events', { events: 'none' }, { eventSlug: '' }],
  ])('keeps a market without its malformed %s', async (name, given, expected) => {
    const [first, second] = derived(condition(1));
    const tokens = { clobTokenIds: JSON.stringify([first, second]) };
    const raw = { id: 5, conditionId: condition(1), question: 'Q?', outcomes: '["A","B"]' };
    fake.list({ conditionId: condition(1), raw: { ...raw, ...tokens, ...given } });
    const { logger, lines } = recorder();
    const gamma = connect({ logger });
    for (let i = 0; i < 2; i++) {
      const listing = (await gamma.listings([condition(1)])).get(condition(1));
      expect(listing).toMatchObject({ marketId: '5', question: 'Q?', ...expected });
    }
    const told = lines.filter(({ msg }) => msg === 'ignoring a malformed field of metadata');
    expect(told.map(({ member }) => member)).toEqual(
      name === '' || given.outcomes === null ? [] : [name],
    );
  });

  test('takes lists of token ids, and refuses an id that JSON cannot carry', async () => {
    const tokens = derived(condition(1));
    const raw = { conditionId: condition(1), outcomes: '["A","B"]', clobTokenIds: tokens };
    fake.list({ conditionId: condition(1), raw: { ...raw, id: '9007199254740991' } });
    fake.list({
      conditionId: condition(2),
      raw: { ...raw, conditionId: condition(2), id: '1234567890123456789' },
    });
    const { logger, lines } = recorder();
    const found = await connect({ logger }).listings([1, 2].map(condition));
    expect([...found.values()].map(({ marketId }) => marketId)).toEqual(['9007199254740991']);
    expect(lines.map(({ msg, id }) => [msg, id])).toEqual([
      ['ignoring a malformed item of metadata', '1234567890123456789'],
    ]);
  });

  test('a market of protocol version 2 has the condition that its position ids say', async () => {
    const conditionId = '0x01c6acdcead0fa5899a040a9f8a0bdc90d000100000000000000000089000000';
    const tokens = structuredTokens(conditionId);
    const raw = { id: 6, conditionId: '', question: 'Q', outcomes: ['Yes', 'No'], version: 'v2' };
    for (const positionIds of [tokens, JSON.stringify(tokens)]) {
      fake.list({ conditionId, raw: { ...raw, positionIds } });
      const found = await connect().listings([conditionId]);
      expect(found.get(conditionId)).toMatchObject({
        conditionId,
        question: 'Q',
        tokenIds: tokens,
      });
    }
  });

  test('a market that continues an older one keeps the ids of that one', async () => {
    const [one] = [condition(1)];
    const ids = { clobTokenIds: derived(one), positionIds: ['1', '2'], version: 'v2' };
    fake.list({ conditionId: one, raw: { id: 6, conditionId: one, ...ids } });
    const found = await connect().listings([one]);
    expect(found.get(one)?.tokenIds).toEqual(derived(one));
  });

  test('logs once that a market of protocol version 2 with unknown ids is skipped', async () => {
    const raw = { id: 6, conditionId: condition(1), version: 'v2', positionIds: ['1', '2'] };
    fake.list({ conditionId: condition(1), raw });
    const { logger, lines } = recorder();
    const gamma = connect({ logger });
    for (let i = 0; i < 2; i++) expect((await gamma.listings([condition(1)])).size).toBe(0);
    expect(lines.map(({ msg, id }) => [msg, id])).toEqual([
      ['skipping a market of protocol version 2 with unknown ids', 6],
    ]);
    expect(gamma.leftOut).toBe(1);
  });

  test.each([
    ['2026-05-01T00:00:00', '2026-05-01T00:00:00Z'],
    ['2026-05-01 00:00:00.5', '2026-05-01T00:00:00Z'],
    ['2026-05-01 02:00:00+02', '2026-05-01T00:00:00Z'],
    ['2026-05-01', '2026-05-01T00:00:00Z'],
    ['soon', ''],
  ])('reads the date %s in UTC', (given, expected) => {
    const zone = process.env.TZ;
    process.env.TZ = 'America/New_York';
    const raw = { id: 5, conditionId: condition(1), clobTokenIds: derived(condition(1)) };
    const listing = parseListing({ ...raw, endDate: given });
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
    expect(listing.endDate).toBe(expected);
  });

  test('skips markets without tokens silently', async () => {
    fake.list({ conditionId: condition(1), raw: { id: '1', conditionId: '', clobTokenIds: null } });
    fake.list({ conditionId: condition(2), tags: ['a'] });
    const { logger, lines } = recorder();
    const page = await connect({ logger }).newest(undefined);
    expect(page.listings.map((one) => one.conditionId)).toEqual([condition(2)]);
    expect(lines).toEqual([]);
  });

  test('finds the market of a token', async () => {
    fake.list({ conditionId: condition(5), tags: ['a'], closed: true });
    const [, second] = derived(condition(5));
    const found = await connect().listingsOfTokens([second, '12']);
    expect(found.get(second)?.conditionId).toBe(condition(5));
    expect(found.has('12')).toBe(false);
  });
});

describe('requests', () => {
  test.each<[string, Fault, string]>([
    ['an error of the server', { status: 503 }, 'server'],
    ['too many requests', { status: 429 }, 'busy'],
    ['a refusal', { status: 422 }, 'refused'],
    ['an answer that is cut', 'cut', 'malformed'],
    ['a connection that breaks', 'disconnect', 'network'],
    ['a service that hangs', 'hang', 'timeout'],
  ])('classify %s', async (_name, fault, reason) => {
    fake.list({ conditionId: condition(1), tags: ['a'] });
    fake.control.fault = () => fault;
    const gamma = connect(fault === 'hang' ? { requestMsMax: 200 } : {});
    expect((await failure(gamma.newest(undefined))).reason).toBe(reason);
    if (fault === 'hang') return;
    fake.control.fault = () => undefined;
    expect((await gamma.newest(undefined)).listings).toHaveLength(1);
  });

  test('for listings that are refused find none', async () => {
    fake.control.fault = () => ({ status: 422 });
    expect((await connect().listings([condition(1)])).size).toBe(0);
  });

  test('have fewer ids if the service refuses many, or one of them', async () => {
    for (let number = 1; number <= 10; number++) {
      fake.list({ conditionId: condition(number), tags: ['a'], closed: number % 2 === 0 });
    }
    fake.control.fault = ({ search, searchParams }) => {
      const isRefused =
        searchParams.getAll('condition_ids').length > 3 || search.includes(condition(7));
      return isRefused ? { status: 400 } : undefined;
    };
    const ids = Array.from({ length: 10 }, (_, i) => condition(i + 1));
    const found = await connect().listings(ids);
    expect([...found.keys()].toSorted()).toEqual(ids.filter((id) => id !== condition(7)));
  });

  test('that are refused say why', async () => {
    fake.control.fault = () => ({ status: 403, body: '<h1>\n not from your country</h1>' });
    const error = await failure(connect().newest(undefined));
    expect(error.message).toContain('status 403: <h1> not from your country</h1>');
  });

  test('all wait for the time in Retry-After', async () => {
    const gamma = connect();
    fake.control.fault = () => ({ status: 429, headers: { 'retry-after': '1' } });
    const begunAt = performance.now();
    await failure(gamma.listings([condition(1)]));
    fake.control.fault = () => undefined;
    await Promise.all([gamma.listings([condition(1)]), gamma.profiles([wallet(1)])]);
    expect(performance.now() - begunAt).toBeGreaterThan(990);
  });

  test('go one by one to a service that is down, and report the downtime', async () => {
    const gamma = connect();
    let open = 0;
    let together = 0;
    fake.control.fault = () => {
      open += 1;
      together = Math.max(together, open);
      setTimeout(() => {
        open -= 1;
      }, 3);
      return { status: 500 };
    };
    for (let i = 0; i < 4; i++) await failure(gamma.listings([condition(i)]));
    together = 0;
    await Promise.allSettled(Array.from({ length: 8 }, (_, i) => gamma.listings([condition(i)])));
    expect(together).toBe(1);
    expect(gamma.downMs).toBeGreaterThan(0);
    fake.control.fault = () => undefined;
    await gamma.listings([condition(1)]);
    expect(gamma.downMs).toBe(0);
  });
});

describe('profiles', () => {
  const profile = (address: string, more: object = {}) => ({
    proxyWallet: address.toUpperCase().replace('0X', '0x'),
    name: `n-${address.slice(-2)}`,
    takerTier: 2,
    takerTierName: 'Silver',
    weightedVolume: 89_074.462449,
    ...more,
  });

  test('are requested in one batch; only omitted wallets are requested individually', async () => {
    for (const number of [1, 2]) fake.profiles.set(wallet(number), profile(wallet(number)));
    const found = await connect().profiles([1, 2, 3].map(wallet));
    expect([...found.keys()]).toEqual([wallet(1), wallet(2)]);
    expect(found.get(wallet(1))).toMatchObject({ takerTier: 2, weightedVolumeUsd: 89_074.462449 });
    expect(paths()).toEqual(['/public-profiles', '/public-profile']);
  });

  test('are requested one by one from a service without batches, without trying a batch again', async () => {
    fake.control.profilesPath = false;
    fake.profiles.set(wallet(1), profile(wallet(1)));
    const gamma = connect();
    expect((await gamma.profiles([wallet(1), wallet(2)])).size).toBe(1);
    await gamma.profiles([wallet(1), wallet(2)]);
    expect(paths().filter((path) => path === '/public-profiles')).toHaveLength(1);
    expect(paths().filter((path) => path === '/public-profile')).toHaveLength(4);
  });

  test('have no tier if theirs is unknown', async () => {
    fake.profiles.set(wallet(1), profile(wallet(1), { takerTier: 9, weightedVolume: '12' }));
    const found = await connect().profiles([wallet(1)]);
    expect(found.get(wallet(1))).toMatchObject({ takerTier: 0, weightedVolumeUsd: null });
  });

  test('are well-formed text, also if they are cut within a character', async () => {
    const name = `${'a'.repeat(199)}🐋`;
    fake.profiles.set(wallet(1), profile(wallet(1), { name, xUsername: 'half \ud83d' }));
    const found = await connect().profiles([wallet(1)]);
    expect(found.get(wallet(1))).toMatchObject({
      name: `${'a'.repeat(199)}\ufffd`,
      xUsername: 'half \ufffd',
    });
  });

  test('that are refused are missing, the others are not affected, and it is logged once a path', async () => {
    const { logger, lines } = recorder();
    fake.control.profilesPath = false;
    fake.profiles.set(wallet(1), profile(wallet(1)));
    fake.control.fault = ({ search }) => (search.includes(wallet(2)) ? { status: 403 } : undefined);
    const gamma = connect({ logger });
    for (let i = 0; i < 2; i++) {
      expect([...(await gamma.profiles([1, 2].map(wallet))).keys()]).toEqual([wallet(1)]);
    }
    // Once for the batch, and once for the single wallet.
    const refused = 'metadata API refuses requests';
    expect(lines.map(({ msg }) => msg)).toEqual([refused, refused]);
  });

  test('an outage is not a missing profile', async () => {
    fake.control.fault = () => ({ status: 502 });
    expect((await failure(connect().profiles([wallet(1)]))).reason).toBe('server');
  });
});
