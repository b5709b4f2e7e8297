/**
 * A test metadata API over real HTTP with the quirks of the real one: it returns closed markets only with
 * `closed=true`, tags only with `include_tag=true`, and 404 for unknown wallets. `fault` decides whether each request
 * gets a response, an error, a broken connection or nothing.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import type { Hex } from 'viem';
import { positionIds } from '../../ingest/events/token-ids.ts';

export type MarketGiven = {
  readonly conditionId: string;
  readonly closed?: boolean;
  readonly tags?: readonly string[];
  readonly question?: string;
  /** '1' by default. Omitted from responses with tags if `eventWithTags` is false. */
  readonly eventId?: string;
  readonly eventWithTags?: boolean;
  readonly tokenIds?: readonly [string, string];
  readonly outcomes?: readonly [string, string];
  /** Returned for this market instead of everything else. */
  readonly raw?: unknown;
};
export type EventGiven = {
  readonly id: string;
  readonly tags: readonly string[];
  readonly series?: string;
};

/** The fault of a request; undefined for a normal response. */
export type Fault =
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  | 'hang'
  | 'cut'
  | 'disconnect'
  | undefined;

const USDC_E = '0x2791bca1f2de4661ed88a30c99a7a9449aa84174';
export const WRAPPED = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';
export const EXCHANGE = '0xe111180000d2663c0091e4f400237545b87b996b';
export const NEG_RISK_EXCHANGE = '0xe2222d279d744050d28e00520010520000310f59';
export const CHAIN = {
  id: 137,
  exchanges: new Map<string, Hex>([
    [EXCHANGE, USDC_E],
    [NEG_RISK_EXCHANGE, WRAPPED],
  ]),
  conditionalTokens: '0x4d97dcd97ec945f40cf65f87097ace5ea0476045',
  collateral: '0xc011a7e12a19f7b1f670d46f03b03f3342e82dfb',
  firstBlock: 0,
} as const;

export const silent = pino({ level: 'silent' });

/** A logger that collects its lines. */
export function recorder() {
  const lines: Readonly<Record<string, unknown>>[] = [];
  return { logger: pino({}, { write: (line: string) => lines.push(JSON.parse(line)) }), lines };
}

/** A condition id that ends in a number. */
export function condition(number: number): Hex {
  return `0x${number.toString(16).padStart(64, '0')}`;
}

export function wallet(number: number): Hex {
  return `0x${number.toString(16).padStart(40, '0')}`;
}

export function derived(conditionId: string, collateral: Hex = USDC_E): readonly [string, string] {
  const key = `${collateral}:${conditionId}`;
  const [first, second] = pairs.get(key) ?? positionIds(collateral, conditionId as Hex);
  pairs.set(key, [first, second]);
  return [first.toString(), second.toString()];
}
const pairs = new Map<string, readonly [bigint, bigint]>();

export async function startFakeGamma() {
  const markets = new Map<string, MarketGiven>();
  const events = new Map<string, EventGiven>();
  const profiles = new Map<string, Readonly<Record<string, unknown>>>();
  const requests: URL[] = [];
  const control: { fault: (url: URL) => Fault; profilesPath: boolean } = {
    fault: () => undefined,
    profilesPath: true,
  };
  const server = createServer((request, response) => answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', origin);
    requests.push(url);
    const fault = control.fault(url);
    if (fault === 'hang') return;
    if (fault === 'disconnect') return void request.socket.destroy();
    if (typeof fault === 'object')
      return void response.writeHead(fault.status, fault.headers).end(fault.body);
    const { status, body } = bodyOf(url);
    const text = JSON.stringify(body);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(fault === 'cut' ? text.slice(0, text.length / 2) : text);
  }

  function bodyOf(url: URL): { readonly status: number; readonly body: unknown } {
    const query = url.searchParams;
    const list = (name: string) => query.getAll(name).flatMap((value) => value.split(','));
    const ok = (body: unknown) => ({ status: 200, body });
    if (url.pathname === '/markets') {
      const shown = (market: MarketGiven) =>
        (market.closed ?? false) === (query.get('closed') === 'true');
      const ids = new Set([...list('condition_ids'), ...list('clob_token_ids')]);
      const has = (market: MarketGiven) =>
        [market.conditionId, ...tokensOf(market)].some((id) => ids.has(id));
      return ok(
        [...markets.values()]
          .filter((one) => shown(one) && has(one))
          .map((one) => json(one, query)),
      );
    }
    if (url.pathname === '/markets/keyset') {
      const all = [...markets.values()].filter((one) => !one.closed).toReversed();
      const from = Number(query.get('after_cursor') ?? 0);
      const limit = Number(query.get('limit'));
      const next = from + limit < all.length ? { next_cursor: String(from + limit) } : {};
      const page = all.slice(from, from + limit).map((one) => json(one, query));
      return ok({ markets: page, ...next });
    }
    if (url.pathname === '/events') {
      return ok(
        list('id')
          .flatMap((id) => events.get(id) ?? [])
          .map(eventJson),
      );
    }
    if (url.pathname === '/public-profiles' && control.profilesPath) {
      return ok(list('addresses').flatMap((address) => profiles.get(address) ?? []));
    }
    const profile = profiles.get(query.get('address') ?? '');
    if (url.pathname === '/public-profile' && profile !== undefined) return ok(profile);
    return { status: 404, body: { error: 'not found' } };
  }

  return {
    url: origin,
    markets,
    events,
    profiles,
    requests,
    control,
    list(market: MarketGiven) {
      markets.set(market.conditionId, market);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
export type FakeGamma = Awaited<ReturnType<typeof startFakeGamma>>;

function tokensOf({ tokenIds, conditionId }: MarketGiven): readonly [string, string] {
  return tokenIds ?? derived(conditionId);
}

function json(market: MarketGiven, query: URLSearchParams): unknown {
  if (market.raw !== undefined) return market.raw;
  const { conditionId, question = 'Will it?', tags, outcomes = ['Yes', 'No'] } = market;
  const { eventId = '1', eventWithTags = true } = market;
  const hasEvent = eventWithTags || query.get('include_tag') !== 'true';
  return {
    id: String(Number.parseInt(conditionId.slice(-12), 16)),
    conditionId,
    question,
    slug: `m-${conditionId.slice(-8)}`,
    startDate: '2026-09-08T14:00:11Z',
    outcomes: JSON.stringify(outcomes),
    clobTokenIds: JSON.stringify(tokensOf(market)),
    closed: market.closed ?? false,
    ...(hasEvent ? { events: [{ id: eventId, slug: `e-${eventId}`, title: 'E' }] } : {}),
    ...(tags !== undefined && query.get('include_tag') === 'true'
      ? { tags: tags.map((slug) => ({ slug })) }
      : {}),
  };
}

function eventJson({ id, tags, series }: EventGiven) {
  return {
    id,
    tags: tags.map((slug) => ({ slug })),
    series: series === undefined ? [] : [{ slug: series }],
  };
}
