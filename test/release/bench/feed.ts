/**
 * `npm run bench:feed`: what the event streams cost. Parts, all by default: `delivery` (100, 1,000
 * and 5,000 connections, unfiltered and with filters that pass one event in a hundred, beside a bare
 * node:http loop and nginx with nchan), `filtered` (the cost by connections and by their filters),
 * `saturation`, `listeners` (LISTENERS of them at one api and at four, and their return after a cut), `stalled` (readers that
 * never read), `resumes`, `devnet` (mempool to client).
 * CONNECTIONS, LISTENERS, SECONDS, RATE and RESUMES change the size.
 */
import { join } from 'node:path';
import { temporaryDirectory } from '../../support/service.ts';
import { mempoolToClient } from './feed-devnet.ts';
import { KEYS_A_LISTENER, measureListeners } from './feed-listeners.ts';
import { type Measured, measure } from './feed-measure.ts';
import { measureResumes } from './feed-resumes.ts';
import { measureStalled } from './feed-stalled.ts';
import { NCHAN_ABSENT, startBare, startFillstream, startNchan } from './feed-targets.ts';
import { machine, printTable, readable } from './report.ts';

const CONNECTIONS = (process.env.CONNECTIONS || '100,1000,5000').split(',').map(Number);
const RATE = Number(process.env.RATE || 100);
const SECONDS = Number(process.env.SECONDS || 10);
const RESUMES = Number(process.env.RESUMES || 10_000);
const LISTENERS = Number(process.env.LISTENERS || 5_000);
const FILTERED_MAX = 5_000;
const PARTS = [
  ...['delivery', 'filtered', 'saturation', 'listeners', 'stalled', 'resumes', 'devnet'],
];

const parts = process.argv.slice(2).length > 0 ? process.argv.slice(2) : PARTS;
console.log(machine());
const directory = temporaryDirectory();
const keys = Math.max(...CONNECTIONS, FILTERED_MAX, LISTENERS * KEYS_A_LISTENER);
const fillstream = await startFillstream(directory.path, keys);
try {
  if (parts.includes('delivery')) await delivery();
  if (parts.includes('filtered')) await filtered();
  if (parts.includes('saturation')) await saturation();
  if (parts.includes('listeners')) await listeners();
  if (parts.includes('stalled')) printTable('Stalled readers', await measureStalled(fillstream));
  if (parts.includes('resumes')) {
    printTable('Resumes of 1,000 events', [await measureResumes(fillstream, RESUMES)]);
  }
} finally {
  await fillstream.stop();
  directory.remove();
}
if (parts.includes('devnet')) printTable('Mempool to client', [await mempoolToClient()]);
process.exit(0);

async function delivery(): Promise<void> {
  const rows = [];
  for (const groups of [1, 100]) {
    for (const connections of CONNECTIONS) {
      const targets = [
        () => fillstream.startApi(),
        () => startBare(),
        // nchan has no filters.
        ...(groups > 1 ? [] : [() => startNchan(join(directory.path, 'nginx'))]),
      ];
      for (const start of targets) {
        const target = await start();
        if (target === undefined) {
          console.error(NCHAN_ABSENT);
          continue;
        }
        const measured = await measure(target, {
          connections,
          groups,
          rate: RATE,
          seconds: SECONDS,
        });
        const row = {
          connections: readable(connections).replace('.00', ''),
          filter: shareOf(groups),
          server: target.name,
          ...shown(measured),
        };
        console.log(JSON.stringify(row));
        rows.push(row);
        await target.stop();
      }
    }
  }
  printTable(`Delivery, ${RATE} events a second, ${SECONDS} s`, rows);
}

/** By connections if about one of them wants an event, and by how many of 5,000 want it. */
async function filtered(): Promise<void> {
  const rows = [];
  for (const [connections, groups] of [
    ...[100, 1_000, 5_000].map((count) => [count, count] as const),
    ...[1_000, 100, 10].map((count) => [FILTERED_MAX, count] as const),
  ]) {
    const target = await fillstream.startApi();
    const measured = await measure(target, { connections, groups, rate: RATE, seconds: SECONDS });
    await target.stop();
    const row = {
      connections: readable(connections).replace('.00', ''),
      'each wants': shareOf(groups),
      ...shown(measured),
    };
    console.log(JSON.stringify(row));
    rows.push(row);
  }
  printTable(`Filtered delivery, ${RATE} events a second, ${SECONDS} s`, rows);
}

function shareOf(groups: number): string {
  return groups === 1 ? 'none' : `${100 / groups} %`;
}

/** Finds the rate at which 1,000 connections are no longer served within 250 ms. */
async function saturation(): Promise<void> {
  const rows = [];
  for (const rate of [25, 50, 75, 100, 150, 200, 300]) {
    const target = await fillstream.startApi();
    const measured = await measure(target, {
      connections: 1_000,
      groups: 1,
      rate,
      seconds: SECONDS,
    });
    await target.stop();
    const row = { 'events/s published': rate, ...shown(measured) };
    console.log(JSON.stringify(row));
    rows.push(row);
    if (measured.p99 > 250) break;
  }
  printTable('Saturation, 1,000 connections, unfiltered', rows);
}

async function listeners(): Promise<void> {
  const measured = [];
  for (const apis of [1, 4]) {
    const wanted = { listeners: LISTENERS, apis, seconds: SECONDS };
    measured.push(await measureListeners(fillstream, wanted));
  }
  printTable(
    `Listeners, ${SECONDS} s`,
    measured.map(({ load }) => load),
  );
  printTable(
    'All listeners cut at once',
    measured.flatMap(({ storms }) => storms),
  );
}

function shown({ eventsPerSecond, cores, p50, p99, closed }: Measured) {
  return {
    'delivered/s': readable(eventsPerSecond),
    'cores used': readable(cores),
    'delivered/s/core': readable(eventsPerSecond / cores),
    'p50, ms': readable(p50),
    'p99, ms': readable(p99),
    cut: closed,
  };
}
