/**
 * Alerts under kills: the whole service trades while its processes and servers are killed, and receivers refuse, hang, fail, limit
 * and cut. Afterwards every receiver must have every event of its alerts, each id with one content, and a retraction of each
 * that did not happen, by an account of FEED that only compares amounts and addresses, and by LEDGER.
 */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { AlertEvent } from '../../../apps/alerts/event.ts';
import { connectNats, type Nats, streamState } from '../../../infra/nats/connection.ts';
import { storedSince } from '../../../infra/nats/reader.ts';
import { decodeFeedEvent, FEED_STREAM, type FeedEvent } from '../../../ingest/contract.ts';
import { generator } from '../../support/seed.ts';
import { answered, type Service, startService, until } from '../../support/service.ts';
import type { Given } from './run.ts';

const Trader = z.object({ address: z.string() });

const RATE = 10;
const PARTS = ['alerts', 'nats', 'api', 'ingest', 'alerts', 'projector', 'clickhouse'] as const;
const KILL_MS = [1_500, 4_500] as const;
const TRADERS = 30;
/** Of the requests that a rough receiver gets. */
const ROUGH_SHARE = 0.3;
const REFUSED_MS = 1_500;
/** Ends the wait for the last deliveries. */
const SETTLED_MS_MAX = 1_200_000;

type Match = Extract<FeedEvent, { kind: 'match' }>;
type Sequel = Exclude<FeedEvent, Match>;
/** What a rule finds in a match: the wallets whose positions change, or the match itself, as ''. */
type Wanted = (match: Match) => readonly string[];

/** How receivers fail, while they do. */
const FAULTS: Readonly<Record<string, (response: ServerResponse, receiver: Receiver) => void>> = {
  never: (response) => response.end(),
  fails: (response) => response.writeHead(500).end('broken'),
  limits: (response) => response.writeHead(429, { 'Retry-After': '1' }).end(),
  hangs: () => undefined,
  cuts: (response) => response.socket?.destroy(),
  refuses(response, receiver) {
    response.socket?.destroy();
    receiver.refuse();
  },
};

export async function runAlerts(options: Given & { readonly kills: number }) {
  const { directory, kills, onProgress, seed } = options;
  const dice = generator(seed);
  const service = await startService(directory, {
    args: ['--demo-rate', String(RATE), '--history-days', '1'],
    env: { ALERT_NETWORKS: '127.0.0.0/8' },
  });
  const receivers = await Promise.all(
    Object.keys(FAULTS).map((fault) => Receiver.open(fault, dice)),
  );
  try {
    const traders = await busiest(service);
    const watched = new Set(traders);
    const rules: readonly (readonly [rule: object, wanted: Wanted])[] = [
      [{ type: 'match', min_usdc: 100 }, ({ taker }) => itself(taker.usdc >= 100_000_000n)],
      [{ type: 'position', traders }, (match) => changedOf(match, watched)],
      [
        { type: 'match', traders, max_price: 60 },
        (match) =>
          itself(
            walletsOf(match).some((wallet) => watched.has(wallet)) &&
              match.taker.usdc * 100n <= match.taker.shares * 60n,
          ),
      ],
      [
        { type: 'match', tags: ['crypto'], min_usdc: 20 },
        ({ market, taker }) =>
          itself(
            market.tags.some((tag) => tag.toLowerCase() === 'crypto') && taker.usdc >= 20_000_000n,
          ),
      ],
    ];
    const destinations: string[] = [];
    for (const { url } of receivers) destinations.push(await createDestination(service, url));
    const alerts = new Map<string, Wanted>();
    for (const [rule, wanted] of rules) {
      const body = { name: 'kills', rule, destinations, confirm: true };
      alerts.set((await post(service, '/v2/alerts', body)).id, wanted);
    }
    const nats = () => connectNats({ ...service.nats, name: 'alert run' });
    const first = await everybodyListens(service, receivers, [...alerts.keys()], nats);
    const done: Record<string, number> = {};
    for (const receiver of receivers) receiver.isRough = true;
    for (let n = 0; n < kills; n += 1) {
      await delay(KILL_MS[0] + dice() * (KILL_MS[1] - KILL_MS[0]));
      const part = PARTS[n % PARTS.length] ?? 'alerts';
      process.kill(service.pidOf(part), 'SIGKILL');
      done[part] = (done[part] ?? 0) + 1;
      onProgress(`kill ${n + 1}: ${part}, ${receivers.map((one) => one.events.length).join(' ')}`);
      await until(async () => {
        const response = await answered(() => fetch(`${service.ready.url}/healthz`));
        return response.ok ? response : undefined;
      });
    }
    for (const receiver of receivers) receiver.isRough = false;
    const client = await until(async () => await nats().catch(() => undefined));
    try {
      const last = (await streamState(client, FEED_STREAM)).lastSequence;
      const feed = await decided(client, first, last);
      const expected = expectedOf(feed, alerts);
      await waitFor(receivers, expected);
      const differences = receivers.flatMap((receiver) => receiver.differences(expected));
      const states = Map.groupBy(expected, (key) => key.split(' ')[2] ?? '');
      return {
        ...{ differences, kills: done, events: expected.size },
        states: Object.fromEntries([...states].map(([state, all]) => [state, all.length])),
        received: receivers.map(({ events, fault }) => `${fault} ${events.length}`),
        faults: receivers.map(({ fault, faults }) => `${fault} ${faults}`),
        repeated: receivers.map(({ repeated }) => repeated),
        notInLedger: await wrongInLedger(service, feed),
      };
    } finally {
      await client.close();
    }
  } finally {
    await service.up.stop();
    for (const receiver of receivers) receiver.close();
  }
}

class Receiver {
  readonly fault: string;
  readonly events: AlertEvent[] = [];
  isRough = false;
  faults = 0;
  repeated = 0;
  readonly #dice: () => number;
  readonly #byId = new Map<string, string>();
  readonly #keys = new Set<string>();
  readonly #wrong: string[] = [];
  #server: Server;
  #port = 0;

  private constructor(fault: string, dice: () => number) {
    this.fault = fault;
    this.#dice = dice;
    this.#server = this.#newServer();
  }

  static async open(fault: string, dice: () => number): Promise<Receiver> {
    const receiver = new Receiver(fault, dice);
    await receiver.#listen();
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Refuses connections for a moment. */
  refuse(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    setTimeout(() => {
      this.#server = this.#newServer();
      void this.#listen();
    }, REFUSED_MS);
  }

  /** What it lacks or should not have. */
  differences(expected: ReadonlySet<string>): string[] {
    const got = new Set(this.events.flatMap((event) => keyOf(event) ?? []));
    const lacks = [...expected].filter((key) => !got.has(key)).map((key) => `lacks ${key}`);
    return [...lacks, ...this.#wrong].map((difference) => `${this.fault}: ${difference}`);
  }

  has(expected: ReadonlySet<string>): boolean {
    const got = new Set(this.events.flatMap((event) => keyOf(event) ?? []));
    return [...expected].every((key) => got.has(key));
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #newServer(): Server {
    return createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8');
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        if (this.isRough && this.fault !== 'never' && this.#dice() < ROUGH_SHARE) {
          this.faults += 1;
          FAULTS[this.fault]?.(response, this);
          return;
        }
        this.#take(body);
        response.end();
      });
    });
  }

  #take(body: string): void {
    const event: AlertEvent = JSON.parse(body);
    // A position that changes sides is closed and opened: two events.
    const key = `${keyOf(event)} ${event.text} ${event.refers_to}`;
    const known = this.#byId.get(event.id);
    if (known === undefined) {
      const isTwice = event.type !== 'test' && this.#keys.has(key);
      if (isTwice) this.#wrong.push(`two ids: ${key}`);
      this.#keys.add(key);
      this.#byId.set(event.id, key);
      this.events.push(event);
      return;
    }
    this.repeated += 1;
    if (known !== key) this.#wrong.push(`${event.id} is ${known}, and ${key}`);
  }

  #listen(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.listen(this.#port, '127.0.0.1', () => {
        this.#port = (this.#server.address() as AddressInfo).port;
        resolve();
      });
    });
  }
}

/** Alert, match, state, and the wallet if it is about one; undefined for tests. */
function keyOf({ alert, data, state, type }: AlertEvent): string | undefined {
  if (type === 'test') return undefined;
  const wallet = type === 'position' ? Trader.parse(data.trader).address : '';
  return `${alert.id} ${data.match_id} ${state === 'final' ? 'pending' : state} ${wallet}`;
}

function walletsOf({ makers, taker }: Match): readonly string[] {
  return [taker, ...makers].map(({ trader }) => trader.address);
}

const itself = (isWanted: boolean): readonly string[] => (isWanted ? [''] : []);

/** The watched wallets that have more or less of an outcome after the match. */
function changedOf({ makers, taker }: Match, watched: ReadonlySet<string>): readonly string[] {
  const net = new Map<string, bigint>();
  for (const { outcomeIndex, shares, side, trader } of [taker, ...makers]) {
    const isMore = (side === 'BUY') === (outcomeIndex === 0);
    net.set(trader.address, (net.get(trader.address) ?? 0n) + (isMore ? shares : -shares));
  }
  return [...net].flatMap(([wallet, change]) =>
    change !== 0n && watched.has(wallet) ? [wallet] : [],
  );
}

/** By plain comparisons: what each alert has to send about the matches from the first to the last. */
function expectedOf(feed: Feed, alerts: ReadonlyMap<string, Wanted>): ReadonlySet<string> {
  const expected = new Set<string>();
  for (const [id, wanted] of alerts) {
    for (const { match, matchId, sequels } of feed) {
      const found = wanted(match);
      const add = (state: string) => {
        for (const one of found) expected.add(`${id} ${matchId} ${state} ${one}`);
      };
      add('pending');
      if (match.sent === undefined) continue;
      let isVoid = false;
      for (const { kind } of sequels) {
        if (kind === 'void') add('retracted');
        if (kind === 'restored') add('restored');
        // A match that was restored is final.
        if (kind === 'final' && !isVoid) add('confirmed');
        isVoid ||= kind === 'void';
      }
    }
  }
  return expected;
}

type Feed = readonly {
  readonly match: Match;
  readonly matchId: string;
  readonly sequels: readonly Sequel[];
}[];

/** The matches of these sequences, once FEED says what became of each. */
async function decided(nats: Nats, first: number, last: number): Promise<Feed> {
  return await until(async () => {
    const found = new Map<string, { match: Match; matchId: string; sequels: Sequel[] }>();
    for await (const { data, messageId, sequence } of storedSince(nats, FEED_STREAM, {
      sequence: first,
    })) {
      const event = decodeFeedEvent(data);
      if (event.kind !== 'match') found.get(event.matchId)?.sequels.push(event);
      else if (sequence <= last) {
        found.set(messageId, { match: event, matchId: messageId, sequels: [] });
      }
    }
    const all = [...found.values()];
    const isDecided = all.every(
      ({ match, sequels }) => match.sent === undefined || sequels.length > 0,
    );
    return isDecided && all.length > 0 ? all : undefined;
  });
}

/** Transactions that are booked although they were retracted for good, or confirmed and not booked. */
async function wrongInLedger(service: Service, feed: Feed): Promise<number> {
  const fates = feed.map(({ match, sequels }) => ({
    tx: match.txHash,
    isVoid: sequels.at(-1)?.kind === 'void',
  }));
  return await until(async () => {
    const rows = await service.query<{ tx: string }>(
      "SELECT DISTINCT concat('0x', lower(hex(tx_hash))) AS tx FROM bookings WHERE kind = 'fill'",
    );
    const booked = new Set(rows.map(({ tx }) => tx));
    const wrong = fates.filter(({ isVoid, tx }) => booked.has(tx) === isVoid);
    return wrong.length === 0 ? wrong.length : undefined;
  });
}

async function waitFor(receivers: readonly Receiver[], expected: ReadonlySet<string>) {
  const endMs = Date.now() + SETTLED_MS_MAX;
  while (Date.now() < endMs && !receivers.every((receiver) => receiver.has(expected))) {
    await delay(500);
  }
}

/** Resolves with a sequence of FEED from which on all alerts are evaluated. */
async function everybodyListens(
  service: Service,
  receivers: readonly Receiver[],
  alerts: readonly string[],
  connect: () => Promise<Nats>,
): Promise<number> {
  for (const id of alerts) await post(service, `/v2/alerts/${id}/test`, undefined);
  await until(async () => {
    const tests = receivers.map(({ events }) => events.filter(({ type }) => type === 'test'));
    return tests.every(({ length }) => length === alerts.length) ? true : undefined;
  });
  const nats = await connect();
  try {
    return (await streamState(nats, FEED_STREAM)).lastSequence + 1;
  } finally {
    await nats.close();
  }
}

async function busiest(service: Service): Promise<string[]> {
  const path = `/v2/analytics/leaderboard?sort_by=volume&limit=${TRADERS}`;
  const { traders } = await service.get<{ traders: { profile: { address: string } }[] }>(path);
  return traders.map(({ profile }) => profile.address.toLowerCase());
}

async function createDestination(service: Service, url: string): Promise<string> {
  const target = { kind: 'webhook', url };
  return (await post(service, '/v2/destinations', { name: 'receiver', target })).destination.id;
}

async function post(service: Service, path: string, body: object | undefined) {
  const response = await fetch(`${service.ready.url}${path}`, {
    method: 'POST',
    headers: { 'X-Service-Key': service.ready.key, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}
