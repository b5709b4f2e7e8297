/**
 * Restart at any instruction: ingest is killed with −9 again and again while it catches up with a history, and the last
 * one finishes. LEDGER must be the same as without kills. NATS and the chain stay up.
 *
 * Each kill waits for an event that a seed chooses and that ingest cannot get past: a response of the chain node or
 * an acknowledgement of LEDGER is held back. So every kill falls into the catch-up, however fast ingest is.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Random } from '../../../infra/local/devnet/random.ts';
import { connectNats, type Nats, streamState } from '../../../infra/nats/connection.ts';
import { LEDGER_STREAM, newestMessage } from '../../../ingest/ledger.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { until } from '../../support/service.ts';
import { blockNumber, chainFacts } from './chain-facts.ts';
import { type Comparison, compare } from './compare.ts';
import type { RpcProxy } from './rpc-proxy.ts';
import { ended, Stage, startProcess } from './stage.ts';

/** Every fourth kill hits ingest during startup, before it has read a block. */
const START_KILLS_EVERY = 4;
/** Chain id, final head, headers and logs: a range needs at least this many calls. */
const START_CALLS = 4;
/** Each of the last 32 blocks before the final head has its own message, so at least this many messages follow. */
const MESSAGES_MAX = 8;
/** How the client's protocol begins a message to LEDGER. */
const LEDGER_PUBLISH = 'PUB ledger.block.';

export type KillRunOptions = {
  readonly directory: string;
  readonly seed: string;
  readonly kills: number;
  /** Matches of the history. */
  readonly matches: number;
  readonly onProgress: (line: string) => void;
};

/** The moment of a kill. */
type Moment =
  /** This many calls to the chain node were forwarded since the start; the next one is held. */
  | { readonly kind: 'start'; readonly calls: number }
  /** A request for the header of this block is held. */
  | { readonly kind: 'block'; readonly number: number }
  /** This many messages were stored since the start; the acknowledgement of the last one is held. */
  | { readonly kind: 'message'; readonly count: number };

export type KillRun = Comparison & {
  /** Kills before LEDGER was complete, by kind of moment. */
  readonly kills: Readonly<Record<Moment['kind'], number>>;
  readonly seconds: number;
};

export async function runKills(options: KillRunOptions): Promise<KillRun> {
  const { directory, seed, kills, matches, onProgress } = options;
  const random = new Random(`${seed}:kills`);
  const stage = await Stage.open({
    directory,
    seed,
    endpoints: 1,
    devnet: ['--history-matches', String(matches), '--history-days', '2', '--no-live'],
  });
  const [proxy] = stage.proxies as readonly [RpcProxy];
  const gate = await AckGate.open(stage.natsUrl);
  let nats: Nats | undefined;
  try {
    const head = await blockNumber(stage.rpcUrl, 'latest');
    await until(async () => (await blockNumber(stage.rpcUrl, 'finalized')) >= head || undefined);
    const facts = await chainFacts(stage.rpcUrl, 0, head);
    nats = await connectNats({ url: stage.natsUrl, name: 'kill run' });
    await ensureStreams(nats, 1);
    const startedAt = performance.now();
    const done = { start: 0, block: 0, message: 0 };
    for (let kill = 0; kill < kills; kill++) {
      const stored = (await newestMessage(nats))?.range.to ?? -1;
      // LEDGER does not pass this block before the kill, so that blocks remain for later kills.
      const final = stored + 1 + random.below(Math.floor((head - stored) / (kills - kill)));
      proxy.limitFinal(final);
      const moment = momentOf(random, kill, stored, final);
      await killOnce({ stage, proxy, gate, nats }, moment);
      done[moment.kind] += 1;
      onProgress(
        `kill ${kill + 1} of ${kills}: ${JSON.stringify(moment)}, ${stored} of ${head} blocks stored`,
      );
    }
    proxy.limitFinal(Number.POSITIVE_INFINITY);
    await stage.startIngest();
    const seconds = (performance.now() - startedAt) / 1_000;
    const comparison = await compare({ nats, rpcUrl: stage.rpcUrl, facts, liveAfter: head });
    return { ...comparison, kills: done, seconds };
  } finally {
    await nats?.close();
    await gate.close();
    await stage.close();
  }
}

/** A moment while ingest stores the blocks after `stored` up to `final`. */
function momentOf(random: Random, kill: number, stored: number, final: number): Moment {
  if (kill % START_KILLS_EVERY === 0) return { kind: 'start', calls: random.below(START_CALLS) };
  const blocks = final - stored;
  if (kill % 2 === 0) return { kind: 'block', number: stored + 1 + random.below(blocks) };
  return { kind: 'message', count: 1 + random.below(Math.min(blocks, MESSAGES_MAX)) };
}

type Parts = {
  readonly stage: Stage;
  readonly proxy: RpcProxy;
  readonly gate: AckGate;
  readonly nats: Nats;
};

/** Starts ingest and kills it at the moment. Rejects if it catches up or ends by itself first. */
async function killOnce({ stage, proxy, gate, nats }: Parts, moment: Moment): Promise<void> {
  const { promise: missed, reject } = Promise.withResolvers<never>();
  const before = await streamState(nats, LEDGER_STREAM);
  const isStored = async (messages: number) => {
    const { lastSequence } = await streamState(nats, LEDGER_STREAM);
    return lastSequence >= before.lastSequence + messages || undefined;
  };
  let calls = 0;
  const hold = proxy.holdAt(({ method, params }) => {
    if (moment.kind === 'start') return calls++ >= moment.calls;
    const isHeader = method === 'eth_getBlockByNumber';
    return moment.kind === 'block' && isHeader && Number(params[0]) === moment.number;
  });
  const reached =
    moment.kind === 'message'
      ? gate.holdAckOf(moment.count).then(() => until(() => isStored(moment.count)))
      : hold.reached;
  const ingest = startProcess('ingest/main.ts', { ...stage.env, NATS_URL: gate.url });
  ingest.on('message', (message) => {
    const { event } = message as { event?: unknown };
    if (event === 'caught_up')
      reject(new Error(`ingest caught up before ${JSON.stringify(moment)}`));
  });
  ingest.once('exit', (code, signal) => {
    if (signal !== 'SIGKILL') reject(new Error(`ingest ended by itself (code ${code})`));
  });
  try {
    await Promise.race([reached, missed]);
  } finally {
    await ended(ingest, 'SIGKILL');
    hold.release();
    await gate.reset();
  }
}

/** A TCP proxy to nats-server that can hold back its output from the acknowledgement of a LEDGER message onwards. */
class AckGate {
  readonly #server = createServer((client) => this.#pass(client));
  readonly #target: URL;
  /** Connections to nats-server, until it has closed them. */
  readonly #open = new Map<Socket, Promise<unknown>>();
  #left = Number.POSITIVE_INFINITY;
  #onSent = () => {};

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async open(target: string): Promise<AckGate> {
    const gate = new AckGate(target);
    gate.#server.listen(0, '127.0.0.1');
    await once(gate.#server, 'listening');
    return gate;
  }

  get url(): string {
    return `nats://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves after this many more messages to LEDGER. The last one gets no acknowledgement. */
  holdAckOf(messages: number): Promise<void> {
    this.#left = messages;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onSent = resolve;
    return promise;
  }

  /** Forwards output again, after nats-server has processed everything that the killed ingest sent. */
  async reset(): Promise<void> {
    await Promise.all(this.#open.values());
    this.#left = Number.POSITIVE_INFINITY;
  }

  async close(): Promise<void> {
    for (const socket of this.#open.keys()) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #pass(client: Socket): void {
    const server = connect(Number(this.#target.port), this.#target.hostname);
    this.#open.set(server, once(server, 'close'));
    server.on('close', () => {
      this.#open.delete(server);
      client.destroy();
    });
    for (const socket of [client, server]) socket.on('error', () => undefined);
    client.on('close', () => server.end());
    let before = '';
    client.on('data', (data) => {
      const text = before + data.toString('latin1');
      const parts = text.split(LEDGER_PUBLISH);
      this.#left -= parts.length - 1;
      before = (parts.at(-1) ?? '').slice(1 - LEDGER_PUBLISH.length);
      server.write(data);
      if (this.#left <= 0) this.#onSent();
    });
    server.on('data', (data) => {
      if (this.#left > 0) client.write(data);
    });
  }
}
