/**
 * `npm run rebuild`: recomputes all projections in new tables and swaps them with the live ones. Fills the new
 * tables while the projectors run, pauses them, brings both databases to the same block, compares, exchanges, and
 * lets the projectors resume with the new tables. Nothing live changes before the exchange, which is one
 * statement. If this process is killed, its leases expire and the projectors resume with tables that are all at
 * one position (docs/decisions/0002-clickhouse-is-the-checkpoint.md).
 *
 * Prints its progress, and sends its phases to a parent over IPC. Exit codes: 0 swapped, 1 failed, 2 wrong arguments,
 * 3 the rebuilt tables differ from the live ones and the swap was not confirmed: nothing was changed.
 */
import { createInterface } from 'node:readline/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { type Logger, pino } from 'pino';
import { z } from 'zod';
import { flag, readArguments } from '../infra/arguments.ts';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { runCommand } from '../infra/command.ts';
import { ProjectionConfig, readConfig } from '../infra/config.ts';
import { ExpectedError } from '../infra/expected.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { count, createProgress, report } from '../infra/progress.ts';
import { newestMessage } from '../ingest/ledger/ledger.ts';
import { WholeLedger } from '../ingest/ledger/whole-ledger.ts';
import { runProjector } from '../projector/consume.ts';
import {
  LEASE_TTL_MS,
  leaseHolder,
  openLeases,
  PAUSE_KEY,
  partitionsOf,
  REBUILD_KEY,
  withLeases,
} from '../projector/lease.ts';
import { ForgottenBatchError, Store, UInt } from '../projector/store.ts';
import { contradictions, differences, figuresOf, wrongPositions } from './rebuild-checks.ts';
import {
  besideOf,
  createBeside,
  dropBeside,
  exchangeTables,
  refreshAll,
  refreshBeside,
} from './rebuild-tables.ts';

const HELP = `npm run rebuild -- [--yes]

Recomputes every projection from LEDGER in a second database next to the live one. Reads blocks that LEDGER
no longer holds from LEDGER_ARCHIVE. Refuses to run if the two do not go back to the first stored fill. The
service keeps running; the projectors are paused for seconds at the end, while both databases are compared and
the tables are exchanged.

  --yes           swap even if the rebuilt tables differ from the live ones; without it you are asked to
                  confirm, and without a terminal nothing is swapped (exit code 3)
  --help          this text

Needs room for a second copy of the tables, and the service's environment: NATS_URL, CLICKHOUSE_URL,
CLICKHOUSE_DATABASE, LEDGER_ARCHIVE (npm start shows the URLs of its own servers).`;

/** The figures of 20M fills take longer than the service's request timeout. */
const REQUEST_TIMEOUT_MS = 600_000;
/** Longer than the lifetime of a killed rebuild's leases. */
const REBUILD_PATIENCE_MS = LEASE_TTL_MS + 2_000;
/** A projector releases its partitions after its current batch; those of a killed one expire. */
const PAUSE_PATIENCE_MS = 60_000;
/** The projectors are paused this close to the end of LEDGER. */
const NEAR_BLOCKS = 500;
/** After this many passes the projectors are paused anyway, because ingest is as fast as the rebuild. */
const PASSES_MAX = 8;
const ALL_PARTITIONS = partitionsOf(0, 1);

const Stored = z.object({ fills: UInt, first_block: UInt });

type Parts = {
  readonly nats: Nats;
  readonly ledger: WholeLedger;
  readonly kv: Kv;
  readonly live: ClickHouseClient;
  readonly beside: ClickHouseClient;
  readonly url: string;
  readonly database: string;
  readonly holder: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
};

/** Throws if another process may own what this rebuild writes. */
type AssertOwner = () => void;

/** A cluster, an incomplete LEDGER, or rebuilt tables that contradict each other. Nothing was swapped. */
class RebuildRefusedError extends ExpectedError {}

await runCommand('rebuild', main);

async function main(): Promise<number> {
  const { yes = false, help } = readArguments({ options: { yes: flag, help: flag } }, HELP).values;
  if (help === true) {
    console.log(HELP);
    return 0;
  }
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  process.once('SIGTERM', () => stop.abort());
  try {
    return (await run(yes, stop.signal)) ? 0 : 3;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    throw new ExpectedError('stopped; the live tables are unchanged');
  }
}

async function run(yes: boolean, signal: AbortSignal): Promise<boolean> {
  const config = readConfig(ProjectionConfig);
  if (config.CLICKHOUSE_CLUSTER !== undefined) {
    throw new RebuildRefusedError('this command cannot rebuild a cluster (CLICKHOUSE_CLUSTER)');
  }
  const { CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: database } = config;
  const nats = await connectNats({ ...natsOptions(config), name: 'rebuild', isPatient: false });
  const requestTimeoutMs = REQUEST_TIMEOUT_MS;
  const connect = (name: string) =>
    connectClickHouse({ url, database: name, name: 'rebuild', requestTimeoutMs });
  const [live, beside] = [connect(database), connect(besideOf(database))];
  try {
    const kv = await openLeases(nats, config.NATS_REPLICAS);
    const holder = leaseHolder('rebuild');
    // Progress goes to the user as text; the log is for faults.
    const logger = pino({ name: 'rebuild', level: 'warn' });
    const ledger = await WholeLedger.open(nats, config);
    return await rebuild(
      { nats, ledger, kv, live, beside, url, database, holder, logger, signal },
      yes,
    );
  } finally {
    await Promise.all([live.close(), beside.close(), nats.close()]);
  }
}

/** Lets the user decide about differences; false without a terminal. */
async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY) {
    console.log(
      'not swapped: run it again with --yes to replace the live tables with the rebuilt ones',
    );
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const question = 'replace the live tables with the rebuilt ones? [y/N] ';
  try {
    const answer = await terminal.question(question, { signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/** Resolves with true after a swap, with false if the differences were not accepted. */
async function rebuild(parts: Parts, yes: boolean): Promise<boolean> {
  const { live, url, database, signal } = parts;
  const lease = { ...parts, keys: [REBUILD_KEY], patienceMs: REBUILD_PATIENCE_MS };
  return withLeases(lease, async ({ assertHeld }) => {
    let isSwapped = false;
    try {
      const tables = await createBeside(live, { url, live: database });
      await fill(parts, assertHeld);
      // The projectors run while the user decides.
      isSwapped =
        (await handOver(parts, tables, yes)) ||
        ((await isConfirmed(signal)) && (await handOver(parts, tables, true)));
    } finally {
      await tidy(parts, assertHeld);
    }
    if (!isSwapped) return false;
    await refreshAll(live, database);
    report({ event: 'done' }, 'done');
    return true;
  });
}

/**
 * Drops the second database, unless it may already belong to another rebuild. Never throws, so that an earlier error is
 * not hidden.
 */
async function tidy({ live, database }: Parts, assertHeld: AssertOwner): Promise<void> {
  try {
    assertHeld();
    await dropBeside(live, database);
  } catch {
    const text = `the database ${besideOf(database)} is still on the disk: the next rebuild drops it, or drop it yourself`;
    report({ event: 'left' }, text);
  }
}

/** Fills the new tables up to near the end of LEDGER and checks them against each other. */
async function fill(parts: Parts, assertOwner: AssertOwner): Promise<void> {
  const { nats, beside } = parts;
  const first = await firstBlock(parts);
  report({ event: 'reading' }, 'rebuilding from LEDGER');
  let reached = first - 1;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const end = await endOf(nats);
    if (pass > 0 && end - reached < NEAR_BLOCKS) break;
    await project(parts, 'beside', { from: reached, to: end }, assertOwner);
    reached = end;
  }
  await refreshBeside(parts.live, parts.database);
  const figures = await figuresOf(beside);
  refuseWrong([...contradictions(figures), ...(await wrongPositions(beside, figures))]);
  const fills = count(Number(figures.get('bookings.fills')));
  report(
    { event: 'filled', block: reached },
    `filled up to block ${reached}: ${fills} fills, sums agree`,
  );
}

/** First block of LEDGER or its archive. Throws RebuildRefusedError if fills of earlier blocks are stored. */
async function firstBlock({ ledger, live }: Parts): Promise<number> {
  const first = await ledger.firstBlock();
  const result = await live.query({
    query: `SELECT count() AS fills, min(block_number) AS first_block FROM bookings WHERE kind = 'fill'`,
    format: 'JSONEachRow',
  });
  const [stored] = z.array(Stored).parse(await result.json());
  if (stored !== undefined && stored.fills > 0 && (first ?? Infinity) > stored.first_block) {
    throw new RebuildRefusedError(
      `LEDGER begins with block ${first ?? 'none'}, after the first stored fill, which is of block ${stored.first_block}: ` +
        'restore LEDGER, or backfill an empty one',
    );
  }
  return first ?? 0;
}

/** The last block of LEDGER; −1 in an empty one. */
async function endOf(nats: Nats): Promise<number> {
  return (await newestMessage(nats))?.range.to ?? -1;
}

/** Pauses, compares, and swaps if nothing differs or `yes`; returns whether it swapped. */
async function handOver(parts: Parts, tables: readonly string[], yes: boolean): Promise<boolean> {
  const { nats, live, beside, database } = parts;
  const startedAt = performance.now();
  const sinceStart = () => Math.round(performance.now() - startedAt);
  const pauseLease = { ...parts, keys: [PAUSE_KEY], patienceMs: REBUILD_PATIENCE_MS };
  const lease = { ...parts, keys: ALL_PARTITIONS, patienceMs: PAUSE_PATIENCE_MS };
  const isSwapped = await withLeases(pauseLease, (pause) =>
    withLeases(lease, async (partitions) => {
      const assertOwner = () => {
        pause.assertHeld();
        partitions.assertHeld();
      };
      report({ event: 'paused' }, `projectors paused after ${sinceStart()} ms`);
      const end = await endOf(nats);
      const span = { from: end, to: end };
      await Promise.all([
        project(parts, 'live', span, assertOwner).catch(leaveForgotten),
        project(parts, 'beside', span, assertOwner),
      ]);
      const [before, after] = await Promise.all([figuresOf(live), figuresOf(beside)]);
      refuseWrong(contradictions(after));
      const different = differences(before, after);
      report(
        { event: 'compared', differences: different },
        different.length === 0
          ? 'the same as the live tables'
          : ['different from the live tables:', ...different].join('\n  '),
      );
      if (different.length > 0 && !yes) return false;
      assertOwner();
      const exchangedAt = performance.now();
      await exchangeTables(live, database, tables);
      const exchangeMs = Math.round(performance.now() - exchangedAt);
      report({ event: 'swapped' }, `tables exchanged in ${exchangeMs} ms`);
      return true;
    }),
  );
  report({ event: 'resumed' }, `projectors resume after a pause of ${sinceStart()} ms`);
  return isSwapped;
}

/** Brings one of the two databases exactly to the end of block `to`, with the projector's own code. */
async function project(
  parts: Parts,
  which: 'live' | 'beside',
  { from, to }: { readonly from: number; readonly to: number },
  assertOwner: AssertOwner,
): Promise<void> {
  if (to < 0) return;
  const database = which === 'live' ? parts.database : besideOf(parts.database);
  const progress = createProgress(to - from);
  await runProjector({
    ...parts,
    store: new Store(parts[which], ALL_PARTITIONS, { database }),
    partitions: ALL_PARTITIONS,
    assertOwner,
    untilBlock: to,
    onStart: () => undefined,
    onStored: ({ block }) => {
      if (block > from) progress(block - from);
    },
  });
  parts.signal.throwIfAborted();
}

/** Live tables whose last batch cannot be completed are left as they are, because the swap replaces them. */
function leaveForgotten(error: unknown): void {
  if (!(error instanceof ForgottenBatchError)) throw error;
}

function refuseWrong(wrong: readonly string[]): void {
  if (wrong.length === 0) return;
  throw new RebuildRefusedError(
    `the rebuilt tables contradict each other:\n  ${wrong.join('\n  ')}`,
  );
}
