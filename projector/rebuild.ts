/**
 * `npm run rebuild`: recomputes all projections beside the live ones and swaps them. Tells its progress
 * in lines of text, and to a parent over IPC. Exit codes: 0 swapped, 1 failed, 2 wrong arguments,
 * 3 the rebuilt tables differ from the live ones and nobody accepted that: nothing was changed.
 */
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { ConfigError, readConfig, StoresConfig } from '../infra/config.ts';
import { connectNats, natsOptions, StreamMissingError } from '../infra/nats/connection.ts';
import { openKv } from '../infra/nats/kv.ts';
import { UnreadableLedgerError } from '../ingest/ledger.ts';
import { LedgerRewrittenError } from './consume.ts';
import {
  LEASE_TTL_MS,
  LeaseLostError,
  LeaseTakenError,
  leaseHolder,
  PROJECTORS_BUCKET,
} from './lease.ts';
import { LedgerIncompleteError, RebuildWrongError, rebuild, type Told } from './rebuild-run.ts';
import { besideOf } from './rebuild-tables.ts';

const HELP = `npm run rebuild -- [--yes]

Recomputes every projection from LEDGER in a second database beside the live one; refused where LEDGER does not
reach back to the first stored fill. The service answers and projects all the
while; it is paused for seconds at the end, when both are compared and the tables are exchanged.

  --yes           swap although the rebuilt tables differ from the live ones; without it you are asked,
                  and where nobody can be asked nothing is swapped (exit code 3)
  --help          this text

Needs room for a second copy of the tables, and the service's environment: NATS_URL, CLICKHOUSE_URL,
CLICKHOUSE_DATABASE (npm start shows the URLs of its own servers).`;

/** The figures of 20M fills take longer than a request of the service may. */
const REQUEST_TIMEOUT_MS = 600_000;
const PROGRESS_MS = 1_000;

/** A cluster's tables are exchanged on each node: not built. */
class ClusterRefusedError extends Error {}

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
      // Its own lines tell what a user needs; the projector's are for faults.
      logger: pino({ name: 'rebuild', level: 'warn' }),
      signal,
      tell: createTeller(),
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
      'not swapped: run it again with --yes to replace the live tables by the rebuilt ones',
    );
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await terminal.question('replace the live tables by the rebuilt ones? [y/N] ', {
      signal,
    });
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

/** Prints what is told; progress at most once a second, with its rate and the time left. */
function createTeller(): (told: Told) => void {
  let what: unknown;
  let startedAt = 0;
  let printedAt = 0;
  return (told) => {
    if (process.connected) process.send?.(told);
    if (told.event !== 'progress') {
      for (const line of linesOf(told)) console.log(line);
      return;
    }
    const [now, done, all] = [performance.now(), Number(told.done), Number(told.all)];
    if (told.what !== what) {
      what = told.what;
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

function linesOf(told: Told): readonly string[] {
  switch (told.event) {
    case 'reading':
      return ['rebuilding from LEDGER'];
    case 'filled':
      return [`filled up to block ${told.block}: ${count(Number(told.fills))} fills, sums agree`];
    case 'paused':
      return [`projectors paused after ${told.ms} ms`];
    case 'compared': {
      const different = told.differences as readonly string[];
      if (different.length === 0) return ['the same as the live tables'];
      return ['other than the live tables:', ...different.map((line) => `  ${line}`)];
    }
    case 'swapped':
      return [`tables exchanged in ${told.ms} ms`];
    case 'resumed':
      return [`projectors go on after a pause of ${told.paused_ms} ms`];
    case 'done':
      return ['done'];
    default:
      return [];
  }
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
