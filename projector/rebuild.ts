/**
 * `npm run rebuild`: recomputes all projections in new tables and swaps them with the live ones. Fills the new
 * tables while the projectors run, pauses them, brings both databases to the same block, compares, exchanges, and
 * lets the projectors resume with the new tables. Nothing live changes before the exchange, which is one
 * statement. If this process is killed, its leases expire and the projectors resume with tables that are all at
 * one position (docs/decisions/0002-clickhouse-is-the-checkpoint.md).
 *
 * Prints its progress, and sends it to a parent over IPC. Exit codes: 0 swapped, 1 failed, 2 wrong arguments, 3
 * the rebuilt tables differ from the live ones and the swap was not confirmed: nothing was changed.
 */
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import type { ClickHouseClient } from '@clickhouse/client';
import { type Logger, pino } from 'pino';
import { z } from 'zod';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { ConfigError, readConfig, StoresConfig } from '../infra/config.ts';
import {
  connectNats,
  type Nats,
  natsOptions,
  StreamMissingError,
} from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { newestMessage, storedMessages, UnreadableLedgerError } from '../ingest/ledger.ts';
import { LedgerRewrittenError, runProjector } from './consume.ts';
import {
  LEASE_TTL_MS,
  LeaseLostError,
  LeaseTakenError,
  leaseHolder,
  PAUSE_KEY,
  PROJECTORS_BUCKET,
  partitionsOf,
  REBUILD_KEY,
  withLeases,
} from './lease.ts';
import { contradictions, differences, figuresOf, wrongPositions } from './rebuild-checks.ts';
import {
  besideOf,
  createBeside,
  dropBeside,
  exchangeTables,
  refreshReaders,
} from './rebuild-tables.ts';
import { Store } from './store.ts';

const HELP = `npm run rebuild -- [--yes]

Recomputes every projection from LEDGER in a second database next to the live one. Refused if LEDGER does not
reach back to the first stored fill. The service keeps running; it is paused for seconds at the end, while both
are compared and the tables are exchanged.

  --yes           swap even if the rebuilt tables differ from the live ones; without it you are asked to
                  confirm, and without a terminal nothing is swapped (exit code 3)
  --help          this text

Needs room for a second copy of the tables, and the service's environment: NATS_URL, CLICKHOUSE_URL,
CLICKHOUSE_DATABASE (npm start shows the URLs of its own servers).`;

/** The figures of 20M fills take longer than the service's request timeout. */
const REQUEST_TIMEOUT_MS = 600_000;
const PROGRESS_MS = 1_000;

/** Exchanging tables on every node of a cluster is not implemented. */
class ClusterRefusedError extends Error {}

/** Longer than the lifetime of a killed rebuild's leases. */
const REBUILD_PATIENCE_MS = LEASE_TTL_MS + 2_000;
/** A projector releases its partitions after its current batch; those of a killed one expire. */
const PAUSE_PATIENCE_MS = 60_000;
/** The projectors are paused this close to the end of LEDGER. */
const NEAR_BLOCKS = 500;
/** After this many passes the projectors are paused anyway, because ingest is as fast as the rebuild. */
const PASSES_MAX = 8;
const ALL_PARTITIONS = partitionsOf(0, 1);

const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());
const Stored = z.object({ fills: UInt, first_block: UInt });

/** Phases of a rebuild with their figures, and progress within a phase. */
type Report = { readonly event: string } & Readonly<Record<string, unknown>>;

type RebuildOptions = {
  readonly nats: Nats;
  readonly kv: Kv;
  readonly live: ClickHouseClient;
  readonly beside: ClickHouseClient;
  readonly database: string;
  readonly holder: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly report: (event: Report) => void;
  /** Swap although the rebuilt tables differ from the live ones. */
  readonly yes: boolean;
  /** Called if they differ and `yes` is false; the projectors run until it resolves. */
  readonly confirm: () => Promise<boolean>;
};

/** LEDGER begins after the first stored fill. */
class LedgerIncompleteError extends Error {}

/** The rebuilt tables contradict each other: a bug in the fold or in a view. Nothing was swapped. */
class RebuildWrongError extends Error {}

process.exitCode = await main();

async function main(): Promise<number> {
  const asked = readArguments();
  if (typeof asked === 'number') return asked;
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  process.once('SIGTERM', () => stop.abort());
  try {
    return (await run(asked, stop.signal)) ? 0 : 3;
  } catch (error) {
    if (stop.signal.aborted) console.error('rebuild: stopped; the live tables are as they were');
    else if (isExpected(error)) console.error(`rebuild: ${error.message}`);
    else throw error;
    return 1;
  }
}

type Asked = { readonly yes: boolean };

function readArguments(): Asked | number {
  try {
    const { values } = parseArgs({
      options: {
        yes: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(HELP);
      return 0;
    }
    return { yes: values.yes };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    console.error(`rebuild: ${error.message}\n\n${HELP}`);
  }
  return 2;
}

async function run({ yes }: Asked, signal: AbortSignal): Promise<boolean> {
  const config = readConfig(StoresConfig);
  if (config.CLICKHOUSE_CLUSTER !== undefined) {
    throw new ClusterRefusedError(
      'a cluster (CLICKHOUSE_CLUSTER) cannot be rebuilt by this command',
    );
  }
  const { CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: database } = config;
  const nats = await connectNats({ ...natsOptions(config), name: 'rebuild' });
  const connect = (name: string) =>
    connectClickHouse({
      url,
      database: name,
      name: 'rebuild',
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
    });
  const [live, beside] = [connect(database), connect(besideOf(database))];
  try {
    const kv = await openKv(nats, PROJECTORS_BUCKET, {
      ttlMs: LEASE_TTL_MS,
      replicas: config.NATS_REPLICAS,
    });
    return await rebuild({
      nats,
      kv,
      live,
      beside,
      database,
      holder: leaseHolder('rebuild'),
      // Progress goes to the user as text; the log is for faults.
      logger: pino({ name: 'rebuild', level: 'warn' }),
      signal,
      report: createReporter(),
      yes,
      confirm: () => isConfirmed(signal),
    });
  } finally {
    await Promise.all([live.close(), beside.close(), nats.close()]);
  }
}

async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY) {
    console.log(
      'not swapped: run it again with --yes to replace the live tables with the rebuilt ones',
    );
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await terminal.question(
      'replace the live tables with the rebuilt ones? [y/N] ',
      {
        signal,
      },
    );
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

function isExpected(error: unknown): error is Error {
  return [
    ConfigError,
    ClusterRefusedError,
    LeaseTakenError,
    LeaseLostError,
    LedgerIncompleteError,
    LedgerRewrittenError,
    UnreadableLedgerError,
    RebuildWrongError,
    StreamMissingError,
  ].some((expected) => error instanceof expected);
}

/** Prints each report; progress at most once a second, with its rate and the time left. */
function createReporter(): (report: Report) => void {
  let what: unknown;
  let startedAt = 0;
  let printedAt = 0;
  return (report) => {
    if (process.connected) process.send?.(report);
    if (report.event !== 'progress') {
      for (const line of linesOf(report)) console.log(line);
      return;
    }
    const [now, done, all] = [performance.now(), Number(report.done), Number(report.all)];
    if (report.what !== what) {
      what = report.what;
      startedAt = now;
    }
    if (now - printedAt < PROGRESS_MS && done < all) return;
    printedAt = now;
    const rate = done / Math.max(0.001, (now - startedAt) / 1_000);
    const left = rate === 0 ? '?' : Math.ceil((all - done) / rate);
    const share = Math.floor((100 * done) / Math.max(1, all));
    console.log(
      `${share} % · ${count(done)} of ${count(all)} ${what} · ${count(rate)}/s · ${left} s left`,
    );
  };
}

function linesOf(report: Report): readonly string[] {
  switch (report.event) {
    case 'reading':
      return ['rebuilding from LEDGER'];
    case 'filled':
      return [
        `filled up to block ${report.block}: ${count(Number(report.fills))} fills, sums agree`,
      ];
    case 'paused':
      return [`projectors paused after ${report.ms} ms`];
    case 'compared': {
      const different = report.differences as readonly string[];
      if (different.length === 0) return ['the same as the live tables'];
      return ['different from the live tables:', ...different.map((line) => `  ${line}`)];
    }
    case 'swapped':
      return [`tables exchanged in ${report.ms} ms`];
    case 'resumed':
      return [`projectors resume after a pause of ${report.paused_ms} ms`];
    case 'done':
      return ['done'];
    default:
      return [];
  }
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Resolves with true after a swap, with false if the differences were not accepted. */
async function rebuild(options: RebuildOptions): Promise<boolean> {
  const { live, database, report } = options;
  const lease = { ...options, keys: [REBUILD_KEY], patienceMs: REBUILD_PATIENCE_MS };
  return withLeases(lease, async ({ assertHeld }) => {
    const tables = await createBeside(live, database);
    await fill({ ...options, assertOwner: assertHeld });
    const isSwapped =
      (await handOver(options, tables, options.yes)) ||
      ((await options.confirm()) && (await handOver(options, tables, true)));
    if (!isSwapped) {
      await dropBeside(live, database);
      return false;
    }
    await refreshReaders(live, database);
    await dropBeside(live, database);
    report({ event: 'done' });
    return true;
  });
}

type Owner = RebuildOptions & { readonly assertOwner: () => void };

/** Fills the new tables up to near the end of LEDGER and checks them against each other. */
async function fill(options: Owner): Promise<void> {
  const { nats, live, beside, report } = options;
  const first = await firstBlock(nats, live);
  report({ event: 'reading' });
  let reached = first - 1;
  for (let pass = 0; pass < PASSES_MAX; pass += 1) {
    const end = await endOf(nats);
    if (pass > 0 && end - reached < NEAR_BLOCKS) break;
    await project(options, 'beside', end, reached);
    reached = end;
  }
  const figures = await figuresOf(beside);
  refuseWrong([...contradictions(figures), ...(await wrongPositions(beside, figures))]);
  report({ event: 'filled', block: reached, fills: figures.get('bookings.fills') });
}

/** First block of LEDGER. Throws LedgerIncompleteError if fills of earlier blocks are stored. */
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

/** The last block of LEDGER; −1 in an empty one. */
async function endOf(nats: Nats): Promise<number> {
  return (await newestMessage(nats))?.range.to ?? -1;
}

/** Pauses, compares, and swaps if nothing differs or `yes`; returns whether it swapped. */
async function handOver(
  options: RebuildOptions,
  tables: readonly string[],
  yes: boolean,
): Promise<boolean> {
  const { nats, live, beside, database, report } = options;
  const startedAt = performance.now();
  const sinceStart = () => Math.round(performance.now() - startedAt);
  const pauseLease = { ...options, keys: [PAUSE_KEY], patienceMs: REBUILD_PATIENCE_MS };
  const lease = { ...options, keys: ALL_PARTITIONS, patienceMs: PAUSE_PATIENCE_MS };
  const isSwapped = await withLeases(pauseLease, (pause) =>
    withLeases(lease, async (partitions) => {
      const assertOwner = () => {
        pause.assertHeld();
        partitions.assertHeld();
      };
      report({ event: 'paused', ms: sinceStart() });
      const end = await endOf(nats);
      const owner = { ...options, assertOwner };
      await Promise.all([project(owner, 'live', end, end), project(owner, 'beside', end, end)]);
      report({ event: 'level', block: end, ms: sinceStart() });
      const [before, after] = await Promise.all([figuresOf(live), figuresOf(beside)]);
      refuseWrong(contradictions(after));
      const different = differences(before, after);
      report({ event: 'compared', differences: different, ms: sinceStart() });
      if (different.length > 0 && !yes) return false;
      assertOwner();
      const exchangedAt = performance.now();
      await exchangeTables(live, database, tables);
      report({ event: 'swapped', ms: Math.round(performance.now() - exchangedAt) });
      return true;
    }),
  );
  report({ event: 'resumed', paused_ms: sinceStart() });
  return isSwapped;
}

/** Brings one of the two databases exactly to the end of a block, with the projector's own code. */
async function project(
  options: Owner,
  which: 'live' | 'beside',
  untilBlock: number,
  reached: number,
): Promise<void> {
  const { nats, database, logger, signal, report, assertOwner } = options;
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
      if (done > 0) report({ event: 'progress', what: 'blocks', done, all });
    },
  });
  signal.throwIfAborted();
}

function refuseWrong(wrong: readonly string[]): void {
  if (wrong.length === 0) return;
  throw new RebuildWrongError(`the rebuilt tables contradict each other:\n  ${wrong.join('\n  ')}`);
}
