/**
 * Kill −9 of the projector and of ClickHouse in turn while LEDGER is written. Most kills hit an insert at a random
 * moment (also between the table and its views), the others a restart. Then the same LEDGER is projected again
 * without kills, and both results must be equal.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startNatsServer } from '../../../infra/local/nats-server.ts';
import { freePort } from '../../../infra/local/ports.ts';
import { serviceUrl } from '../../../infra/local/secret.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { newestMessage } from '../../../ingest/ledger.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { migrate } from '../../../sql/migrate.ts';
import { checksums, sumsByTag } from '../../support/checksums.ts';
import {
  blocksOf,
  type GeneratorOptions,
  ledgerEvents,
  listingOf,
  MATCHES_PER_BLOCK,
  publishMetadata,
  random,
} from '../../support/ledger-generator.ts';
import { TestLedger } from '../../support/publish-ledger.ts';
import { query, start } from '../../support/service.ts';
import { type InsertWatch, watchInserts } from './insert-watch.ts';

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

export type KillRun = {
  readonly kills: number;
  /** Kills long enough after the start of an insert that it was certainly in progress. */
  readonly intoInserts: number;
  /** Batches beyond the checkpoint that a new projector inserted again. */
  readonly healed: number;
  readonly rows: number;
  readonly seconds: number;
  /** The differences as sentences; empty if there are none. */
  readonly differences: readonly string[];
};

type Options = {
  readonly directory: string;
  readonly seed: number;
  readonly kills: number;
  readonly onProgress: (line: string) => void;
};

export async function runProjectorKills(options: Options): Promise<KillRun> {
  const { directory, seed, kills, onProgress } = options;
  const dice = random(seed);
  const natsServer = await startNatsServer({ dataDir: join(directory, 'nats') });
  const nats = await connectNats({ url: natsServer.url, name: 'kill run' });
  const clickhouse = new ClickHouse(join(directory, 'clickhouse'));
  const url = await clickhouse.start();
  const watch = await watchInserts(url);
  await migrate({ url, database: 'fillstream' });
  const projector = new Projector({ NATS_URL: natsServer.url, CLICKHOUSE_URL: watch.url });
  const load = await startLoad(nats, seed, () => projector.stored);
  const startedAt = performance.now();
  let intoInserts = 0;
  try {
    projector.start();
    for (let kill = 0; kill < kills; kill++) {
      const victim = VICTIMS[kill % VICTIMS.length] ?? 'projector';
      const inInsert = Math.floor(kill / VICTIMS.length) % START_KILLS_EVERY !== 0;
      await moment({ watch, projector, inInsert, dice });
      if (inInsert) intoInserts += 1;
      if (victim === 'projector') await projector.kill();
      else await clickhouse.killAndStart();
      if ((kill + 1) % 10 === 0 || kill + 1 === kills) {
        const seconds = Math.round((performance.now() - startedAt) / 1_000);
        onProgress(`kill ${kill + 1} of ${kills}, ${seconds} s, healed ${projector.healed}`);
      }
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    await load.stop();
    const last = (await newestMessage(nats))?.range.to ?? 0;
    onProgress(`${last} blocks in LEDGER`);
    await projector.storedTo(last);
    await projector.stop();
    onProgress('all stored; projecting again without kills');
    const { differences, rows } = await compare(natsServer.url, url, last);
    return { kills, intoInserts, healed: projector.healed, rows, seconds, differences };
  } finally {
    await load.stop();
    await projector.stop();
    watch.close();
    await clickhouse.stop();
    await nats.close();
    await natsServer.stop();
  }
}

/** Waits for the moment of the next kill. */
async function moment(at: {
  readonly watch: InsertWatch;
  readonly projector: Projector;
  readonly inInsert: boolean;
  readonly dice: () => number;
}): Promise<void> {
  if (at.inInsert) {
    await at.watch.next();
    await delay(at.dice() * INTO_INSERT_MS_MAX);
  } else {
    await delay(at.dice() * INTO_START_MS_MAX);
  }
}

/** Writes LEDGER at a steady rate, at most AHEAD_MAX ahead of what is stored, until it is stopped. */
async function startLoad(nats: Nats, seed: number, stored: () => number) {
  // Recent, because rows of recent_bookings expire.
  const now = Math.floor(Date.now() / 1_000);
  const options: GeneratorOptions = {
    seed,
    traders: 400,
    markets: LISTED,
    from: now - 14 * 86_400,
    to: now,
    matches: 5_000_000,
    matchesPerMarket: 700,
  };
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
    for (const block of blocksOf(ledgerEvents(options))) {
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

class ClickHouse {
  readonly #data: string;
  #child: ReturnType<typeof start> | undefined;
  #port: number | undefined;

  constructor(data: string) {
    this.#data = data;
  }

  async start(): Promise<string> {
    this.#port ??= await freePort();
    const args = ['--data', this.#data, '--port', String(this.#port)];
    this.#child = start('infra/local/clickhouse/main.ts', args);
    const { url } = await this.#child.event('listening');
    return serviceUrl(String(url), this.#data);
  }

  async killAndStart(): Promise<void> {
    this.#child?.kill('SIGKILL');
    await this.#child?.exit;
    await this.start();
  }

  async stop(): Promise<void> {
    await this.#child?.stop();
  }
}

class Projector {
  readonly #env: Readonly<Record<string, string>>;
  #child: ReturnType<typeof start> | undefined;
  #healed = 0;
  #stored = 0;

  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env;
  }

  start(): void {
    this.#child = start('projector/main.ts', [], this.#env);
  }

  /** Newest block up to which any projector reported everything as stored. */
  get stored(): number {
    const line = this.#child?.lines.findLast((one) => one.event === 'stored');
    this.#stored = Math.max(this.#stored, Number(line?.block ?? 0));
    return this.#stored;
  }

  /** Batches that all projectors so far inserted again at startup. */
  get healed(): number {
    return this.#healed + healedBy(this.#child);
  }

  async kill(): Promise<void> {
    if (this.#child === undefined) return;
    const killed = this.#child.kill('SIGKILL');
    await this.#child.exit;
    // If the child was already dead, something else killed it, which is a bug.
    if (!killed) throw new Error(`the projector ended by itself: ${this.#child.errors()}`);
    this.#healed += healedBy(this.#child);
    this.start();
  }

  async storedTo(block: number): Promise<void> {
    await this.#child?.reached('stored', (line) => Number(line.block) >= block);
  }

  async stop(): Promise<void> {
    await this.#child?.stop();
  }
}

function healedBy(child: ReturnType<typeof start> | undefined): number {
  const lines = child?.lines ?? [];
  return lines.reduce((sum, line) => sum + Number(line.healedBatches ?? 0), 0);
}

/** Projects LEDGER again into a new database and compares everything. */
async function compare(natsUrl: string, url: string, last: number) {
  const database = 'undisturbed';
  await migrate({ url, database });
  const alone = new Projector({
    NATS_URL: natsUrl,
    CLICKHOUSE_URL: url,
    CLICKHOUSE_DATABASE: database,
  });
  alone.start();
  await alone.storedTo(last);
  await alone.stop();
  const of = (name: string) => ({
    query: <Row>(sql: string) => query<Row>(url, sql, name),
  });
  const [disturbed, undisturbed] = [of('fillstream'), of(database)];
  const differences: string[] = [];
  const [found, expected] = [await checksums(disturbed.query), await checksums(undisturbed.query)];
  for (const [table, sum] of Object.entries(expected)) {
    const other = JSON.stringify(found[table]);
    if (JSON.stringify(sum) !== other) {
      differences.push(`${table}: undisturbed ${JSON.stringify(sum)}, after kills ${other}`);
    }
  }
  await disturbed.query('SYSTEM RELOAD DICTIONARY market_dictionary');
  const { raw, ...tables } = await sumsByTag(disturbed.query);
  if (raw.length < 2) differences.push('no sums by tag');
  for (const [table, sums] of Object.entries(tables)) {
    const same = JSON.stringify(sums) === JSON.stringify(raw);
    if (!same) differences.push(`${table}: its sums by tag are not those of the raw rows`);
  }
  const [counted] = await disturbed.query<{ n: string }>(
    'SELECT toString(count()) AS n FROM bookings',
  );
  return { differences, rows: Number(counted?.n) };
}
