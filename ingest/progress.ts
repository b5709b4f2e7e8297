/**
 * How far ingest is, and whether it is ready. It stays ready while the metadata API is down, because it publishes fills
 * without texts. `fillstream_metadata_degraded` reports that.
 */
import type { Logger } from 'pino';
import type { Counter, Registry } from 'prom-client';
import { labelledCounter, type Reasons } from '../infra/metrics-server.ts';
import type { Nats } from '../infra/nats/connection.ts';
import type { StreamWriter } from '../infra/nats/writer.ts';
import { concealer } from '../infra/secrets.ts';
import type { BlockHead } from './chain/rpc.ts';
import type { RpcError } from './chain/rpc-pool.ts';
import { MOVEMENT_REASONS } from './contract.ts';
import { ALARM_REASONS, REFUSAL_REASONS } from './events/log.ts';
import type { Block, BlockRef } from './ledger/ledger.ts';
import type { FinalFacts } from './ledger/ledger-writer.ts';
import { counterOf, gaugeOf } from './metrics.ts';

/** JetStream acknowledges within milliseconds; a restarting server takes some seconds. */
const UNSTORED_MS_MAX = 5_000;

const ALARMS: ReadonlySet<string> = new Set(ALARM_REASONS);

/** Readiness of ingest: the state of its parts, the connection to NATS, and whether JetStream stores messages. */
export class Readiness {
  /** Reasons by part; each part removes its own when it recovers. */
  readonly reasons: Record<string, string> = { final: 'catching up' };
  nats: Pick<Nats, 'connected'> | undefined;
  /** By stream. */
  writers: Readonly<Record<string, Pick<StreamWriter, 'unstoredMs'>>> = {};

  /** Why ingest is not ready; empty if it is. */
  get notReady(): Reasons {
    const reasons: Record<string, string> = { ...this.reasons };
    if (this.nats?.connected !== true) reasons.nats = 'not connected';
    for (const [stream, { unstoredMs }] of Object.entries(this.writers)) {
      if (unstoredMs <= UNSTORED_MS_MAX) continue;
      reasons[stream] = `JetStream has stored nothing for ${Math.round(unstoredMs / 1_000)} s`;
    }
    return reasons;
  }
}

const PROGRESS_MS = 2_000;
/** Ingest is not ready if LEDGER is more blocks than this behind the final head. */
const LAG_BLOCKS_MAX = 100;
/** One of several endpoints may lag for a moment. */
const NODE_BEHIND_MS_MAX = 10_000;
/** Ingest is not ready after this long without a valid response. */
const SILENCE_MS_MAX = 5_000;

export type ProgressOptions = {
  readonly logger: Logger;
  readonly registry: Registry;
  /** Reasons why the process is not ready; this class sets `final`, `fork` and `rpc`. */
  readonly notReady: Record<string, string>;
  /** Messages to the operator name its hosts and conceal its keys. */
  readonly rpcUrl: string;
};

/**
 * Progress of the final blocks: Prometheus metrics, readiness and, during a catch-up, a log line every PROGRESS_MS.
 */
export class FinalBlocksProgress {
  readonly #logger: Logger;
  readonly #notReady: Record<string, string>;
  readonly #nodes: string;
  readonly #conceal: (text: string) => string;
  readonly #blocksTotal: Counter;
  readonly #fillsTotal: Counter;
  readonly #refusedTotal: Counter<'reason'>;
  readonly #confirmedTotal: Counter<'outcome'>;
  readonly #contradictedTotal: Counter;
  readonly #movementsTotal: Counter<'reason'>;
  #startedAt = performance.now();
  #loggedAt = this.#startedAt;
  #answeredAt = this.#startedAt;
  #blocks = 0;
  #fills = 0;
  #head: Pick<BlockHead, 'number' | 'timestamp'> | undefined;
  #final = 0;
  #caughtUp = false;
  /** When the nodes' final head was last at or above the end of LEDGER. */
  #levelAt = Number.NEGATIVE_INFINITY;

  constructor({ logger, registry, notReady, rpcUrl }: ProgressOptions) {
    this.#logger = logger;
    this.#notReady = notReady;
    this.#nodes = rpcUrl
      .split(',')
      .map((url) => new URL(url).host)
      .join(', ');
    this.#conceal = concealer({ RPC_URL: rpcUrl });
    this.#blocksTotal = counterOf(registry, 'final_blocks_total', 'final blocks read into LEDGER');
    this.#fillsTotal = counterOf(registry, 'final_fills_total', 'fills published to LEDGER');
    this.#refusedTotal = labelledCounter(
      registry,
      'fillstream_refused_total',
      'logs that could not be decoded',
      'reason',
      REFUSAL_REASONS,
    );
    this.#confirmedTotal = labelledCounter(
      registry,
      'fillstream_blocks_confirmed_total',
      'blocks whose bloom allowed for more logs, by the result of reading them again',
      'outcome',
      ['empty', 'logs_missing'],
    );
    this.#contradictedTotal = counterOf(
      registry,
      'final_contradictions_total',
      'blocks that did not follow LEDGER although an endpoint still had its newest block',
    );
    this.#movementsTotal = labelledCounter(
      registry,
      'fillstream_movements_total',
      'movements of shares without a fill; unexplained ones need a look',
      'reason',
      MOVEMENT_REASONS,
    );
    gaugeOf(registry, 'final_block', 'newest block of LEDGER', () => this.#head?.number ?? 0);
    gaugeOf(registry, 'final_lag_blocks', 'final blocks that LEDGER does not hold yet', () =>
      this.#lag(),
    );
    gaugeOf(registry, 'final_lag_seconds', 'age of the newest block of LEDGER', () => {
      return this.#head === undefined ? 0 : Date.now() / 1_000 - this.#head.timestamp;
    });
  }

  /** Sets the newest block of LEDGER at startup. */
  resume({ number, time }: Block): void {
    this.#head = { number, timestamp: time };
  }

  /** Call this with each final head that was read. */
  final(number: number): void {
    this.#final = number;
    this.#reportLag();
  }

  /** Call this with each block that LEDGER has stored; `facts` is undefined if it had no events. */
  block(head: BlockHead, facts: FinalFacts | undefined): void {
    this.#head = head;
    delete this.#notReady.fork;
    this.#blocks += 1;
    this.#blocksTotal.inc();
    if (facts !== undefined) this.#count(head.number, facts);
    this.#reportLag();
    const now = performance.now();
    if (this.#caughtUp || now - this.#loggedAt < PROGRESS_MS) return;
    this.#loggedAt = now;
    const seconds = (now - this.#startedAt) / 1_000;
    const blocksPerSecond = this.#blocks / seconds;
    this.#logger.info(
      {
        block: head.number,
        final: this.#final,
        blocksPerSecond: Math.round(blocksPerSecond),
        fillsPerSecond: Math.round(this.#fills / seconds),
        secondsLeft: Math.round(this.#lag() / blocksPerSecond),
      },
      'catching up',
    );
  }

  /** Call this once LEDGER holds every final block. */
  done(): void {
    this.#caughtUp = true;
    this.#reportLag();
    const seconds = Math.round((performance.now() - this.#startedAt) / 100) / 10;
    const counts = { blocks: this.#blocks, fills: this.#fills, seconds };
    this.#logger.info({ block: this.#head?.number, ...counts }, 'caught up with the final head');
  }

  /** Call this after each request to the nodes, with its error if it failed. */
  readonly answered = (error: RpcError | undefined): void => {
    const now = performance.now();
    if (error === undefined) {
      this.#answeredAt = now;
      delete this.#notReady.rpc;
    } else if (now - this.#answeredAt > SILENCE_MS_MAX) {
      const seconds = Math.round((now - this.#answeredAt) / 1_000);
      this.#notReady.rpc = this.#conceal(`no valid response for ${seconds} s: ${error.message}`);
    }
  };

  /**
   * Call this if a block does not link to the newest one of LEDGER although an endpoint still has that one. Blocks are
   * read again after `pauseMs`.
   */
  contradicted(held: BlockRef, head: BlockHead, pauseMs: number): void {
    this.#contradictedTotal.inc();
    this.#notReady.fork = `block ${head.number} does not follow LEDGER`;
    const { number, hash, parentHash } = head;
    this.#logger.error(
      { held, block: { number, hash, parentHash }, pauseMs },
      'a block does not follow LEDGER, but an endpoint still has its newest block: reading again',
    );
  }

  readonly confirmed = (outcome: 'empty' | 'logs_missing'): void => {
    this.#confirmedTotal.inc({ outcome });
  };

  #count(block: number, { matches, events, refused }: FinalFacts): void {
    const fills = matches.reduce((count, match) => count + match.fills.length, 0);
    this.#fills += fills;
    this.#fillsTotal.inc(fills);
    for (const { error, txHash } of refused) {
      this.#refusedTotal.inc({ reason: error.reason });
      if (ALARMS.has(error.reason))
        this.#logger.error(
          { block, txHash, reason: error.message },
          'ALARM: look at this contract',
        );
    }
    for (const event of events)
      if (event.kind === 'movement') this.#movementsTotal.inc({ reason: event.reason });
  }

  #lag(): number {
    return this.#head === undefined ? 0 : Math.max(this.#final - this.#head.number, 0);
  }

  #reportLag(): void {
    if (!this.#caughtUp) return;
    const held = this.#head?.number ?? 0;
    const now = performance.now();
    if (this.#final >= held) this.#levelAt = now;
    if (this.#lag() > LAG_BLOCKS_MAX) this.#notReady.final = `${this.#lag()} blocks behind`;
    else if (now - this.#levelAt > NODE_BEHIND_MS_MAX) {
      this.#notReady.final =
        `the final head of ${this.#nodes} is block ${this.#final}, LEDGER is at ${held}: ` +
        'wait until the node is in sync, or set RPC_URL to another one';
    } else delete this.#notReady.final;
  }
}
