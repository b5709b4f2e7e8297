/**
 * Rows of single keys that seldom change and that nearly every answer shows: listings, resolutions and
 * public profiles. The api remembers them, and asks the store only for what it does not know. A change
 * is a fact in LEDGER, which the api follows beside the projector: with it the row is forgotten, and no
 * row from before it is remembered again. So an answer is as new as the store's own (ADR 15).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { ClickHouseError } from '@clickhouse/client';
import type { Logger } from 'pino';
import type { ClickHouseReader } from '../../infra/clickhouse-reader.ts';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import { StreamRewoundError, tailBatches } from '../../infra/nats/reader.ts';
import {
  decodeLedgerEvent,
  LEDGER_STREAM,
  type LedgerEvent,
  PARTITIONS,
} from '../../ingest/contract.ts';
import { Problem } from '../errors.ts';
import type { ListingRow, ResolutionRow } from './market-object.ts';
import type { ProfileRow } from './profiles.ts';
import { QUERY_MS_MAX, read } from './query.ts';
import { count, rowOf } from './rows.ts';
import { Together } from './together.ts';
import { warmUp } from './warm.ts';

/** Keys of each kind, which bounds the memory. The oldest go first. */
const REMEMBERED_MAX = 20_000;
/** However a change was missed, it shows after this. */
const AGE_MS_MAX = 900_000;
/** Listings and profiles may be this stale: nothing tells of their changes. */
const METADATA_AGE_MS_MAX = 5_000;
const RETRY_MS = 1_000;

/** LEDGER sequence of the fact that a row is of. */
type Sequenced = { readonly sequence: bigint };

/** What is remembered of one kind. Remembers nothing while `isLive` is false. */
export class Memory<Row extends Sequenced> {
  readonly #isLive: () => boolean;
  readonly #keysMax: number;
  readonly #ageMsMax: number;
  readonly #kept = new Map<string, { readonly row: Row | undefined; readonly atMs: number }>();
  /** The newest fact of a key, as far as one was seen. */
  readonly #facts = new Map<string, bigint>();
  readonly #together = new Together<Row>();

  constructor(isLive: () => boolean, keysMax: number = REMEMBERED_MAX, ageMsMax = AGE_MS_MAX) {
    this.#isLive = isLive;
    this.#keysMax = keysMax;
    this.#ageMsMax = ageMsMax;
  }

  /**
   * As `read`, where `readRows` does the same for all callers and none of them can end it: those who ask at
   * the same time share a statement.
   */
  async readTogether(
    keys: readonly string[],
    readRows: (missing: readonly string[]) => Promise<ReadonlyMap<string, Row>>,
  ): Promise<ReadonlyMap<string, Row>> {
    return await this.read(keys, (missing) => this.#together.read(missing, readRows));
  }

  /** The rows of these keys: `readRows` is asked for those that are not remembered. */
  async read(
    keys: readonly string[],
    readRows: (missing: readonly string[]) => Promise<ReadonlyMap<string, Row>>,
  ): Promise<ReadonlyMap<string, Row>> {
    const found = new Map<string, Row>();
    const missing = keys.filter((key) => {
      const kept = this.#isLive() ? this.#kept.get(key) : undefined;
      if (kept === undefined || performance.now() - kept.atMs > this.#ageMsMax) return true;
      if (kept.row !== undefined) found.set(key, kept.row);
      return false;
    });
    if (missing.length === 0) return found;
    const rows = await readRows(missing);
    for (const key of missing) {
      const row = rows.get(key);
      this.keep(key, row);
      if (row !== undefined) found.set(key, row);
    }
    return found;
  }

  /** Remembers what the store has of a key, or that it has nothing, unless a newer fact was seen. */
  keep(key: string, row: Row | undefined): void {
    const isOld = (row?.sequence ?? 0n) < (this.#facts.get(key) ?? 0n);
    if (this.#isLive() && !isOld)
      this.#setNewest(this.#kept, key, { row, atMs: performance.now() });
  }

  /** A fact of the key was seen: rows from before it are over. */
  changed(key: string, sequence: number): void {
    this.#kept.delete(key);
    this.#setNewest(this.#facts, key, BigInt(sequence));
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }

  clear(): void {
    this.#kept.clear();
    this.#facts.clear();
  }

  #setNewest<Value>(map: Map<string, Value>, key: string, value: Value): void {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.keys();
    if (map.size > this.#keysMax && oldest !== undefined) map.delete(oldest);
  }
}

export type Memories = {
  /** By condition id. */
  readonly listings: Memory<ListingRow>;
  /** By condition id. */
  readonly resolutions: Memory<ResolutionRow>;
  /** By address. */
  readonly profiles: Memory<ProfileRow>;
  /** Condition ids by `id:` and the market's number, or `slug:` and its slug. */
  readonly names: Memory<Sequenced & { readonly conditionId: string }>;
};

/** Memories that are on while `isLive` says so; they remember nothing without it. */
export function createMemories(isLive: () => boolean = () => false): Memories {
  return {
    listings: new Memory(isLive, REMEMBERED_MAX, METADATA_AGE_MS_MAX),
    resolutions: new Memory(isLive),
    profiles: new Memory(isLive, REMEMBERED_MAX, METADATA_AGE_MS_MAX),
    // A market has two.
    names: new Memory(isLive, 2 * REMEMBERED_MAX, METADATA_AGE_MS_MAX),
  };
}

/** Forgets what a fact replaces. */
export function learn(memories: Memories, event: LedgerEvent, sequence: number): void {
  if (event.kind === 'resolution') memories.resolutions.changed(event.conditionId, sequence);
}

/** Servers before 2.10 filter by one subject: each is followed by itself. */
const SUBJECTS = ['ledger.*.resolution'];

/**
 * Memories that follow LEDGER until they are closed. They are off while NATS is away, and begin where
 * the store is complete: what is before it in LEDGER is in every row that is read.
 */
export function followFacts(options: {
  readonly nats: Nats;
  readonly clickhouse: ClickHouseReader;
  readonly logger: Logger;
}): { readonly memories: Memories; close(): Promise<void> } {
  const { nats, clickhouse, logger } = options;
  const stop = new AbortController();
  let isFollowing = false;
  const memories = createMemories(() => isFollowing && nats.connected);
  const clear = () => {
    for (const memory of Object.values(memories)) memory.clear();
  };
  // What changes while nothing is heard would be missed until it is.
  const removeListener = nats.onStatus(({ type }) => {
    if (type === 'disconnect') clear();
  });

  async function followOnce(): Promise<void> {
    const fromSequence = (await storedSequence(clickhouse)) + 1;
    const failed = new AbortController();
    const signal = AbortSignal.any([stop.signal, failed.signal]);
    const follow = async (filterSubject: string) => {
      const tail = tailBatches(nats, {
        stream: LEDGER_STREAM,
        fromSequence,
        filterSubject,
        signal,
      });
      for await (const messages of tail) {
        for (const { data, sequence } of messages) {
          const event = decoded(data);
          if (event !== undefined) learn(memories, event, sequence);
        }
      }
    };
    isFollowing = true;
    try {
      await Promise.all([...SUBJECTS.map(follow), warm(signal)]);
    } finally {
      isFollowing = false;
      failed.abort();
      clear();
    }
  }

  async function warm(signal: AbortSignal): Promise<void> {
    const call = { clickhouse, memories, queryMsMax: QUERY_MS_MAX, signal };
    // Whatever was not read is read when it is asked for.
    await warmUp(call, REMEMBERED_MAX).catch((error: unknown) => {
      if (!passes(error) && !signal.aborted) throw error;
      logger.debug({ err: error }, 'the newest markets were not read ahead');
    });
  }

  async function followForEver(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        await followOnce();
      } catch (error) {
        if (!passes(error)) throw error;
        logger.warn({ err: error }, 'listings and profiles are not remembered now');
        await delay(RETRY_MS, undefined, { signal: stop.signal, ref: false }).catch(
          () => undefined,
        );
      }
    }
  }

  const following = followForEver();
  return {
    memories,
    async close() {
      stop.abort();
      removeListener();
      await following;
    },
  };
}

/** What the projector refuses it does not store either. */
function decoded(data: Uint8Array): LedgerEvent | undefined {
  try {
    return decodeLedgerEvent(data);
  } catch {
    return undefined;
  }
}

const STORED_SQL = `
SELECT count() AS partitions, min(newest) AS sequence
FROM (SELECT max(sequence) AS newest FROM projector_checkpoints GROUP BY partition)`;

const StoredRow = rowOf({ partitions: count, sequence: count });

/** LEDGER sequence up to which every fact is stored. */
async function storedSequence(clickhouse: ClickHouseReader): Promise<number> {
  const call = { clickhouse, queryMsMax: QUERY_MS_MAX, signal: null };
  const [row] = await read(call, { sql: STORED_SQL, parameters: {}, row: StoredRow });
  // A partition without a checkpoint has nothing stored that is known of.
  return row?.partitions === PARTITIONS ? row.sequence : 0;
}

function passes(error: unknown): boolean {
  return (
    error instanceof NatsUnavailableError ||
    error instanceof StreamMissingError ||
    error instanceof StreamRewoundError ||
    error instanceof ClickHouseError ||
    (error instanceof Problem && error.error === 'unavailable')
  );
}
