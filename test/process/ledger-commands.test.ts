// Rewinds of LEDGER that are interrupted or disturbed, and the command that shows it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startNatsServer } from '../../infra/local/nats-server.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { type Kv, openKv } from '../../infra/nats/kv.ts';
import { removeMessages } from '../../infra/nats/streams.ts';
import {
  type Block,
  emptyBlock,
  encodeRange,
  LEDGER_STREAM,
  messageAt,
  newestMessage,
  storedMessages,
} from '../../ingest/ledger.ts';
import { LedgerWriter } from '../../ingest/ledger-writer.ts';
import { planRewind, refuseHalfRewound, rewind } from '../../ingest/rewind.ts';
import { ensureStreams, INGEST_BUCKET } from '../../ingest/streams.ts';
import { blockHash, blocksOf, ledgerEvents } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { temporaryDirectory } from '../support/service.ts';

const run = promisify(execFile);
const BLOCKS = [
  ...blocksOf(
    ledgerEvents({
      seed: 5,
      traders: 20,
      markets: 8,
      from: 1_780_000_000,
      to: 1_780_000_100,
      matches: 300,
      matchesPerMarket: 20,
    }),
  ),
];
const LAST = BLOCKS.at(-1)?.number ?? 0;

const directory = temporaryDirectory();
let server: Awaited<ReturnType<typeof startNatsServer>>;
let nats: Nats;
let kv: Kv;

beforeAll(async () => {
  server = await startNatsServer({ dataDir: directory.path });
  nats = await connectNats({ url: server.url, name: 'test' });
  await ensureStreams(nats, 1);
  kv = await openKv(nats, INGEST_BUCKET);
});

afterAll(async () => {
  await nats?.close();
  await server?.stop();
  directory.remove();
});

beforeEach(async () => {
  await nats.jsm.streams.purge(LEDGER_STREAM);
});

/** Earlier resolutions, then the blocks in messages of 1, 2, 3, 1, 2, 3 … of them. */
async function fill(blocks: readonly Block[] = BLOCKS): Promise<void> {
  const writer = await LedgerWriter.open(nats);
  const old = emptyBlock({ number: 0, hash: blockHash(0), time: 1 });
  await writer.store(
    0,
    encodeRange({ kind: 'earlier-resolutions', from: 0, to: 0, blocks: [old] }),
  );
  writer.close();
  const ledger = await TestLedger.open(nats);
  for (let [i, size] = [0, 1]; i < blocks.length; [i, size] = [i + size, (size % 3) + 1]) {
    await ledger.publish(blocks.slice(i, i + size));
  }
  ledger.close();
}

async function storedBlocks(): Promise<readonly Block[]> {
  const blocks: Block[] = [];
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    if (range.kind === 'blocks') blocks.push(...range.blocks);
  }
  return blocks;
}

describe('a rewind', () => {
  const expectEnd = async (block: number) => {
    expect(await storedBlocks()).toEqual(BLOCKS.filter(({ number }) => number <= block));
    const newest = await newestMessage(nats);
    expect(newest?.range.to).toBe(block);
    await expect(refuseHalfRewound(kv)).resolves.toBeUndefined();
    // Messages stored after it are found by subject again.
    await fillAfter(block);
  };
  const fillAfter = async (block: number) => {
    const ledger = await TestLedger.open(nats);
    await ledger.publish(BLOCKS.filter(({ number }) => number > block));
    ledger.close();
    expect(await storedBlocks()).toEqual(BLOCKS);
    expect((await newestMessage(nats))?.range.to).toBe(LAST);
  };

  test('that was interrupted anywhere is completed by being run again', async () => {
    const block = 5;
    // Interrupted between deletions; after the message was stored again; after all but the flag.
    for (const step of ['deleting', 'stored again', 'replaced'] as const) {
      await nats.jsm.streams.purge(LEDGER_STREAM);
      await fill();
      const plan = await planRewind(nats, block);
      await kv.put('rewind', String(block));
      const { sequences, message } = plan;
      await removeMessages(
        nats,
        LEDGER_STREAM,
        step === 'deleting' ? sequences.slice(-3) : sequences,
      );
      if (step !== 'deleting') {
        const writer = await LedgerWriter.open(nats);
        const blocks = message.range.blocks.filter(({ number }) => number <= block);
        await writer.store(block, encodeRange({ ...message.range, to: block, blocks }));
        writer.close();
      }
      if (step === 'replaced') await removeMessages(nats, LEDGER_STREAM, [message.sequence]);
      await expect(refuseHalfRewound(kv)).rejects.toThrow('a rewind was interrupted');
      await rewind(nats, kv, await planRewind(nats, block));
      await expectEnd(block);
    }
  });

  test('fails if another process writes while messages are removed, and is completed by being run again', async () => {
    await fill(BLOCKS.slice(0, -1));
    const foreign = await TestLedger.open(nats);
    const late: Kv = {
      ...kv,
      // Set just before messages are removed.
      async put(key, value) {
        await foreign.publish(BLOCKS.slice(-1));
        return await kv.put(key, value);
      },
    };
    const message = 'another process wrote LEDGER during the rewind';
    await expect(rewind(nats, late, await planRewind(nats, 5))).rejects.toThrow(message);
    foreign.close();
    await expect(refuseHalfRewound(kv)).rejects.toThrow('a rewind was interrupted');
    await rewind(nats, kv, await planRewind(nats, 5));
    await expectEnd(5);
  });
});

test('npm run ledger -- show prints a block', async () => {
  await fill();
  const show = (...args: string[]) =>
    run(process.execPath, ['ingest/main.ts', 'ledger', ...args], {
      env: { ...process.env, NATS_URL: server.url },
    });
  const { message, block } = JSON.parse((await show('show', '5')).stdout);
  expect(message.sequence).toBe((await messageAt(nats, 5))?.sequence);
  expect(block.hash).toBe(blockHash(5));
  await expect(show('show', String(LAST + 1))).rejects.toMatchObject({
    code: 1,
    stderr: `ledger: LEDGER does not hold block ${LAST + 1}\n`,
  });
  await expect(show('shown')).rejects.toMatchObject({ code: 2 });
});
