/**
 * One rebuild: fills the tables beside while the projectors go on, pauses them, brings both databases
 * to the same LEDGER sequence, compares, exchanges, and lets the projectors go on with the new tables.
 * Nothing live is changed before the exchange, which is one statement; whatever kills this process,
 * its leases expire and the projectors go on with tables that are all at one position.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Nats } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { newestMessage, storedMessages } from '../ingest/ledger.ts';
import { runProjector } from './consume.ts';
import { LEASE_TTL_MS, partitionsOf, takeLeases } from './lease.ts';
import { PAUSE_KEY, REBUILD_KEY } from './pause.ts';
import { contradictions, differences, figuresOf, wrongPositions } from './rebuild-checks.ts';
import {
  besideOf,
  createBeside,
  dropBeside,
  exchangeTables,
  refreshReaders,
} from './rebuild-tables.ts';
import { Store } from './store.ts';

/** Longer than a killed rebuild's leases live. */
const REBUILD_PATIENCE_MS = LEASE_TTL_MS + 2_000;
/** A projector gives back after the batch that it is writing; a killed one's leases expire. */
const PAUSE_PATIENCE_MS = 60_000;
/** So close to the end of LEDGER the projectors are asked to pause. */
const NEAR_BLOCKS = 500;
/** Passes that try to come near; then it is paused all the same: ingest is as fast as we are. */
const PASSES_MAX = 8;
const ALL_PARTITIONS = partitionsOf(0, 1);

const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());
const Stored = z.object({ fills: UInt, first_block: UInt });

/** What a rebuild tells: phases with their own figures, and progress inside one. */
export type Told = { readonly event: string } & Readonly<Record<string, unknown>>;

export type RebuildOptions = {
  readonly nats: Nats;
  readonly kv: Kv;
  readonly live: ClickHouseClient;
  readonly beside: ClickHouseClient;
  readonly database: string;
  readonly holder: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly tell: (told: Told) => void;
  /** Swap although the rebuilt tables say something else than the live ones. */
  readonly yes: boolean;
  /** Asked where they do and `yes` is false; the projectors go on while somebody thinks. */
  readonly confirm: () => Promise<boolean>;
};

/** LEDGER begins after the first stored fill. */
export class LedgerIncompleteError extends Error {}

/** The rebuilt tables contradict themselves: a fault of the fold or of a view. Nothing was swapped. */
export class RebuildWrongError extends Error {}

/** Resolves with true after a swap, with false when the differences were not accepted. */
export async function rebuild(options: RebuildOptions): Promise<boolean> {
  const { live, database, tell } = options;
  return withLeases(options, [REBUILD_KEY], REBUILD_PATIENCE_MS, async (assertAlone) => {
    const tables = await createBeside(live, database);
    await fill({ ...options, assertOwner: assertAlone });
    const isSwapped =
      (await handOver(options, tables, options.yes)) ||
      ((await options.confirm()) && (await handOver(options, tables, true)));
    if (!isSwapped) {
      await dropBeside(live, database);
      return false;
    }
    await refreshReaders(live, database);
    await dropBeside(live, database);
    tell({ event: 'done' });
    return true;
  });
}

type Owner = RebuildOptions & { readonly assertOwner: () => void };

/** Fills the tables beside up to near the end of LEDGER, and checks them against themselves. */
async function fill(options: Owner): Promise<void> {
  const { nats, live, beside, tell } = options;
  const first = await firstBlock(nats, live);
  tell({ event: 'reading' });
  let reached = first - 1;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const end = await endOf(nats);
    if (pass > 0 && end - reached < NEAR_BLOCKS) break;
    await project(options, 'beside', end, reached);
    reached = end;
  }
  const figures = await figuresOf(beside);
  refuseWrong([...contradictions(figures), ...(await wrongPositions(beside, figures))]);
  tell({ event: 'filled', block: reached, fills: figures.get('bookings.fills') });
}

/** First block of LEDGER. Throws LedgerIncompleteError when fills of earlier blocks are stored. */
async function firstBlock(nats: Nats, live: ClickHouseClient): Promise<number> {
  let first: number | undefined;
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    if (range.kind !== 'blocks') continue;
    first = range.from;
    break;
  }
  const result = await live.query({
    query: `SELECT count() AS fills, min(block_number) AS first_block FROM bookings WHERE kind = 'fill'`,
    format: 'JSONEachRow',
  });
  const [stored] = z.array(Stored).parse(await result.json());
  if (stored !== undefined && stored.fills > 0 && (first ?? Infinity) > stored.first_block) {
    throw new LedgerIncompleteError(
      `LEDGER begins with block ${first ?? 'none'}, after the first stored fill, which is of block ${stored.first_block}: ` +
        'restore LEDGER, or backfill an empty one',
    );
  }
  return first ?? 0;
}

/** The block that LEDGER ends with; −1 in an empty one. */
async function endOf(nats: Nats): Promise<number> {
  return (await newestMessage(nats))?.range.to ?? -1;
}

/** Pauses, compares, and swaps if nothing differs or `yes`; tells whether it did. */
async function handOver(
  options: RebuildOptions,
  tables: readonly string[],
  yes: boolean,
): Promise<boolean> {
  const { nats, live, beside, database, tell } = options;
  const startedAt = performance.now();
  const sinceStart = () => Math.round(performance.now() - startedAt);
  const isSwapped = await withLeases(options, [PAUSE_KEY], REBUILD_PATIENCE_MS, (assertPaused) =>
    withLeases(options, ALL_PARTITIONS, PAUSE_PATIENCE_MS, async (assertOwned) => {
      const assertOwner = () => {
        assertPaused();
        assertOwned();
      };
      tell({ event: 'paused', ms: sinceStart() });
      const end = await endOf(nats);
      const owner = { ...options, assertOwner };
      await Promise.all([project(owner, 'live', end, end), project(owner, 'beside', end, end)]);
      tell({ event: 'level', block: end, ms: sinceStart() });
      const [before, after] = await Promise.all([figuresOf(live), figuresOf(beside)]);
      refuseWrong(contradictions(after));
      const different = differences(before, after);
      tell({ event: 'compared', differences: different, ms: sinceStart() });
      if (different.length > 0 && !yes) return false;
      assertOwner();
      const exchangedAt = performance.now();
      await exchangeTables(live, database, tables);
      tell({ event: 'swapped', ms: Math.round(performance.now() - exchangedAt) });
      return true;
    }),
  );
  tell({ event: 'resumed', paused_ms: sinceStart() });
  return isSwapped;
}

/** Brings one of the two databases exactly to the end of a block, as the projector does. */
async function project(
  options: Owner,
  which: 'live' | 'beside',
  untilBlock: number,
  reached: number,
): Promise<void> {
  const { nats, database, logger, signal, tell, assertOwner } = options;
  const store =
    which === 'live'
      ? new Store(options.live, ALL_PARTITIONS, { database })
      : new Store(options.beside, ALL_PARTITIONS, { database: besideOf(database) });
  if (untilBlock < 0) return;
  const all = untilBlock - reached;
  await runProjector({
    nats,
    store,
    partitions: ALL_PARTITIONS,
    assertOwner,
    logger,
    signal,
    untilBlock,
    onStart: () => undefined,
    onStored: ({ block }) => {
      const done = block - reached;
      if (done > 0) tell({ event: 'progress', what: 'blocks', done, all });
    },
  });
  signal.throwIfAborted();
}

/** Runs `work` while the leases are held, and gives them back; a lost lease ends the work. */
async function withLeases<T>(
  { kv, holder, logger, signal }: RebuildOptions,
  keys: readonly (number | string)[],
  patienceMs: number,
  work: (assertHeld: () => void) => Promise<T>,
): Promise<T> {
  const done = new AbortController();
  const leases = await takeLeases({
    kv,
    keys,
    holder,
    logger,
    signal: AbortSignal.any([signal, done.signal]),
    patienceMs,
  });
  try {
    return await work(leases.assertHeld);
  } finally {
    done.abort();
    await leases.kept;
  }
}

function refuseWrong(wrong: readonly string[]): void {
  if (wrong.length === 0) return;
  throw new RebuildWrongError(`the rebuilt tables contradict themselves:\n  ${wrong.join('\n  ')}`);
}
