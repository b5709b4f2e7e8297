/**
 * Kill −9 of the projector and of ClickHouse in turn while LEDGER is written. Most kills hit an insert at a random
 * moment (also between the table and its views), the others a restart. Then the same LEDGER is projected again
 * without kills, and both results must be equal.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { newestMessage } from '../../../ingest/ledger/ledger.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { freePort } from '../../../local/ports.ts';
import { serviceUrl } from '../../../local/secret.ts';
import { migrate } from '../../../sql/migrate.ts';
import { checksums, sumsByTag } from '../../support/checksums.ts';
import {
  blocksOf,
  ledgerEvents,
  listingOf,
  MATCHES_PER_BLOCK,
  publishMetadata,
} from '../../support/ledger-generator.ts';
import { TestLedger } from '../../support/publish-ledger.ts';
import { generator } from '../../support/seed.ts';
import { query, start } from '../../support/service.ts';
import { InsertWatch } from './insert-watch.ts';
import type { Given } from './run.ts';

const VICTIMS = ['projector', 'clickhouse'] as const;
/** An insert of 1,000 to 20,000 rows with its views takes 20 to 250 ms here. */
const INTO_INSERT_MS_MAX = 250;
/** Every fourth kill hits its victim during startup, which takes about this long. */
const INTO_START_MS_MAX = 1_000;
const START_KILLS_EVERY = 4;
const MATCHES_PER_SECOND = 1_500;
const LISTED = 1_500;
/** In matches, a few full batches, so that a busy machine does not accumulate work for the end. */
const AHEAD_MAX = 30_000;
const POLL_MS = 50;

type Process = ReturnType<typeof start>;

export async function runProjectorKills(options: Given & { readonly kills: number }) {
  const { directory, seed, kills, onProgress } = options;
  const dice = generator(seed);
  const natsServer = await startNatsServer({ dataDir: join(directory, 'nats') });
  const nats = await connectNats({ url: natsServer.url, name: 'kill run' });
  const data = join(directory, 'clickhouse');
  const port = String(await freePort());
  const startClickHouse = async () => {
    const child = start('local/clickhouse/main.ts', ['--data', data, '--port', port]);
    const { url } = await child.event('listening');
    return { child, url: serviceUrl(String(url), data) };
  };
  let clickhouse = await startClickHouse();
  const { url } = clickhouse;
  const watch = await InsertWatch.listen(url);
  await migrate({ url, database: 'fillstream' });
  const watched = new URL(url);
  watched.port = String(watch.port);
  const project = (env: Readonly<Record<string, string>>) =>
    start('projector/main.ts', [], { NATS_URL: natsServer.url, ...env });
  const projectors = [project({ CLICKHOUSE_URL: watched.href })];
  /** Newest block up to which any projector reported everything as stored. */
  const stored = () => Math.max(0, ...projectors.map(storedBy));
  const load = await startLoad(nats, seed, stored);
  let intoInserts = 0;
  try {
    for (let kill = 0; kill < kills; kill++) {
      if (Math.floor(kill / VICTIMS.length) % START_KILLS_EVERY === 0) {
        await delay(dice() * INTO_START_MS_MAX);
      } else {
        await watch.next();
        await delay(dice() * INTO_INSERT_MS_MAX);
        // Long enough after its start that the insert was certainly in progress.
        intoInserts += 1;
      }
      if (VICTIMS[kill % VICTIMS.length] === 'projector') {
        const [projector] = projectors.slice(-1);
        const isKilled = projector?.kill('SIGKILL');
        await projector?.exit;
        // If it was already dead, something else killed it, which is a bug.
        if (!isKilled) throw new Error(`the projector ended by itself: ${projector?.errors()}`);
        projectors.push(project({ CLICKHOUSE_URL: watched.href }));
      } else {
        clickhouse.child.kill('SIGKILL');
        await clickhouse.child.exit;
        clickhouse = await startClickHouse();
      }
      if ((kill + 1) % 10 === 0) onProgress(`kill ${kill + 1} of ${kills}`);
    }
    await load.stop();
    const last = (await newestMessage(nats))?.range.to ?? 0;
    onProgress(`${last} blocks in LEDGER`);
    const storeAll = async (projector: Process | undefined) => {
      await projector?.reached('stored', (line) => Number(line.block) >= last);
      await projector?.stop();
    };
    await storeAll(projectors.at(-1));
    onProgress('all stored; projecting again without kills');
    const database = 'undisturbed';
    await migrate({ url, database });
    await storeAll(project({ CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: database }));
    // Batches beyond the checkpoint that a new projector inserted again.
    const healed = projectors.reduce((sum, one) => sum + healedBy(one), 0);
    return { kills, intoInserts, healed, ...(await compare(url, database)) };
  } finally {
    await load.stop();
    await projectors.at(-1)?.stop();
    watch.close();
    await clickhouse.child.stop();
    await nats.close();
    await natsServer.stop();
  }
}

function storedBy({ lines }: Process): number {
  return Number(lines.findLast(({ event }) => event === 'stored')?.block ?? 0);
}

function healedBy({ lines }: Process): number {
  return lines.reduce((sum, line) => sum + Number(line.healedBatches ?? 0), 0);
}

/** Writes LEDGER at a steady rate, at most AHEAD_MAX ahead of what is stored, until it is stopped. */
async function startLoad(nats: Nats, seed: number, stored: () => number) {
  const now = Math.floor(Date.now() / 1_000);
  const events = ledgerEvents({
    ...{ seed, traders: 400, markets: LISTED, matches: 5_000_000, matchesPerMarket: 700 },
    ...{ from: now - 14 * 86_400, to: now },
  });
  await ensureStreams(nats, 1);
  const ledger = await TestLedger.open(nats);
  await publishMetadata(
    nats,
    Array.from({ length: LISTED }, (_, market) => listingOf(market)),
  );
  let stopped = false;
  const running = (async () => {
    const startedAt = performance.now();
    let published = 0;
    for (const block of blocksOf(events)) {
      if (stopped) break;
      await ledger.publish([block]);
      published += MATCHES_PER_BLOCK;
      while (!stopped && published - stored() * MATCHES_PER_BLOCK > AHEAD_MAX) await delay(POLL_MS);
      const aheadMs = (published / MATCHES_PER_SECOND) * 1_000 - (performance.now() - startedAt);
      if (aheadMs > 20) await delay(aheadMs);
    }
    ledger.close();
  })();
  return {
    async stop(): Promise<void> {
      stopped = true;
      await running;
    },
  };
}

/** Compares every table of the disturbed database with that of the undisturbed one. */
async function compare(url: string, database: string) {
  const disturbed = <Row>(sql: string) => query<Row>(url, sql);
  const undisturbed = <Row>(sql: string) => query<Row>(url, sql, database);
  const differences: string[] = [];
  const [found, expected] = [await checksums(disturbed), await checksums(undisturbed)];
  for (const [table, sum] of Object.entries(expected)) {
    const other = JSON.stringify(found[table]);
    if (JSON.stringify(sum) !== other) {
      differences.push(`${table}: undisturbed ${JSON.stringify(sum)}, after kills ${other}`);
    }
  }
  await disturbed('SYSTEM RELOAD DICTIONARY market_dictionary');
  const { raw, ...tables } = await sumsByTag(disturbed);
  if (raw.length < 2) differences.push('no sums by tag');
  for (const [table, sums] of Object.entries(tables)) {
    const same = JSON.stringify(sums) === JSON.stringify(raw);
    if (!same) differences.push(`${table}: its sums by tag are not those of the raw rows`);
  }
  const [counted] = await disturbed<{ n: string }>('SELECT toString(count()) AS n FROM bookings');
  return { rows: Number(counted?.n), differences };
}
