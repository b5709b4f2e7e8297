/**
 * `npm run bench:feed`: what the event streams cost. Parts, all by default: `delivery` (100, 1,000
 * and 5,000 connections, unfiltered and with filters that pass one event in a hundred, beside a bare
 * node:http loop and nginx with nchan), `listeners` (LISTENERS of them at one api and at four, and their return after
 * a cut), `resumes`, `devnet` (mempool to client). CONNECTIONS, LISTENERS, SECONDS, RATE and RESUMES change the size.
 */
import { join } from 'node:path';
import { temporaryDirectory } from '../../support/service.ts';
import { mempoolToClient } from './feed-devnet.ts';
import { listenersMax } from './feed-listeners.ts';
import { measure, measureStorms, shown } from './feed-measure.ts';
import { measureResumes } from './feed-resumes.ts';
import { NCHAN_ABSENT, startBare, startFillstream, startNchan } from './feed-targets.ts';
import { machine, printTable } from './report.ts';

const CONNECTIONS = (process.env.CONNECTIONS || '100,1000,5000').split(',').map(Number);
const RATE = Number(process.env.RATE || 100);
const SECONDS = Number(process.env.SECONDS || 10);
const RESUMES = Number(process.env.RESUMES || 10_000);
const LISTENERS = Number(process.env.LISTENERS || 5_000);
/** Deliveries a second to all listeners: what two cores carry, the listeners themselves included. */
const DELIVERIES = 100_000;
const ALL_PARTS = ['delivery', 'listeners', 'resumes', 'devnet'];
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ALL_PARTS;

console.log(machine());
const directory = temporaryDirectory();
const fillstream = await startFillstream(directory.path, Math.max(...CONNECTIONS, LISTENERS));
try {
  if (PARTS.includes('delivery')) await delivery();
  if (PARTS.includes('listeners')) await listeners();
  if (PARTS.includes('resumes')) {
    printTable('Resumes of 1,000 events', [await measureResumes(fillstream, RESUMES)]);
  }
} finally {
  await fillstream.stop();
  directory.remove();
}
if (PARTS.includes('devnet')) {
  printTable('Mempool to client', [await mempoolToClient(3 * SECONDS)]);
}
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
        const wanted = { connections, groups, rate: RATE, seconds: SECONDS };
        const filter = groups === 1 ? 'none' : `${100 / groups} %`;
        const row = { connections, filter, server: target.name };
        rows.push({ ...row, ...shown(await measure(target, wanted)) });
        console.log(JSON.stringify(rows.at(-1)));
        await target.stop();
      }
    }
  }
  printTable(`Delivery, ${RATE} events a second, ${SECONDS} s`, rows);
}

async function listeners(): Promise<void> {
  const measured = [];
  for (const apis of [1, 4]) {
    const connections = Math.min(LISTENERS, listenersMax());
    const rate = Math.max(1, Math.round(DELIVERIES / connections));
    const wanted = { connections, groups: 1, rate, seconds: SECONDS };
    measured.push(await measureStorms(fillstream, apis, wanted));
  }
  const loads = measured.map(({ load }) => load);
  printTable(`Listeners, ${DELIVERIES} deliveries a second, ${SECONDS} s`, loads);
  const storms = measured.flatMap((one) => one.storms);
  printTable('All listeners cut at once', storms);
}
