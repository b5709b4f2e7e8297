/**
 * From a pending transaction leaving the node to its match stored in FEED and read back by a
 * consumer, at a given rate. The node is a PushNode with real devnet calldata under new hashes, whose
 * traders and markets are known beforehand, as those of nearly all matches are; or anvil itself.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { OPERATORS } from '../../../infra/local/devnet/contracts.ts';
import { Random } from '../../../infra/local/devnet/random.ts';
import { startNatsServer } from '../../../infra/local/nats-server.ts';
import { SMALL_YOUNG_SPACE } from '../../../infra/local/service.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { tailBatches } from '../../../infra/nats/reader.ts';
import { FEED_MATCH_SUBJECT, FEED_STREAM } from '../../../ingest/contract.ts';
import { MATCH_ORDERS_SELECTOR } from '../../../ingest/decode.ts';
import { rpc, start, startService, temporaryDirectory, until } from '../../support/service.ts';
import { blockNumber, chainFacts } from '../faults/chain-facts.ts';
import type { History } from './history.ts';
import { PushNode } from './push-node.ts';
import { percentile } from './report.ts';

const WARM_SECONDS = 5;
const TEMPLATES_MAX = 400;

type Transaction = { readonly from: string; readonly input: string };

export type Latency = { readonly matches: number; readonly p50: number; readonly p99: number };

/** Milliseconds over `seconds` at each of the rates (matches a second), one after the other. */
export async function latencies(
  history: History,
  rates: readonly number[],
  seconds: number,
): Promise<Latency[]> {
  const directory = temporaryDirectory();
  const server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  const node = await PushNode.open(history.rpcUrl);
  const nats = await connectNats({ url: server.url, name: 'bench' });
  const ingest = start('ingest/main.ts', [], {
    ...history.env,
    ...{ NATS_URL: server.url, RPC_URL: node.url, OPERATORS: OPERATORS.join(',') },
    NODE_OPTIONS: SMALL_YOUNG_SPACE,
  });
  const stopping = new AbortController();
  try {
    await ingest.event('caught_up');
    await node.subscribed();
    const templates = await pendingTemplates(history.rpcUrl);
    const clock = new Clock();
    const reading = clock.read(nats, stopping.signal);
    const results: Latency[] = [];
    const random = new Random(`latency`);
    for (const rate of rates) {
      await clock.run(node, templates, rate, WARM_SECONDS, random);
      results.push(summary(await clock.run(node, templates, rate, seconds, random)));
    }
    stopping.abort();
    await reading;
    return results;
  } finally {
    stopping.abort();
    await ingest.stop();
    await node.close();
    await nats.close();
    await server.stop();
    directory.remove();
  }
}

/**
 * Milliseconds with anvil as the node and the devnet's traders, who send about so many matches a second:
 * from the push of a pending transaction, as a subscriber beside ingest receives it.
 */
export async function latencyOfDevnet(rate: number, seconds: number): Promise<Latency> {
  const directory = temporaryDirectory();
  const devnet = start('infra/local/devnet/main.ts', [
    ...[
      '--data',
      join(directory.path, 'devnet'),
      '--history-matches',
      '400',
      '--history-days',
      '3',
    ],
    ...['--demo-rate', String(rate)],
  ]);
  const server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  const nats = await connectNats({ url: server.url, name: 'bench' });
  const stopping = new AbortController();
  let ingest: ReturnType<typeof start> | undefined;
  try {
    const ready = await devnet.event('ready');
    ingest = start('ingest/main.ts', [], {
      ...{ CHAIN: 'devnet', RPC_URL: String(ready.rpc_url), GAMMA_URL: String(ready.gamma_url) },
      ...{ NATS_URL: server.url, OPERATORS: OPERATORS.join(','), NODE_OPTIONS: SMALL_YOUNG_SPACE },
    });
    await ingest.event('caught_up');
    const clock = new Clock();
    const reading = clock.read(nats, stopping.signal);
    const unsubscribe = await pushedMatches(String(ready.ws_url), (hash) => clock.sent(hash));
    await delay(WARM_SECONDS * 1_000);
    clock.begin();
    await delay(seconds * 1_000);
    unsubscribe();
    const took = await clock.allBack();
    stopping.abort();
    await reading;
    return summary(took);
  } finally {
    stopping.abort();
    await ingest?.stop();
    await devnet.stop();
    await nats.close();
    await server.stop();
    directory.remove();
  }
}

/**
 * Milliseconds from when the node says that a block is final until the taker of its last match has the trade among
 * their positions, as the api answers: the whole service of `npm start`, one match a block.
 */
export async function latencyOfPositions(rate: number, seconds: number): Promise<Latency> {
  const directory = temporaryDirectory();
  const args = ['--demo-rate', String(rate)];
  const service = await startService(directory.path, { args });
  const { rpc_url: url } = service.ready;
  const took: number[] = [];
  try {
    let known = await blockNumber(url, 'finalized');
    for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
      const final = await until(async () => {
        const number = await blockNumber(url, 'finalized');
        return number > known ? number : undefined;
      });
      const since = performance.now();
      const matches = await chainFacts(url, known + 1, final);
      const last = matches.findLast(({ kind }) => kind === 'match');
      known = final;
      if (last === undefined) continue;
      const params = [`0x${last.block.toString(16)}`, false];
      const { timestamp } = await rpc<{ timestamp: string }>(url, 'eth_getBlockByNumber', params);
      const taker = /^\d+ \S+ (\S+) true /m.exec(last.content)?.[1] ?? '';
      const isShown = async () => {
        const at = Number(timestamp) * 1_000;
        let next: string | undefined;
        do {
          const cursor: string = next === undefined ? '' : `&cursor=${next}`;
          const query = `status=all&sort_by=age&order=asc&limit=100${cursor}`;
          const page = await service.get<Positions>(`/v2/traders/${taker}/positions?${query}`);
          if (page.positions.some((one) => Date.parse(one.last_trade_at) === at)) return true;
          next = page.next_cursor;
        } while (next !== '');
        return undefined;
      };
      await until(isShown);
      took.push(performance.now() - since);
    }
  } finally {
    await service.up.stop();
    directory.remove();
  }
  return summary(took);
}
type Positions = {
  readonly positions: readonly { readonly last_trade_at: string }[];
  readonly next_cursor: string;
};

/** Calls for each pending match that a node pushes; resolves when it does. */
async function pushedMatches(url: string, onMatch: (hash: string) => void): Promise<() => void> {
  const operators = new Set(OPERATORS.map((one) => one.toLowerCase()));
  const socket = new WebSocket(url);
  await once(socket, 'open');
  const subscribed = once(socket, 'message');
  const params = ['newPendingTransactions', true];
  socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params }));
  await subscribed;
  socket.addEventListener('message', ({ data }) => {
    const { hash, from, input } = JSON.parse(String(data)).params.result;
    if (operators.has(from.toLowerCase()) && input.startsWith(MATCH_ORDERS_SELECTOR)) onMatch(hash);
  });
  return () => socket.close();
}

/** Takes the time from a match that was sent to the same match read back from FEED. */
class Clock {
  readonly #sentAt = new Map<string, number>();
  /** Read from FEED and not sent, so far as is known. */
  readonly #early = new Set<string>();
  #took: number[] = [];
  #empty: (() => void) | undefined;

  async read(nats: Nats, signal: AbortSignal): Promise<void> {
    const options = { stream: FEED_STREAM, fromSequence: 1, filterSubject: FEED_MATCH_SUBJECT };
    for await (const batch of tailBatches(nats, { ...options, signal })) {
      const now = performance.now();
      for (const { messageId } of batch) {
        const hash = messageId.split(':')[0] ?? '';
        const sentAt = this.#sentAt.get(hash);
        if (sentAt === undefined) {
          this.#early.add(hash);
          continue;
        }
        this.#sentAt.delete(hash);
        this.#took.push(now - sentAt);
      }
      if (this.#sentAt.size === 0) this.#empty?.();
    }
  }

  async run(
    node: PushNode,
    templates: readonly Transaction[],
    rate: number,
    seconds: number,
    random: Random,
  ): Promise<readonly number[]> {
    this.begin();
    const end = performance.now() + seconds * 1_000;
    for (let due = performance.now(); due < end; ) {
      if (performance.now() < due) {
        await turn();
        continue;
      }
      const hash = random.hex(32);
      this.sent(hash);
      node.push({ ...random.pick(templates), hash });
      due += (-Math.log(1 - random.unit()) * 1_000) / rate;
    }
    return this.allBack();
  }

  /** A match that FEED had before this process knew it took no time. */
  sent(hash: string): void {
    if (this.#early.delete(hash)) this.#took.push(0);
    else this.#sentAt.set(hash, performance.now());
  }

  /** Forgets what was measured so far. */
  begin(): void {
    this.#took = [];
  }

  /** Waits for every match that was sent; resolves with the milliseconds of all since `begin`. */
  async allBack(): Promise<readonly number[]> {
    if (this.#sentAt.size > 0) {
      await new Promise<void>((resolve) => {
        this.#empty = resolve;
      });
      this.#empty = undefined;
    }
    return this.#took;
  }
}

/** Matches of the newest blocks, as the node would push them. */
async function pendingTemplates(rpcUrl: string): Promise<readonly Transaction[]> {
  const operators = new Set(OPERATORS.map((one) => one.toLowerCase()));
  const found: Transaction[] = [];
  let number = Number(await rpc<string>(rpcUrl, 'eth_blockNumber', []));
  for (; number > 0 && found.length < TEMPLATES_MAX; number--) {
    const params = [`0x${number.toString(16)}`, true];
    const block = await rpc<{ transactions: Transaction[] }>(
      rpcUrl,
      'eth_getBlockByNumber',
      params,
    );
    found.push(
      ...block.transactions.filter(
        ({ from, input }) =>
          operators.has(from.toLowerCase()) && input.startsWith(MATCH_ORDERS_SELECTOR),
      ),
    );
  }
  return found.map((one) => ({ ...one, blockHash: null, blockNumber: null }));
}

function summary(took: readonly number[]): Latency {
  return { matches: took.length, p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
}
