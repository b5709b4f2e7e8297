/**
 * `npm run kills:disk`: SIGKILL while the disk is full, KILLS times (20) of the whole service and ENGINE_KILLS times (10)
 * of the embedded ClickHouse alone. Each start afterwards must become ready, or say what to do and become ready once
 * that is done. In the end all accounts must be those of the chain. Exits with code 1 otherwise. TEST_SEED repeats a run.
 * Mounts a disk of its own, so it needs root on Linux.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DISK_RESERVE_BYTES } from '../../../infra/disk.ts';
import { Random } from '../../../local/devnet/random.ts';
import { smallDisk } from '../../support/damage.ts';
import { accountDifferences, recomputed } from '../../support/reconcile.ts';
import {
  freeze,
  projectedTo,
  startDevnet,
  startService,
  temporaryDirectory,
} from '../../support/service.ts';
import { printTable } from '../bench/report.ts';

const DISK_MB = 400;
const RECOVERY_MS_MAX = 90_000;
const REMEDY = /delete this directory and start again/;

const seed = process.env.TEST_SEED || String(Date.now() % 1_000_000);
const kills = {
  everything: Number(process.env.KILLS || 20),
  engine: Number(process.env.ENGINE_KILLS || 10),
};
console.log(`TEST_SEED=${seed} KILLS=${kills.everything} ENGINE_KILLS=${kills.engine}`);

const random = new Random(`${seed}:disk-kills`);
const directory = temporaryDirectory();
const disk = smallDisk(join(directory.path, 'disk'), DISK_MB);
const data = join(directory.path, 'disk', 'data');
let devnet = await startDevnet(join(directory.path, 'devnet'), { matches: 500, days: 2, rate: 10 });
const results: Record<string, unknown>[] = [];
let service = await startService(data, { env: devnet.env });

for (const victim of ['everything', 'engine'] as const) {
  for (let n = 0; n < kills[victim]; n += 1) {
    await delay(random.below(8_000));
    // In two steps, as a disk fills, or at once.
    const isSudden = random.below(2) === 0;
    if (!isSudden) {
      disk.fill(DISK_RESERVE_BYTES / 2);
      await delay(random.below(1_000));
    }
    disk.fill();
    await delay(random.below(3_000));
    const startedAt = performance.now();
    const outcome = victim === 'engine' ? await killEngine() : await killEverything();
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    results.push({ victim, filled: isSudden ? 'at once' : 'in two steps', outcome, seconds });
    console.log(JSON.stringify(results.at(-1)));
  }
}
devnet = await freeze(devnet, join(directory.path, 'devnet'));
const { chain } = await recomputed(devnet.rpcUrl, devnet.env.GAMMA_URL);
await projectedTo(service, chain.lastFillBlock);
const differences = await accountDifferences(service, chain);
await service.up.stop();
await devnet.process.stop();
disk.remove();
directory.remove();

const outcomes = Map.groupBy(results, ({ victim, outcome }) => `${victim}: ${outcome}`);
printTable(
  'Kills at a full disk',
  [...outcomes].map(([what, all]) => ({ what, times: all.length })),
);
console.log(`${differences.length} differences`);
for (const difference of differences) console.error(difference);
const hasFailed = results.some(({ outcome }) => outcome === 'failed');
process.exit(differences.length > 0 || hasFailed ? 1 : 0);

async function killEverything(): Promise<string> {
  const pids = service.up.lines
    .filter(({ event }) => event === 'starting')
    .map(({ pid }) => Number(pid));
  for (const pid of [service.up.pid, ...pids]) kill(pid);
  await service.up.exit;
  disk.drain();
  return await startAgain();
}

async function killEngine(): Promise<string> {
  kill(service.pidOf('clickhouse'));
  await delay(random.below(2_000));
  disk.drain();
  const deadline = Date.now() + RECOVERY_MS_MAX;
  while (Date.now() < deadline) {
    if ((await fetch(`${service.ready.url}/readyz`).catch(() => undefined))?.ok) return 'ready';
    await delay(200);
  }
  console.log(await fetch(`${service.ready.url}/readyz`).then((answer) => answer.text(), String));
  console.log(JSON.stringify(service.up.lines.slice(-3)));
  await service.up.stop();
  return await startAgain();
}

/** Starts the service; once more after the repair that it names. */
async function startAgain(): Promise<string> {
  for (const outcome of ['ready', 'ready after the repair']) {
    try {
      service = await startService(data, { env: devnet.env });
      return outcome;
    } catch (error) {
      const message = String(error);
      console.log(message);
      if (!REMEDY.test(message)) break;
      rmSync(join(data, 'clickhouse'), { recursive: true });
    }
  }
  console.log('FAILED');
  process.exit(1);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
