import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectNats, type Nats, streamState } from '../../infra/nats/connection.ts';
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
} from '../../ingest/ledger/ledger.ts';
import {
  LedgerFencedError,
  LedgerWriter,
  refuseHalfRewound,
  settleStart,
} from '../../ingest/ledger/ledger-writer.ts';
import { ensureStreams, INGEST_BUCKET } from '../../ingest/streams.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { planRewind, rewind } from '../../ops/rewind.ts';
import { blockHash, blocksOf, ledgerEvents } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { temporaryDirectory } from '../support/service.ts';

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

describe('messageAt', () => {
  test('finds the message of every block, and of no other', async () => {
    await fill();
    for (const { number, hash } of BLOCKS) {
      const message = await messageAt(nats, number);
      expect(message?.range.blocks.find((block) => block.number === number)?.hash).toBe(hash);
    }
    for (const number of [-1, 0, LAST + 1]) expect(await messageAt(nats, number)).toBeUndefined();
  });

  test('tolerates deleted messages, also at the end', async () => {
    await fill();
    const { lastSequence } = await streamState(nats, LEDGER_STREAM);
    const first = (await messageAt(nats, 1))?.sequence ?? 0;
    const holes = [first, first + 3, first + 4, first + 5, lastSequence - 1, lastSequence];
    const left: number[] = [];
    for await (const { sequence, range } of storedMessages(nats, { sequence: 1 })) {
      if (range.kind !== 'blocks' || holes.includes(sequence)) continue;
      left.push(...range.blocks.map(({ number }) => number));
    }
    await removeMessages(nats, LEDGER_STREAM, holes);
    for (const { number } of BLOCKS) {
      expect((await messageAt(nats, number)) !== undefined).toBe(left.includes(number));
    }
    expect((await newestMessage(nats))?.range.to).toBe(left.at(-1));
  });
});

test('if there are two writers, the slower one stops, and its message is not stored', async () => {
  const [one, other] = [await LedgerWriter.open(nats), await LedgerWriter.open(nats)];
  const head = (number: number) => ({
    number,
    hash: blockHash(number),
    parentHash: blockHash(number - 1),
    timestamp: number,
  });
  const add = async (writer: LedgerWriter, number: number) => {
    await writer.add({ head: head(number), facts: undefined });
    await writer.flush();
  };
  await add(one, 1);
  await expect(add(other, 1)).rejects.toThrow(LedgerFencedError);
  await add(one, 2);
  expect((await storedBlocks()).map(({ number }) => number)).toEqual([1, 2]);
  one.close();
  other.close();
});

describe('the first block', () => {
  const settle = (startBlock?: number, insists = false) =>
    settleStart(nats, kv, { startBlock, insists });

  test('of an empty LEDGER is the given one, else that of an earlier start', async () => {
    expect(await settle()).toBe(0);
    expect(await settle(7)).toBe(7);
    expect(await settle(9, true)).toBe(9);
    expect(await settle()).toBe(9);
    await fill();
    expect(await settle(7)).toBe(9);
    await expect(settle(7, true)).rejects.toThrow('LEDGER begins with block 9');
  });
});

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

  test.each([1, 2, 3, 4, 5, 6, 12, LAST - 1, LAST])('ends LEDGER with block %i', async (block) => {
    await fill();
    const plan = await planRewind(nats, block);
    expect(plan.keeps.number).toBe(block);
    await rewind(nats, kv, plan);
    await expectEnd(block);
  });

  test('to a block whose hash LEDGER does not hold goes to the one before it', async () => {
    await fill(BLOCKS.filter(({ number }) => number !== 7 && number !== 8));
    expect((await planRewind(nats, 8)).keeps.number).toBe(6);
  });

  test('is refused if another process has written since it was planned, and removes nothing', async () => {
    await fill(BLOCKS.slice(0, -1));
    const plan = await planRewind(nats, 5);
    await fillAfter(LAST - 1);
    await expect(rewind(nats, kv, plan)).rejects.toThrow('another process is writing LEDGER');
    expect(await storedBlocks()).toEqual(BLOCKS);
    await expect(refuseHalfRewound(kv)).resolves.toBeUndefined();
  });

  test('is refused if LEDGER has no block', async () => {
    await expect(planRewind(nats, 5)).rejects.toThrow('LEDGER has no block up to 5');
    await fill(BLOCKS.slice(3));
    await expect(planRewind(nats, 3)).rejects.toThrow('LEDGER has no block up to 3');
  });

  test('that was interrupted anywhere is completed by being run again', async () => {
    const block = 5;
    // Interrupted between deletions; after the message was stored again; before the flag was
    // cleared.
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

test('a LEDGER of version 0.1 is refused with a remedy', async () => {
  await nats.js.publish('ledger.block.0.0', '{"kind":"block","blockNumber":1}');
  await expect(newestMessage(nats)).rejects.toThrow(
    /Data of version 0\.1 cannot be read: .* empty/,
  );
});
