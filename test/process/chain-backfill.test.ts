import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import { decodeObservation, METADATA_STREAM } from '../../ingest/contract.ts';
import { ORDERS_MATCHED } from '../../ingest/events/match.ts';
import { eventsOf } from '../../ingest/ledger/ledger.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import type { Fact } from '../release/faults/chain-facts.ts';
import { isLogged, placeOf, storedFacts } from '../support/chain-facts.ts';
import {
  blocksWithMovements,
  factsOfLedger,
  type Misbehave,
  type StillDevnet,
  startEndpoint,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { type JsonLine, rpc, start, temporaryDirectory, until } from '../support/service.ts';

const directory = temporaryDirectory();
let devnet: StillDevnet;
let last: number;
let chain: readonly Fact[];
let expected: readonly string[];

beforeAll(async () => {
  devnet = await startStillDevnet(`${directory.path}/devnet`, 250);
  // Long stretches without facts: ranges of many empty blocks.
  await devnet.call('anvil_mine', '0x200');
  last = await devnet.number('finalized');
  chain = await storedFacts(devnet.url, last);
  expected = chain.map(placeOf);
});

afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

/** A LEDGER of its own, and ingest on it as a process. */
async function withLedger(
  name: string,
  work: (given: {
    nats: Nats;
    ingest: (args: string, env?: Record<string, string>) => ReturnType<typeof start>;
  }) => Promise<void>,
) {
  const server = await startNatsServer({ dataDir: `${directory.path}/${name}` });
  const nats = await connectNats({ url: server.url, name: 'test' });
  try {
    const env = { ...devnet.env, NATS_URL: server.url };
    await work({
      nats,
      ingest: (args, more = {}) =>
        start('ingest/main.ts', args.split(' '), { ...env, LOG_LEVEL: 'warn', ...more }),
    });
  } finally {
    await nats.close();
    await server.stop();
  }
}

async function expectWhole(nats: Nats, from = 0): Promise<void> {
  const { facts, blocks } = await factsOfLedger(nats);
  expect(facts).toEqual(expected.filter((place) => Number(place.split(':')[0]) >= from));
  const numbers = blocks.map(({ number }) => number);
  expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
  expect(numbers.at(-1)).toBe(last);
  for (const { number, hash } of blocks.filter((_, i) => i % 7 === 0)) {
    const params = [`0x${number.toString(16)}`, false];
    const block = await rpc<JsonLine>(devnet.url, 'eth_getBlockByNumber', params);
    expect(block.hash).toBe(hash);
  }
}

/** METADATA has a balance of every trader of LEDGER. */
async function expectBalances(nats: Nats): Promise<void> {
  const read = new Set<string>();
  for await (const { data } of storedSince(nats, METADATA_STREAM, { sequence: 1 })) {
    const { event } = decodeObservation(data);
    if (event.kind === 'balances') for (const [trader] of event.balances) read.add(trader);
  }
  const matches = eventsOf('matches', (await factsOfLedger(nats)).blocks);
  const traders = matches.flatMap(({ fills }) => fills.map(({ trader }) => trader));
  expect([...read].toSorted()).toEqual([...new Set(traders)].toSorted());
}

describe('backfill', () => {
  test('exits after --to-block with code 0 and continues in another run; LEDGER has the chain in its order', async () => {
    await withLedger('plain', async ({ nats, ingest }) => {
      expect(await ingest(`backfill --from-block 0 --to-block ${last - 530}`).exit).toBe(0);
      const { blocks } = await factsOfLedger(nats);
      expect(blocks.at(-1)?.number).toBe(last - 530);
      expect(await ingest(`backfill --from-block 0 --to-block ${last}`).exit).toBe(0);
      await expectWhole(nats);
      await expectBalances(nats);
    });
  });

  test('with movements, has the same ones in two runs as in one', async () => {
    await withLedger('movements', async ({ nats, ingest }) => {
      const on = { MOVEMENTS: 'on' };
      for (const to of [last - 530, last]) {
        const { exit, errors } = ingest(`backfill --from-block 0 --to-block ${to}`, on);
        expect(await exit, errors()).toBe(0);
      }
      const { blocks } = await factsOfLedger(nats);
      expect(blocks.every(({ coversMovements }) => coversMovements)).toBe(true);
      const stored = blocks.filter(({ events }) => events.length > 0);
      const read = await blocksWithMovements(devnet.url, last);
      expect(stored.map(({ number, events }) => ({ number, events }))).toEqual(
        read.filter(({ events }) => events.length > 0),
      );
      expect(eventsOf('movements', stored).length).toBeGreaterThan(50);
    });
  });

  test('begins at any block: earlier resolutions come first, and no block can be inserted before it', async () => {
    const from = Number(expected[Math.floor(expected.length / 2)]?.split(':')[0]);
    await withLedger('middle', async ({ nats, ingest }) => {
      const first = ingest(`backfill --from-block ${from} --to-block ${last}`);
      expect(await first.exit, first.errors()).toBe(0);
      const { facts, ranges, earlier: found } = await factsOfLedger(nats);
      const earlier = facts.filter((place) => Number(place.split(':')[0]) < from);
      expect(found.facts).toBe(earlier.length);
      expect(ranges[0]?.from).toBe(from);
      expect(earlier.length).toBeGreaterThan(0);
      const results = chain.filter(({ kind, block }) => kind === 'resolution' && block < from);
      expect(results.every(isLogged)).toBe(false);
      expect(facts.slice(0, earlier.length)).toEqual(results.map(placeOf));
      expect(facts.slice(earlier.length)).toEqual(
        expected.filter((place) => Number(place.split(':')[0]) >= from),
      );
      const before = ingest(`backfill --from-block ${from - 1}`);
      expect(await before.exit).toBe(1);
      expect(before.errors()).toContain(`LEDGER begins with block ${from} and ends with`);
      const gap = ingest(`backfill --from-block ${last + 2}`);
      expect(await gap.exit).toBe(1);
      expect(gap.errors()).toContain('LEDGER must not have gaps');
    });
  });

  test('continues where LEDGER ends after a kill during the read of earlier resolutions', async () => {
    const from = last - 20;
    const results = chain.filter(({ kind, block }) => kind === 'resolution' && block < from);
    const resolved = results.map(({ block }) => block);
    const stop = resolved[resolved.length >> 1] ?? 0;
    const searched: number[] = [];
    /** Records where ingest searches for earlier resolutions, and rejects searches before a block. */
    const looking = (behind: number): Misbehave => {
      return (calls, replies) => {
        const { fromBlock = '0x0', topics = [] } = (calls[0]?.params[0] ?? {}) as LogSearch;
        // Other searches ask for matches, too.
        const isSearch =
          calls[0]?.method === 'eth_getLogs' && topics[0]?.includes(ORDERS_MATCHED) === false;
        if (!isSearch) return undefined;
        if (Number(fromBlock) > behind) return { status: 429, text: '' };
        searched.push(Number(fromBlock));
        return limitRange(20)(calls, replies);
      };
    };
    const args = `backfill --from-block ${from} --to-block ${last} --resolutions-from-block 0`;
    const [stopping, going] = [
      await startEndpoint(devnet.url, looking(stop)),
      await startEndpoint(devnet.url, looking(last)),
    ];
    try {
      await withLedger('prelude', async ({ nats, ingest }) => {
        const first = ingest(args, { RPC_URL: stopping.url });
        await until(async () => (searched.some((block) => block + 20 > stop) ? true : undefined));
        await until(async () => ((await factsOfLedger(nats)).facts.length > 0 ? true : undefined));
        first.kill('SIGKILL');
        await first.exit;
        const { earlier } = await factsOfLedger(nats);
        searched.splice(0);
        const second = ingest(args, { RPC_URL: going.url });
        expect(await second.exit, second.errors()).toBe(0);
        expect(Math.min(...searched)).toBe(earlier.to + 1);
        const { facts: whole, ranges, earlier: found } = await factsOfLedger(nats);
        expect(found.facts).toBe(resolved.length);
        expect(ranges[0]?.from).toBe(from);
        expect(whole.slice(0, resolved.length).map((place) => Number(place.split(':')[0]))).toEqual(
          resolved,
        );
      });
    } finally {
      await Promise.all([stopping.close(), going.close()]);
    }
  });

  test('a node that accepts few blocks or few results at a time gets smaller requests', async () => {
    const narrow = await startEndpoint(devnet.url, limitRange(30));
    try {
      await withLedger('narrow', async ({ nats, ingest }) => {
        const env = { RPC_URL: narrow.url };
        expect(await ingest(`backfill --from-block 0 --to-block ${last}`, env).exit).toBe(0);
        await expectWhole(nats);
      });
    } finally {
      await narrow.close();
    }
  });

  test('a node of another chain ends it with an error that names it; an unknown chain reports which settings it needs', async () => {
    await withLedger('wrong', async ({ ingest }) => {
      const wrong = ingest('backfill --from-block 0', { CHAIN: 'polygon', LOG_LEVEL: 'error' });
      expect(await wrong.exit).toBe(1);
      expect(JSON.stringify(wrong.lines)).toMatch(/belongs to chain 31337, not 137/);
      const amoy = ingest('backfill --from-block 0', { CHAIN: 'amoy' });
      expect(await amoy.exit).toBe(1);
      expect(amoy.errors()).toContain('EXCHANGES, CONDITIONAL_TOKENS, COLLATERAL missing');
    });
  });
});

type LogSearch = { readonly fromBlock?: string; readonly topics?: readonly (readonly string[])[] };

/** Rejects searches over more blocks, as public nodes do. */
function limitRange(blocks: number): Misbehave {
  return (calls, replies) => {
    const [call] = calls;
    const filter = call?.params[0] as { fromBlock?: string; toBlock?: string } | undefined;
    const asked = Number(filter?.toBlock) - Number(filter?.fromBlock) + 1;
    if (call?.method !== 'eth_getLogs' || !(asked > blocks)) return undefined;
    return replies.map(({ id }) => ({ id, error: { code: -32005, message: 'too many' } }));
  };
}
