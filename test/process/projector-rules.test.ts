/** Rules of the projector that need the real store: resolutions, checkpoints, pauses, and what LEDGER must hold. */

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { getMessage } from '../../infra/nats/reader.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import type { Match, Profile, Resolution } from '../../ingest/contract.ts';
import {
  emptyBlock,
  LEDGER_STREAM,
  newestMessage,
  VERSION_HEADER,
} from '../../ingest/ledger/ledger.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import {
  LEASE_TTL_MS,
  leaseHolder,
  PAUSE_KEY,
  PROJECTORS_BUCKET,
  partitionsOf,
} from '../../projector/lease.ts';
import { Store } from '../../projector/store.ts';
import { flipBytes } from '../support/damage.ts';
import { Front } from '../support/front.ts';
import {
  blockHash,
  blocksOf,
  conditionId,
  listingOf,
  publishMetadata,
  traderAddress,
} from '../support/ledger-generator.ts';
import { publishEvents, TestLedger } from '../support/publish-ledger.ts';
import { start, temporaryDirectory, until } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

const TIME = Date.parse('2026-11-01T00:00:00Z') / 1_000;
/** One transaction a block, which identifies the event. */
const hash = (block: number) => `0x${block.toString(16).padStart(64, '0')}` as const;
const MARKET = conditionId(0);
const OTHER_HASH = hash(88);

function match(blockNumber: number): Match {
  return {
    kind: 'match',
    ...placeOf(blockNumber),
    logIndex: 5,
    exchange: traderAddress(9),
    fills: [
      {
        logIndex: 1,
        orderHash: hash(0),
        trader: traderAddress(1),
        isTaker: true,
        side: 'BUY',
        outcomeIndex: 0,
        tokenId: '1',
        shares: 100n,
        usdc: 40n,
        fee: 1n,
      },
    ],
  };
}

function resolution(blockNumber: number, payouts: [bigint, bigint]): Resolution {
  return { kind: 'resolution', ...placeOf(blockNumber), logIndex: 1, payouts };
}

function placeOf(blockNumber: number) {
  const blockTime = TIME + blockNumber;
  return { blockNumber, blockTime, txHash: hash(blockNumber), conditionId: MARKET };
}

describe('the projector', () => {
  const directory = temporaryDirectory();
  let parts: Parts;
  let nats: Nats;

  beforeAll(async () => {
    parts = await startParts(directory.path, []);
    nats = await connectNats({ url: parts.env.NATS_URL, name: 'rules test' });
  });

  afterAll(async () => {
    await nats?.close();
    await parts?.stop();
    directory.remove();
  });

  /** Publishes, and runs a separate projector until all of it is stored. */
  async function project(events: readonly (Match | Resolution)[]): Promise<void> {
    const { projector } = await startProjector();
    await projector.event('projecting');
    await publishEvents(nats, events);
    const block = events.at(-1)?.blockNumber ?? 0;
    await expect.poll(newestBlock).toBeGreaterThanOrEqual(block);
    expect(await projector.stop()).toBe(0);
    expect(await checkpoint()).toBe(await newestBlock());
  }

  /** The block that the newest checkpoint names. */
  async function checkpoint(): Promise<number> {
    const [row] = await parts.query<{ block: string }>(
      'SELECT toString(max(block_number)) AS block FROM projector_checkpoints FINAL',
    );
    return Number(row?.block);
  }

  async function newestBlock(): Promise<number> {
    const [row] = await parts.query<{ block: string }>(
      'SELECT toString(max(block_number)) AS block FROM bookings',
    );
    return Number(row?.block);
  }

  test('uses only the first resolution, in table and positions, also after a restart', async () => {
    await project([match(1), resolution(2, [1n, 0n]), resolution(3, [0n, 1n]), match(4)]);
    // Another process, which only has the table to learn about the first one.
    await project([resolution(5, [1n, 1n]), match(6)]);
    expect(
      await parts.query(
        'SELECT toUInt32(payout_0) AS first, toUInt32(payout_1) AS second FROM resolutions FINAL',
      ),
    ).toEqual([{ first: 1, second: 0 }]);
    // 100 shares that pay 100, three times: at the resolution, and at once for the two later fills.
    expect(
      await parts.query(
        `SELECT toUInt32(block_number) AS block, toInt32(usdc) AS paid, toInt32(realised_pnl) AS pnl
         FROM bookings WHERE kind = 'settlement' ORDER BY block`,
      ),
    ).toEqual([2, 4, 6].map((block) => ({ block, paid: 100, pnl: 59 })));
  });

  test('reports at startup what is stored, even if nothing arrives', async () => {
    await project([match(7)]);
    const { projector, asked } = await startProjector();
    expect((await projector.event('stored')).block).toBe(7);
    expect(await asked('metrics')).toMatch(/fillstream_projector_stored_block\{.*\} 7$/m);
  });

  test('is needed before a backup, after one was killed before its checkpoint', async () => {
    await parts.query('TRUNCATE TABLE projector_checkpoints');
    const to = `${directory.path}/backup`;
    const backup = start('ops/backup.ts', ['backup', '--to', to], parts.env);
    expect(await backup.exit).toBe(2);
    expect(backup.errors()).toContain('back up again when it is ready');
  });

  test('does not complete a batch that ClickHouse may no longer remember', async () => {
    const store = openStore();
    await storeForeignBatches(1_000_000);
    await expect(store.heal()).rejects.toThrow('counting it twice. Run npm run rebuild');
    await parts.query(
      'ALTER TABLE bookings DELETE WHERE partition = 255 SETTINGS mutations_sync = 1',
    );
    expect(await store.heal()).toEqual({ healedBatches: 1 });
  });

  test('makes a checkpoint of what a predecessor stored without one', async () => {
    await parts.query('TRUNCATE TABLE projector_checkpoints');
    const { projector } = await startProjector();
    await projector.event('stored');
    expect(await projector.stop()).toBe(0);
    expect(await checkpoint()).toBe(7);
  });

  test('finds an event of the block of its checkpoint', async () => {
    const store = openStore();
    const write = (logIndex: number) => {
      const place = { blockNumber: 7, blockHash: blockHash(7), logIndex };
      return store.writeCheckpoints(new Map(partitionsOf(0, 1).map((id) => [id, place])));
    };
    await write(4);
    expect(await store.unconfirmed()).toMatchObject([{ blockNumber: 7, logIndex: 5 }]);
    await write(5);
    expect(await store.unconfirmed()).toEqual([]);
  });

  test('starts after a rebuild, when ClickHouse no longer remembers its batch', async () => {
    await parts.query('TRUNCATE TABLE projector_checkpoints');
    await storeForeignBatches(2_000_000);
    const { projector: blocked } = await startProjector();
    expect((await blocked.event('blocked')).reason).toContain('Run npm run rebuild');
    const unconfirmed = start('ops/rebuild.ts', [], parts.env);
    expect(await unconfirmed.exit, unconfirmed.errors()).toBe(3);
    const rebuild = start('ops/rebuild.ts', ['--yes'], parts.env);
    expect(await rebuild.exit, rebuild.errors()).toBe(0);
    expect(await blocked.stop()).toBe(0);
    expect(await checkpoint()).toBe(7);
    const [sums] = await parts.query(
      `SELECT (SELECT sum(realised_pnl) FROM trader_markets) = sum(realised_pnl) AS agree,
         countIf(partition = 255) = 0 AS anew FROM bookings`,
    );
    expect(sums).toEqual({ agree: 1, anew: 1 });
    await project([]);
  });

  test('waits while a rebuild pauses it, and not for one that is dead', async () => {
    const kv = await openKv(nats, PROJECTORS_BUCKET, { ttlMs: LEASE_TTL_MS });
    await kv.put(PAUSE_KEY, leaseHolder('rebuild'));
    const { projector } = await startProjector();
    onTestFinished(() => kv.delete(PAUSE_KEY));
    let isProjecting = false;
    const projecting = projector.event('projecting').then(() => {
      isProjecting = true;
    });
    // While this process, the holder, is alive and renews it, as a rebuild does.
    for (let i = 0; i < 6; i++) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      await kv.put(PAUSE_KEY, leaseHolder('rebuild'));
    }
    expect(isProjecting).toBe(false);

    const { pid } = spawnSync(process.execPath, ['-e', '']);
    await kv.put(
      PAUSE_KEY,
      leaseHolder('rebuild').replace(`process ${process.pid} `, `process ${pid} `),
    );
    await projecting;
    // Because the holder died. The lease itself would have lasted longer.
    if (process.platform === 'linux') expect(await kv.get(PAUSE_KEY)).toBeDefined();
  });

  test('waits for a LEDGER that ends before the stored block, and continues when LEDGER reaches it', async () => {
    const { sequence, append } = await newestOfLedger();
    await nats.jsm.streams.deleteMessage(LEDGER_STREAM, sequence, false);
    const { projector, notReady } = await startProjector();
    const ends = 'LEDGER ends at block 6, but the tables already hold block 7';
    await expect.poll(notReady).toContain(ends);
    await append();
    await projector.event('projecting');
  });

  test('stops, not ready, at a message that it cannot read, and continues when it is gone', async () => {
    const writer = await openWriter(nats, { stream: LEDGER_STREAM });
    const headers = { [VERSION_HEADER]: '99' };
    const subject = 'ledger.block.0.0';
    const sequence = await writer.append({ id: 'new', subject, data: '', headers });
    writer.close();
    const { projector, notReady } = await startProjector();
    const { reason } = await projector.event('blocked');
    expect(reason).toContain(`LEDGER message ${sequence} cannot be read: format version 99`);
    expect(await notReady()).toContain(`LEDGER message ${sequence} cannot be read`);

    await nats.jsm.streams.deleteMessage(LEDGER_STREAM, sequence, false);
    await publishEvents(nats, [match(8)]);
    await projector.reached('stored', ({ block }) => block === 8);
    expect(await notReady()).not.toContain('cannot be read');
  });

  test('stops, not ready, if LEDGER has another block than the stored one, and continues when LEDGER has it', async () => {
    const { append } = await newestOfLedger();
    await nats.jsm.streams.purge(LEDGER_STREAM);
    const ledger = await TestLedger.open(nats);
    const block = emptyBlock({ number: 8, hash: OTHER_HASH, time: TIME + 8 });
    await ledger.publish([{ ...block, events: [match(8)] }]);
    ledger.close();
    const { projector, notReady } = await startProjector();
    const found = `the tables hold ${blockHash(8)} in block 8, but LEDGER holds ${OTHER_HASH}`;
    expect((await projector.event('blocked')).reason).toContain(found);
    expect(await notReady()).toContain(found);

    await nats.jsm.streams.purge(LEDGER_STREAM);
    await append();
    await projector.event('projecting');
  });

  test('stops, not ready, at a damaged message of LEDGER, and names the remedy', async () => {
    const { path, damaged, client } = await startOther();
    await publishEvents(
      client,
      Array.from({ length: 60 }, (_, block) => match(block + 1)),
    );
    flipBytes(`${path}/nats/jetstream`, /LEDGER\/msgs\/\d+\.blk$/);
    const { projector, notReady } = await startProjector(damaged.env);
    const { reason } = await projector.event('blocked');
    const named = /LEDGER is damaged: message \d+ cannot be read\. .*"Damaged data"/;
    expect(reason).toMatch(named);
    expect(await notReady()).toMatch(/LEDGER is damaged/);
  });

  test('reloads the tags that a predecessor stored without reloading the dictionary', async () => {
    const { conditionId: id } = listingOf(0);
    await parts.query(
      `INSERT INTO markets (condition_id_hex, tags) VALUES ('${id.slice(2)}', ['rare'])`,
    );
    await startProjector();
    const key = `tuple(reinterpretAsUInt256(unhex('${id.slice(2)}')))`;
    const tags = `SELECT dictGet('fillstream.market_dictionary', 'tags', ${key}) AS tags`;
    await expect.poll(() => parts.query(tags)).toEqual([{ tags: ['rare'] }]);
  });

  test('stores a broken text, with all the others', async () => {
    const name = `half \ud83d`;
    const profiles = ['a', 'b'].map(
      (digit): Profile => ({
        kind: 'profile',
        address: `0x${digit.repeat(40)}`,
        name,
        profileImage: '',
        xUsername: '',
        createdAt: '',
        takerTier: 0,
        takerTierName: '',
        weightedVolumeUsd: null,
      }),
    );
    await publishMetadata(nats, profiles);
    await startProjector();
    const query = `SELECT name FROM traders WHERE startsWith(name, 'half ')`;
    await expect.poll(() => parts.query(query)).toHaveLength(profiles.length);
  });

  test('stops the metadata, not ready, at a damaged message until it is removed', async () => {
    const { path, damaged, client } = await startOther();
    await publishMetadata(
      client,
      Array.from({ length: 61 }, (_, market) => listingOf(market)),
    );
    flipBytes(`${path}/nats/jetstream`, /METADATA\/msgs\/\d+\.blk$/);
    const { notReady } = await startProjector(damaged.env);
    const named = /"metadata":"METADATA is damaged: the server holds message \d+ .*"/;
    await expect.poll(notReady).toMatch(named);
    await client.jsm.streams.purge('METADATA', { seq: 61 });
    await expect.poll(notReady).not.toMatch(named);
  });

  test('reports damaged tables if it cannot read them', async () => {
    const { path, damaged, client } = await startOther();
    // Nothing is read while nothing is stored.
    await publishEvents(client, [match(1)]);
    const { projector: before } = await startProjector(damaged.env);
    await expect.poll(() => damaged.query('SELECT 1 FROM bookings')).not.toEqual([]);
    expect(await before.stop()).toBe(0);
    await damaged.query(`INSERT INTO market_traders (condition_id, trader, position)
        SELECT unhex(leftPad(hex(${0x20_0000_0000} + number), 64, '0')),
          substring(SHA1(toString(number)), 1, 20), (1, 0, 1, 0, 0)
        FROM numbers(5000)`);
    await damaged.query('OPTIMIZE TABLE market_traders FINAL');
    const [part] = await damaged.query<{ path: string }>(
      "SELECT path FROM system.parts WHERE table = 'market_traders' AND active",
    );
    flipBytes(join(path, 'clickhouse', part?.path ?? ''), /\.bin$/);
    const { projector, notReady } = await startProjector(damaged.env);
    // A start reads no positions.
    await projector.event('projecting');
    const markets = Array.from({ length: 5_000 }, (_, i) => conditionId(i));
    await publishEvents(
      client,
      markets.map((id, i) => ({ ...match(2), conditionId: id, logIndex: i * 2 + 2 })),
    );
    const named = /"restore":"damaged data: table fillstream\.market_traders\..*\\"Damaged data\\"/;
    await expect.poll(notReady).toMatch(named);
  });

  test('exits on a signal while ClickHouse is down and the reader is at its limit', async () => {
    const front = await Front.listen(parts.env.CLICKHOUSE_URL);
    const url = new URL(parts.env.CLICKHOUSE_URL);
    url.port = String(front.port);
    const { projector } = await startProjector({ ...parts.env, CLICKHOUSE_URL: url.href });
    await projector.event('projecting');
    front.close();
    const first = (await newestBlock()) + 1;
    const ledger = await TestLedger.open(nats);
    for (const block of [first, first + 1]) {
      // The number of rows by which the reader may be ahead.
      const { fills, ...one } = match(block);
      const many = Array.from({ length: 50_000 }, (_, logIndex) => {
        return {
          ...one,
          logIndex: logIndex * 2 + 1,
          fills: fills.map((fill) => ({ ...fill, logIndex: logIndex * 2 })),
        };
      });
      await ledger.publish([...blocksOf(many)]);
    }
    ledger.close();
    const retried = ['restore', 'batch', 'checkpoint'];
    const isRetrying = () => projector.lines.some(({ what }) => retried.includes(String(what)));
    const isRead = async () => {
      const consumers = await nats.jsm.consumers.list(LEDGER_STREAM).next();
      return consumers.some(({ num_pending }) => num_pending <= 1);
    };
    await until(async () => (isRetrying() && (await isRead())) || undefined);
    expect(await projector.stop()).toBe(0);
  });

  /** The newest message, and how to append it again. */
  async function newestOfLedger() {
    const sequence = (await newestMessage(nats))?.sequence ?? 0;
    const message = await getMessage(nats, LEDGER_STREAM, sequence);
    if (message === undefined) throw new Error('LEDGER is empty');
    const { subject, data } = message;
    return {
      sequence,
      async append() {
        const writer = await openWriter(nats, { stream: LEDGER_STREAM });
        await writer.append({ id: 'again', subject, data, headers: { [VERSION_HEADER]: '1' } });
        writer.close();
      },
    };
  }

  /** Separate parts, whose data a test damages. */
  async function startOther() {
    const { path, remove } = temporaryDirectory();
    const damaged = await startParts(path, []);
    const client = await connectNats({ url: damaged.env.NATS_URL, name: 'test' });
    onTestFinished(async () => {
      await client.close();
      await damaged.stop();
      remove();
    });
    await ensureStreams(client, 1);
    return { path, damaged, client };
  }

  /** A projector that must end with code 0 by the end of the test. */
  async function startProjector(env: NodeJS.ProcessEnv = parts.env) {
    const projector = start('projector/main.ts', [], { ...env, METRICS_PORT: '0' });
    onTestFinished(async () => expect(await projector.stop()).toBe(0));
    const { port } = await projector.event('metrics');
    const asked = async (path: string) => (await fetch(`http://127.0.0.1:${port}/${path}`)).text();
    return { projector, asked, notReady: () => asked('readyz') };
  }

  function openStore(): Store {
    const url = parts.env.CLICKHOUSE_URL;
    const client = connectClickHouse({ url, database: 'fillstream', name: 'rules test' });
    onTestFinished(() => client.close());
    return new Store(client, partitionsOf(0, 1), { database: 'fillstream' });
  }

  /** Stores enough batches of another projector that ClickHouse forgets the earlier ones. */
  async function storeForeignBatches(firstBlock: number): Promise<void> {
    await parts.query(`INSERT INTO bookings (trader, block_number, partition, batch_id)
      SELECT 'x', ${firstBlock} + number, 255, number FROM numbers(10000)`);
  }
});
