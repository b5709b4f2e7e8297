/**
 * Progress of the final blocks: Prometheus metrics, readiness and, during a catch-up, a log line every PROGRESS_MS.
 */
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { BlockFacts } from './blocks.ts';
import { Contradictions } from './fork.ts';
import type { Block } from './ledger.ts';
import type { BlockRef } from './ledger-writer.ts';
import type { BlockHead } from './rpc.ts';
import type { RpcError } from './rpc-pool.ts';

const PROGRESS_MS = 2_000;
/** Ingest is not ready when it is farther behind the final head than this. */
const LAG_BLOCKS_MAX = 100;
/** Ingest is not ready after this long without a good answer. */
const SILENCE_MS_MAX = 5_000;

export type ProgressOptions = {
  readonly logger: Logger;
  readonly registry: Registry;
  /** Reasons why the process is not ready; this file owns `final`, `fork` and `rpc`. */
  readonly notReady: Record<string, string>;
};

export class FollowProgress {
  readonly #logger: Logger;
  readonly #notReady: Record<string, string>;
  readonly #blocksTotal: Counter;
  readonly #fillsTotal: Counter;
  readonly #refusedTotal: Counter<'reason'>;
  readonly #confirmedTotal: Counter<'outcome'>;
  readonly #contradictedTotal: Counter;
  readonly #contradictions = new Contradictions();
  #startedAt = performance.now();
  #toldAt = this.#startedAt;
  #answeredAt = this.#startedAt;
  #blocks = 0;
  #fills = 0;
  #head: Pick<BlockHead, 'number' | 'timestamp'> | undefined;
  #final = 0;
  #caughtUp = false;

  constructor({ logger, registry, notReady }: ProgressOptions) {
    this.#logger = logger;
    this.#notReady = notReady;
    const registers = [registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter<Label>({ name: `fillstream_${name}`, help, labelNames, registers });
    this.#blocksTotal = counter('final_blocks_total', 'final blocks read into LEDGER');
    this.#fillsTotal = counter('final_fills_total', 'fills published to LEDGER');
    this.#refusedTotal = counter('refused_total', 'logs that could not be decoded', ['reason']);
    this.#confirmedTotal = counter(
      'blocks_confirmed_total',
      'blocks whose logs left room in their bloom, by what a second look found',
      ['outcome'],
    );
    this.#contradictedTotal = counter(
      'final_contradictions_total',
      'blocks that did not follow LEDGER although an endpoint still had its newest block',
    );
    const gauge = (name: string, help: string, value: () => number) =>
      new Gauge({
        name: `fillstream_${name}`,
        help,
        registers,
        collect() {
          this.set(value());
        },
      });
    gauge('final_block', 'newest block of LEDGER', () => this.#head?.number ?? 0);
    gauge('final_lag_blocks', 'final blocks that LEDGER does not hold yet', () => this.#lag());
    gauge('final_lag_seconds', 'age of the newest block of LEDGER', () => {
      return this.#head === undefined ? 0 : Date.now() / 1_000 - this.#head.timestamp;
    });
  }

  /** LEDGER ended with this block when the process started. */
  resume({ number, time }: Block): void {
    this.#head = { number, timestamp: time };
  }

  /** The final head, as just read. */
  final(number: number): void {
    this.#final = number;
    this.#tellLag();
  }

  /** A block is in LEDGER; `facts` where it had any. */
  block(head: BlockHead, facts: BlockFacts | undefined): void {
    this.#head = head;
    delete this.#notReady.fork;
    this.#blocks += 1;
    this.#blocksTotal.inc();
    if (facts !== undefined) this.#count(facts);
    this.#tellLag();
    const now = performance.now();
    if (this.#caughtUp || now - this.#toldAt < PROGRESS_MS) return;
    this.#toldAt = now;
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

  /** LEDGER holds every block that was final. */
  done(): void {
    this.#caughtUp = true;
    this.#tellLag();
    const seconds = Math.round((performance.now() - this.#startedAt) / 100) / 10;
    const counts = { blocks: this.#blocks, fills: this.#fills, seconds };
    this.#logger.info({ block: this.#head?.number, ...counts }, 'caught up with the final head');
  }

  /** The nodes answered, or failed with `error`. */
  readonly answered = (error: RpcError | undefined): void => {
    const now = performance.now();
    if (error === undefined) {
      this.#answeredAt = now;
      delete this.#notReady.rpc;
    } else if (now - this.#answeredAt > SILENCE_MS_MAX) {
      this.#notReady.rpc = `no good answer for ${Math.round((now - this.#answeredAt) / 1_000)} s: ${error.class}`;
    }
  };

  /**
   * A block did not follow the newest one of LEDGER, although an endpoint still has that one. Returns how long to wait
   * before reading again, in milliseconds. Throws FinalReorgError when this has lasted too long.
   */
  contradicted(held: BlockRef, head: BlockHead): number {
    this.#contradictedTotal.inc();
    this.#notReady.fork = `block ${head.number} does not follow LEDGER`;
    const pauseMs = this.#contradictions.pauseMs(held, performance.now());
    const { number, hash, parentHash } = head;
    this.#logger.error(
      { held, block: { number, hash, parentHash }, pauseMs },
      'a block does not follow LEDGER, but an endpoint still has its newest block: reading again',
    );
    return pauseMs;
  }

  readonly confirmed = (outcome: 'empty' | 'logs_missing'): void => {
    this.#confirmedTotal.inc({ outcome });
  };

  #count({ matches, refused }: BlockFacts): void {
    const fills = matches.reduce((count, match) => count + match.fills.length, 0);
    this.#fills += fills;
    this.#fillsTotal.inc(fills);
    for (const { error } of refused) this.#refusedTotal.inc({ reason: error.reason });
  }

  #lag(): number {
    return this.#head === undefined ? 0 : Math.max(this.#final - this.#head.number, 0);
  }

  #tellLag(): void {
    if (!this.#caughtUp) return;
    const behind = (this.#head?.number ?? 0) - this.#final;
    if (this.#lag() > LAG_BLOCKS_MAX) this.#notReady.final = `${this.#lag()} blocks behind`;
    else if (behind > LAG_BLOCKS_MAX) {
      this.#notReady.final = `the node is ${behind} blocks behind LEDGER`;
    } else delete this.#notReady.final;
  }
}
