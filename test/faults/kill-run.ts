/**
 * Restart at any instruction: ingest is killed with −9 again and again while it catches up over a
 * history, each time at another block that it stores or another moment of its start, and a last
 * one finishes. LEDGER must come out as if nothing had happened. NATS and the chain stay up.
 */
import { Random } from '../../infra/local/devnet/random.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { decodeRange, LEDGER_SUBJECTS } from '../../ingest/ledger.ts';
import { blockNumber, chainFacts } from './chain-facts.ts';
import { type Comparison, compare } from './compare.ts';
import { ended, Stage, startProcess } from './stage.ts';

/** Every fourth kill falls into the start of ingest, which takes about this long. */
const START_MS_MAX = 1_500;
const START_KILLS_EVERY = 4;
/** After the message that it waits for, so that kills fall between messages too. */
const AFTER_MS_MAX = 8;

export type KillRunOptions = {
  readonly directory: string;
  readonly seed: string;
  readonly kills: number;
  /** Matches of the history. */
  readonly matches: number;
  readonly onProgress: (line: string) => void;
};

export type KillRun = Comparison & {
  /** Kills before LEDGER was complete, of all. */
  readonly killsInCatchUp: number;
  readonly kills: number;
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
  let nats: Nats | undefined;
  try {
    const head = await blockNumber(stage.rpcUrl, 'latest');
    const facts = await chainFacts(stage.rpcUrl, 0, head);
    nats = await connectNats({ url: stage.natsUrl, name: 'kill run' });
    const sent = new SentBlocks(nats);
    const startedAt = performance.now();
    let killsInCatchUp = 0;
    for (let kill = 0; kill < kills; kill++) {
      const left = Math.max(0, head - sent.newest);
      // A burst overshoots: half as much on average leaves something to catch up with for the last.
      const after = 1 + random.below(Math.ceil(left / (kills - kill)));
      const atStart = kill % START_KILLS_EVERY === 0;
      const moment = { after, atMs: random.below(atStart ? START_MS_MAX : AFTER_MS_MAX), atStart };
      if (await killOnce(stage, sent, moment)) killsInCatchUp += 1;
      onProgress(`kill ${kill + 1} of ${kills}, ${sent.newest} of ${head} blocks sent`);
    }
    sent.close();
    await stage.startIngest();
    const seconds = (performance.now() - startedAt) / 1_000;
    const comparison = await compare({ nats, rpcUrl: stage.rpcUrl, facts, liveAfter: head });
    return { ...comparison, kills, killsInCatchUp, seconds };
  } finally {
    await nats?.close();
    await stage.close();
  }
}

type Moment = { readonly after: number; readonly atMs: number; readonly atStart: boolean };

/** True when ingest had not caught up yet. */
async function killOnce(stage: Stage, sent: SentBlocks, moment: Moment): Promise<boolean> {
  const ingest = startProcess('ingest/main.ts', stage.env);
  const caughtUp = new Promise<'caught up'>((resolve) => {
    ingest.on('message', (message) => {
      if ((message as { event?: unknown }).event === 'caught_up') resolve('caught up');
    });
  });
  const died = new Promise<never>((_, reject) => {
    ingest.once('exit', (code, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(`ingest ended by itself (code ${code})`));
    });
  });
  const reached = moment.atStart ? Promise.resolve() : sent.more(moment.after);
  const before = await Promise.race([reached, caughtUp, died]);
  const late = new Promise<void>((resolve) => setTimeout(resolve, moment.atMs));
  const then = before ?? (await Promise.race([late, caughtUp, died]));
  await ended(ingest, 'SIGKILL');
  return then !== 'caught up';
}

/** The newest block that ingest has sent to LEDGER, stored or not. */
class SentBlocks {
  readonly #close: () => void;
  newest = -1;
  #waiting: { readonly until: number; readonly resolve: () => void } | undefined;

  constructor(nats: Nats) {
    const subscription = nats.connection.subscribe(LEDGER_SUBJECTS, {
      callback: (_error, { data, headers }) => {
        const header = (name: string) => headers?.get(name) ?? '';
        this.#reach(decodeRange({ sequence: 0, data, header }).to);
      },
    });
    this.#close = () => subscription.unsubscribe();
  }

  /** Resolves when so many more were sent. */
  more(blocks: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { until: this.newest + blocks, resolve };
    });
  }

  close(): void {
    this.#close();
  }

  #reach(block: number): void {
    this.newest = Math.max(this.newest, block);
    if (this.#waiting !== undefined && this.newest >= this.#waiting.until) this.#waiting.resolve();
  }
}
