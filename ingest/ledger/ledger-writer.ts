/**
 * The writing side of LEDGER: its first and last block, and blocks stored one message after the other. Only one
 * ingest may write: a message of another one stops this one. docs/decisions/0001-processes-and-logs.md.
 */
import { randomUUID } from 'node:crypto';
import { ExpectedError } from '../../infra/expected.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import type { Kv } from '../../infra/nats/kv.ts';
import { openWriter, type StreamWriter } from '../../infra/nats/writer.ts';
import type { BlockFacts } from '../chain/blocks.ts';
import type { BlockHead } from '../chain/rpc.ts';
import type { Hash, LedgerEvent } from '../contract.ts';
import { FEED_START_KEY } from '../streams.ts';
import {
  type Block,
  type EncodedRange,
  emptyBlock,
  LEDGER_STREAM,
  lastBlock,
  newestMessage,
  oldestBlocks,
  RangeEncoder,
} from './ledger.ts';

const START_KEY = 'start_block';
/** The block of an unfinished rewind (ops/rewind.ts). */
export const REWIND_KEY = 'rewind';
/**
 * A catch-up through blocks without events stores its progress after this time, so that a restart reads little
 * again.
 */
const COLLECT_MS_MAX = 250;

/** The command contradicts the content of LEDGER, or a rewind is unfinished; the message contains the remedy. */
export class LedgerStateError extends ExpectedError {}

/** Throws LedgerStateError while a rewind is unfinished. */
export async function refuseHalfRewound(kv: Kv): Promise<void> {
  const entry = await kv.get(REWIND_KEY);
  if (entry === undefined) return;
  const block = new TextDecoder().decode(entry.value);
  throw new LedgerStateError(
    `a rewind was interrupted: run "npm run ledger -- rewind --to-block ${block} --yes" again before ingest starts`,
  );
}

/** Another ingest writes LEDGER. */
export class LedgerFencedError extends ExpectedError {}

export type LedgerEnd = {
  /** Newest block; undefined if LEDGER covers none. */
  readonly block: Block | undefined;
  /** When the newest message was stored, milliseconds since the epoch; 0 in an empty LEDGER. */
  readonly storedAtMs: number;
  /** Earlier resolutions are known up to this block; undefined if none are stored or a block is. */
  readonly earlierTo: number | undefined;
};

/** Throws UnreadableLedgerError. */
export async function readEnd(nats: Nats): Promise<LedgerEnd> {
  const newest = await newestMessage(nats);
  if (newest === undefined) return { block: undefined, storedAtMs: 0, earlierTo: undefined };
  const { range, storedAtMs } = newest;
  if (range.kind === 'earlier-resolutions') {
    return { block: undefined, storedAtMs, earlierTo: range.to };
  }
  return { block: lastBlock(range), storedAtMs, earlierTo: undefined };
}

/**
 * First block of LEDGER. While LEDGER is empty, the given block counts; without one, that of an earlier start, for
 * instance of an interrupted backfill. Throws LedgerStateError if a backfill requires another one.
 */
export async function settleStart(
  nats: Nats,
  kv: Kv,
  wanted: {
    /** First block for an empty LEDGER; undefined if none was given. */
    readonly startBlock: number | undefined;
    /** A backfill requires its block; the follower accepts any first block of LEDGER. */
    readonly insists: boolean;
  },
): Promise<number> {
  const { startBlock, insists } = wanted;
  const end = await readEnd(nats);
  const entry = await kv.get(START_KEY);
  const stored = entry === undefined ? undefined : Number(new TextDecoder().decode(entry.value));
  if (end.storedAtMs === 0) {
    const start = startBlock ?? stored ?? 0;
    await kv.put(START_KEY, String(start));
    await kv.delete(FEED_START_KEY);
    return start;
  }
  // Without the bucket, for instance after an import.
  const start = stored ?? (await oldestBlocks(nats))?.range.from ?? startBlock ?? 0;
  const isNext = end.block !== undefined && startBlock === end.block.number + 1;
  if (insists && startBlock !== undefined && startBlock !== start && !isNext) {
    throw refusal(startBlock, start, end.block);
  }
  return start;
}

function refusal(wanted: number, start: number, newest: Block | undefined): LedgerStateError {
  const end = newest === undefined ? '' : ` and ends with block ${newest.number}`;
  const why =
    wanted < start
      ? 'LEDGER is in chain order, so earlier blocks cannot be inserted: backfill into an empty LEDGER'
      : `continue with --from-block ${start}, or run without backfill: LEDGER must not have gaps`;
  return new LedgerStateError(
    `backfill --from-block ${wanted}: LEDGER begins with block ${start}${end}. ${why}.`,
  );
}

/** A decoded block with its movements. */
export type FinalFacts = Omit<BlockFacts, 'events'> & { readonly events: readonly LedgerEvent[] };

/** A block as it is stored in LEDGER. */
export function blockOf({ block, events, refused }: FinalFacts, coversMovements: boolean): Block {
  const { number, hash, timestamp } = block;
  return {
    number,
    hash: hash as Hash,
    time: timestamp,
    events,
    refused: refused.map(({ txHash, logIndex, error, logs }) => ({
      kind: 'refused',
      reason: error.reason,
      blockNumber: number,
      txHash,
      logIndex,
      detail: logs.length === 0 ? error.message : JSON.stringify(logs),
    })),
    ...(coversMovements ? { coversMovements } : {}),
  };
}

/** A final block; `facts` if it has events. */
export type FinalBlock = { readonly head: BlockHead; readonly facts: FinalFacts | undefined };

type Collected = {
  readonly encoder: RangeEncoder;
  readonly blocks: FinalBlock[];
  readonly sinceMs: number;
};

export class LedgerWriter {
  readonly #writer: StreamWriter;
  /** Distinguishes messages of this process from those of another one. */
  readonly #process = randomUUID();
  readonly #coversMovements: boolean;
  #collected: Collected | undefined;

  private constructor(writer: StreamWriter, coversMovements: boolean) {
    this.#writer = writer;
    this.#coversMovements = coversMovements;
  }

  /** Opens the writer at the end of LEDGER; read that end after this. Its blocks have movements or not. */
  static async open(nats: Nats, coversMovements = false): Promise<LedgerWriter> {
    return new LedgerWriter(
      await openWriter(nats, {
        stream: LEDGER_STREAM,
        onForeign({ sequence }) {
          throw new LedgerFencedError(
            `another ingest stored LEDGER message ${sequence}: only one may run, so this one stops`,
          );
        },
      }),
      coversMovements,
    );
  }

  get stats() {
    return this.#writer.stats;
  }

  get unstoredMs(): number {
    return this.#writer.unstoredMs;
  }

  /** Adds the next block to the current message. If the message is full, resolves with the blocks stored in it. */
  async add(block: FinalBlock): Promise<readonly FinalBlock[]> {
    const { head, facts } = block;
    this.#collected ??= collectFrom(head);
    const { encoder, blocks } = this.#collected;
    if (facts === undefined || encoder.add(blockOf(facts, this.#coversMovements))) {
      blocks.push(block);
      return [];
    }
    const stored = await this.flush();
    await this.add(block);
    return stored;
  }

  /** Whether the oldest collected block has waited long enough. */
  get isDue(): boolean {
    const { sinceMs } = this.#collected ?? {};
    return sinceMs !== undefined && performance.now() - sinceMs >= COLLECT_MS_MAX;
  }

  /** Stores the collected blocks and resolves with them. */
  async flush(): Promise<readonly FinalBlock[]> {
    const { encoder, blocks = [] } = this.#collected ?? {};
    const last = blocks.at(-1)?.head;
    if (encoder === undefined || last === undefined) return [];
    const { number, hash, timestamp: time } = last;
    const covered = this.#coversMovements ? { coversMovements: true as const } : {};
    await this.store(
      number,
      encoder.endWith({ ...emptyBlock({ number, hash, time }), ...covered }),
    );
    this.#collected = undefined;
    return blocks;
  }

  /** Stores a message that ends with block `to`. */
  async store(to: number, { subject, headers, data }: EncodedRange): Promise<void> {
    await this.#writer.append({ id: `${this.#process}:${to}`, subject, headers, data });
  }

  close(): void {
    this.#writer.close();
  }
}

function collectFrom({ number, parentHash }: BlockHead): Collected {
  const encoder = new RangeEncoder({ from: number, parentHash: parentHash as Hash });
  return { encoder, blocks: [], sinceMs: performance.now() };
}
