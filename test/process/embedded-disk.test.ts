// The embedded ClickHouse on a separate disk that is filled and emptied. Mounting needs root on Linux; elsewhere this
// is skipped. chdb ignores writes that fail, so nothing may be written while the disk is full.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClickHouseClient, ClickHouseError } from '@clickhouse/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DISK_RESERVE_BYTES } from '../../infra/disk.ts';
import { mayMount, smallDisk } from '../support/damage.ts';
import { connect, startEngine, stopEngines } from '../support/stack.ts';

const DISK_MB = 400;
/** 24 bytes of noise a row. */
const ROWS = 3_000_000;
/** Merges a single part, too. */
const MERGE = 'OPTIMIZE TABLE noise FINAL SETTINGS optimize_throw_if_noop = 1';

describe.skipIf(!mayMount)('a full disk', () => {
  const root = mkdtempSync(join(tmpdir(), 'embedded-disk-'));
  let disk: ReturnType<typeof smallDisk>;
  let client: ClickHouseClient;

  beforeAll(async () => {
    disk = smallDisk(join(root, 'disk'), DISK_MB);
    const { serviceUrl: url } = await startEngine(join(root, 'disk', 'data'));
    client = connect({ url });
    await client.command({
      query: 'CREATE TABLE noise (a UInt64, b FixedString(16)) ENGINE = MergeTree ORDER BY a',
    });
    for (const seed of [1, 2]) {
      await client.command({
        query: `INSERT INTO noise SELECT rand64(${seed}), reinterpretAsFixedString(generateUUIDv4(${seed}))
          FROM numbers(${ROWS / 2})`,
      });
    }
  });

  afterAll(async () => {
    await client?.close();
    await stopEngines();
    disk?.remove();
    rmSync(root, { recursive: true, force: true });
  });

  test('accepts no insert and begins no merge that would use the reserve', async () => {
    disk.fill(DISK_RESERVE_BYTES + 2 ** 23);
    expect(await faultOf(MERGE)).toBe('CANNOT_ASSIGN_OPTIMIZE');
    disk.fill(DISK_RESERVE_BYTES / 2);
    expect(await faultOf('INSERT INTO noise (a) VALUES (1)')).toBe('NOT_ENOUGH_SPACE');
    disk.drain();
    expect(await faultOf('INSERT INTO noise (a) VALUES (1)')).toBe('');
  });

  test('stops a running merge when the disk fills, and merges again once there is room', async () => {
    const before = await sums();
    // So slow that no merge ends by itself.
    await compressWith('ZSTD(22)');
    for (let fault = ''; fault !== 'ABORTED'; ) {
      // It is rejected until the guard notices the free space.
      let hasEnded = false;
      const merge = faultOf(MERGE).finally(() => {
        hasEnded = true;
      });
      while (!hasEnded && !(await isMerging()));
      disk.fill(DISK_RESERVE_BYTES / 2);
      fault = await merge;
      disk.drain();
    }
    await compressWith('LZ4');
    while ((await faultOf(MERGE)) !== '');
    expect(await sums()).toEqual(before);
  });

  async function compressWith(codec: string): Promise<void> {
    await client.command({
      query: `ALTER TABLE noise MODIFY COLUMN b FixedString(16) CODEC(${codec})
        SETTINGS allow_suspicious_codecs = 1`,
    });
  }

  /** Type of the error; empty if there was none. */
  async function faultOf(query: string): Promise<string> {
    try {
      await client.command({ query });
      return '';
    } catch (error) {
      return error instanceof ClickHouseError ? String(error.type) : String(error);
    }
  }

  async function isMerging(): Promise<boolean> {
    const found = await client.query({
      query: "SELECT 1 FROM system.merges WHERE table = 'noise'",
      format: 'JSON',
    });
    return (await found.json()).data.length > 0;
  }

  async function sums(): Promise<unknown> {
    const found = await client.query({
      query: 'SELECT count(), sum(cityHash64(a)), sum(cityHash64(b)) FROM noise',
      format: 'JSON',
    });
    return (await found.json()).data;
  }
});
