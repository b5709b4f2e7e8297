/**
 * `npm run bench:peers`: the same data and questions for Fillstream and its alternatives, by turns: PostgreSQL,
 * nchan, plain better-sse, Ponder. Parts, all by default: `aggregation` (the 30-day leaderboard), `questions` (analysts'
 * examples), `hot` (profiles over HTTP, few traders get most requests), `feed` (fan-out), `indexing` (from a node's logs to
 * tables). A part whose peer is not installed is skipped and says how to install it. An answer that differs ends the
 * run. FILLS, ROUNDS, SECONDS, LISTENERS, RATE and MATCHES change the size.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { API_FLAGS } from '../../../local/service.ts';
import { temporaryDirectory } from '../../support/service.ts';
import { type Measured, measure } from './feed-measure.ts';
import {
  NCHAN_ABSENT,
  nchanConfig,
  nchanVersion,
  startBare,
  startFillstream,
  startNchan,
} from './feed-targets.ts';
import { type Dataset, openDataset } from './fills.ts';
import {
  measureBoard,
  measureProfiles,
  measureQuestions,
  withoutSchedule,
} from './peer-analytics.ts';
import { measureIndexing, PONDER_PACKAGES } from './peer-ponder.ts';
import { PeerAbsent, type Postgres, postgresPrograms, postgresSettings } from './peer-postgres.ts';
import { openPostgres } from './peer-postgres-data.ts';
import { machine, median, printTable, readable } from './report.ts';

const FILLS = Number(process.env.FILLS || 20_000_000);
const ROUNDS = Number(process.env.ROUNDS || 3);
const SECONDS = Number(process.env.SECONDS || 5);
const LISTENERS = Number(process.env.LISTENERS || 1_000);
const RATE = Number(process.env.RATE || 200);
const MATCHES = Number(process.env.MATCHES || 20_000);
const ALL_PARTS = ['aggregation', 'questions', 'hot', 'feed', 'indexing'];
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ALL_PARTS;

const unknown = PARTS.filter((part) => !ALL_PARTS.includes(part));
if (unknown.length > 0) throw new Error(`no part ${unknown.join()}: ${ALL_PARTS.join(' ')}`);
console.log(
  `${machine()}; medians of ${ROUNDS} turns (ours, peer, ours, peer). All servers, clients and the load share the cores.\n` +
    `A ratio above 1 is in our favour.`,
);
const isAnalytics = (part: string) => ['aggregation', 'questions', 'hot'].includes(part);
if (PARTS.some(isAnalytics)) await unlessAbsent(analytics);
if (PARTS.includes('feed')) await unlessAbsent(feed);
if (PARTS.includes('indexing')) await unlessAbsent(indexing);
process.exit(0);

async function unlessAbsent(run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof PeerAbsent)) throw error;
    console.error(`skipped: ${error.message}`);
  }
}

async function analytics(): Promise<void> {
  postgresPrograms();
  const data = await openDataset(FILLS);
  try {
    const postgres = await openPostgres(data);
    try {
      const [clickhouse] = await data.parts.query<{ v: string }>('SELECT version() AS v');
      const settings = Object.entries(postgresSettings()).map((one) => one.join(' = '));
      console.log(
        `\n${readable(data.fills)} fills, ${readable(data.traders.length)} traders, ${readable(data.markets.length)} markets; ` +
          `ClickHouse ${clickhouse?.v}, embedded, as in npm start; api: node ${API_FLAGS.join(' ')} api/main.ts\n` +
          `${postgres.version} on a Unix socket: ${settings.join(', ')}\n` +
          'Its statements: test/release/bench/peer-postgres-data.ts, peer-questions.ts, peer-postgres-http.ts. Its sums by hour are ' +
          'built once; updating them with each insert is not timed.',
      );
      await withoutSchedule(data.parts, () => analyticsParts(data, postgres));
    } finally {
      await postgres.stop();
    }
  } finally {
    await data.parts.stop();
  }
}

async function analyticsParts(data: Dataset, postgres: Postgres): Promise<void> {
  const how = { data, postgres, rounds: ROUNDS };
  if (PARTS.includes('aggregation')) {
    report('PostgreSQL', 'Leaderboard of 30 days', await measureBoard(how));
  }
  if (PARTS.includes('questions')) {
    report('PostgreSQL', 'Analysts’ questions', await measureQuestions(how));
  }
  if (PARTS.includes('hot')) {
    const rows = await measureProfiles({ ...how, seconds: SECONDS });
    report('PostgreSQL', 'Profiles and leaderboard over HTTP, 16 connections', rows);
  }
}

/** Prints the table, then the rows in which the peer is better. */
function report(
  peer: string,
  title: string,
  rows: readonly Readonly<Record<string, string | number>>[],
): void {
  printTable(`${title}: Fillstream and ${peer}`, rows);
  const better = rows.filter(({ ratio }) => Number(ratio) < 1).map((row) => Object.values(row)[0]);
  printBetter(peer, better);
}

function printBetter(peer: string, what: readonly unknown[]): void {
  console.log(`${peer} does better: ${what.length === 0 ? 'nothing here' : what.join('; ')}`);
}

async function feed(): Promise<void> {
  const directory = temporaryDirectory();
  const fillstream = await startFillstream(directory.path, LISTENERS);
  const targets = [
    () => fillstream.startApi(),
    () => startNchan(join(directory.path, 'nginx')),
    () => startBare('better-sse'),
  ];
  const results = new Map<string, Measured[]>();
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const start of targets) {
        const target = await start();
        if (target === undefined) {
          if (round === 0) console.error(NCHAN_ABSENT);
          continue;
        }
        const wanted = { connections: LISTENERS, groups: 1, rate: RATE, seconds: SECONDS };
        const measured = await measure(target, wanted);
        await target.stop();
        results.set(target.name, [...(results.get(target.name) ?? []), measured]);
      }
    }
  } finally {
    await fillstream.stop();
    directory.remove();
  }
  const { version } = JSON.parse(readFileSync('node_modules/better-sse/package.json', 'utf8'));
  console.log(
    `\nbetter-sse ${version}: channel.broadcast of events made in its own process; it cannot resume.\n` +
      'Fillstream: from FEED, which JetStream stores; "broker" is nats-server. No listener has a filter.',
  );
  if (results.has('nginx + nchan')) {
    console.log(
      `${nchanVersion()}: a POST for each event, and\n${nchanConfig('DIR', 'MODULE', 80)}`,
    );
  }
  reportFeed(results);
}

function reportFeed(results: ReadonlyMap<string, readonly Measured[]>): void {
  const all = [...results].map(([server, rounds]) => {
    const of = (pick: (one: Measured) => number) => median(rounds.map(pick));
    const [cores, broker] = [of((one) => one.cores), of((one) => one.brokerCores)];
    const delivered = of((one) => one.eventsPerSecond);
    const perCore = of((one) => one.eventsPerSecond / (one.cores + one.brokerCores));
    const [p50, p99, kib] = [of((one) => one.p50), of((one) => one.p99), of((one) => one.idleKib)];
    const cut = rounds.reduce((sum, one) => sum + one.closed, 0);
    return { server, delivered, cores, broker, perCore, p50, p99, kib, cut };
  });
  const [ours, ...peers] = all;
  if (ours === undefined) throw new Error('no turns');
  const rows = all.map((one) => ({
    server: one.server,
    ...{ 'delivered/s': readable(one.delivered), cores: readable(one.cores) },
    ...{ broker: readable(one.broker), 'delivered/s/core, broker too': readable(one.perCore) },
    ratio: readable(ours.perCore / one.perCore),
    ...{ 'p50, ms': readable(one.p50), 'p99, ms': readable(one.p99) },
    ...{ 'KiB a listener': readable(one.kib), cut: one.cut },
  }));
  printTable(`${LISTENERS} listeners, ${RATE} events a second, ${SECONDS} s`, rows);
  for (const one of peers) {
    const better = [
      one.perCore > ours.perCore && 'deliveries per core',
      one.p50 < ours.p50 && 'p50',
      one.p99 < ours.p99 && 'p99',
      one.kib < ours.kib && 'memory of a listener',
    ].filter((what) => what !== false);
    printBetter(one.server, better);
  }
}

async function indexing(): Promise<void> {
  const rows = await measureIndexing(MATCHES, ROUNDS);
  console.log(
    `\n${PONDER_PACKAGES.join(' ')}: ponder start, with a PostgreSQL as above; it stores a row for each OrderFilled log. ` +
      'Fillstream also reads calldata and listings, and stores positions, PnL and all sums.',
  );
  report('Ponder', 'From the logs of a node to tables', rows);
}
