/**
 * Restart at any instruction: ingest is killed with −9 again and again while it catches up with a history, and the last
 * one finishes. LEDGER must be the same as without kills. NATS and the chain stay up.
 *
 * Each kill waits for an event that a seed chooses and that ingest cannot get past: a response of the chain node or
 * an acknowledgement of LEDGER is held back. So every kill falls into the catch-up, however fast ingest is.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connectNats, type Nats, streamState } from '../../../infra/nats/connection.ts';
import { LEDGER_STREAM, newestMessage } from '../../../ingest/ledger/ledger.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { Random } from '../../../local/devnet/random.ts';
import { storedFacts } from '../../support/chain-facts.ts';
import { Front } from '../../support/front.ts';
import { start, until } from '../../support/service.ts';
import { blockNumber } from './chain-facts.ts';
import { compare } from './compare.ts';
import type { RpcProxy } from './rpc-proxy.ts';
import type { Given } from './run.ts';
import { openStage, type Stage } from './stage.ts';

/** Every fourth kill hits ingest during startup, before it has read a block. */
const START_KILLS_EVERY = 4;
/** Chain id, final head, headers and logs: a range needs at least this many calls. */
const START_CALLS = 4;
/** Each of the last 32 blocks before the final head has its own message, so at least this many messages follow. */
const MESSAGES_MAX = 8;
/** How the client's protocol begins a message to LEDGER. */
const LEDGER_PUBLISH = 'PUB ledger.block.';

/** The moment of a kill. */
type Moment =
  /** This many calls to the chain node were forwarded since the start; the next one is held. */
  | { readonly kind: 'start'; readonly calls: number }
  /** A request for the header of this block is held. */
  | { readonly kind: 'block'; readonly number: number }
  /** This many messages were stored since the start; the acknowledgement of the last one is held. */
  | { readonly kind: 'message'; readonly count: number };

type Options = Given & {
  readonly kills: number;
  /** Matches of the history. */
  readonly matches: number;
};

/** Returns the kills before LEDGER was complete by kind of moment, and how LEDGER differs from the chain. */
export async function runKills(options: Options) {
  const { directory, seed, kills, matches, onProgress } = options;
  const random = new Random(`${seed}:kills`);
  const stage = await openStage({
    ...{ directory, seed, endpoints: 1 },
    devnet: ['--history-matches', String(matches), '--history-days', '2', '--no-live'],
  });
  const [proxy] = stage.proxies as [RpcProxy];
  const gate = await AckGate.listen(stage.natsUrl);
  let nats: Nats | undefined;
  try {
    const head = await blockNumber(stage.rpcUrl, 'latest');
    await until(async () => (await blockNumber(stage.rpcUrl, 'finalized')) >= head || undefined);
    const facts = await storedFacts(stage.rpcUrl, head);
    nats = await connectNats({ url: stage.natsUrl, name: 'kill run' });
    await ensureStreams(nats, 1);
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
    const comparison = await compare({ nats, rpcUrl: stage.rpcUrl, facts, liveAfter: head });
    return { ...comparison, kills: done };
  } finally {
    await nats?.close();
    gate.close();
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
  const natsUrl = `nats://127.0.0.1:${gate.port}`;
  const ingest = start('ingest/main.ts', [], { ...stage.env, NATS_URL: natsUrl });
  const missed = ingest.event('caught_up').then(() => {
    throw new Error(`ingest caught up before ${JSON.stringify(moment)}`);
  });
  try {
    await Promise.race([reached, missed]);
  } finally {
    missed.catch(() => undefined);
    ingest.kill('SIGKILL');
    await ingest.exit;
    hold.release();
    await gate.reset();
  }
}

/** A proxy to nats-server that can hold back its output from the acknowledgement of a LEDGER message onwards. */
class AckGate extends Front {
  /** Connections to nats-server, until it has closed them. */
  readonly #open = new Set<Promise<unknown>>();
  #left = Number.POSITIVE_INFINITY;
  #onSent = () => {};

  /** Resolves after this many more messages to LEDGER. The last one gets no acknowledgement. */
  holdAckOf(messages: number): Promise<void> {
    this.#left = messages;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onSent = resolve;
    return promise;
  }

  /** Forwards output again, after nats-server has processed everything that the killed ingest sent. */
  async reset(): Promise<void> {
    await Promise.all(this.#open);
    this.#left = Number.POSITIVE_INFINITY;
  }

  protected override join(client: Socket, server: Socket): void {
    const closed = once(server, 'close').finally(() => this.#open.delete(closed));
    this.#open.add(closed);
    let before = '';
    client.on('data', (data) => {
      const parts = (before + data.toString('latin1')).split(LEDGER_PUBLISH);
      this.#left -= parts.length - 1;
      before = (parts.at(-1) ?? '').slice(1 - LEDGER_PUBLISH.length);
      if (this.#left <= 0) this.#onSent();
    });
    client.pipe(server);
    server.on('data', (data) => {
      if (this.#left > 0) client.write(data);
    });
  }
}
