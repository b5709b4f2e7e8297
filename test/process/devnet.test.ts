/**
 * The devnet on a real anvil: a seed gives the same chain, a chain outlives its processes, and trading
 * goes through the mempool.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { encodeFunctionData, type Hex, toEventSelector } from 'viem';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
} from '../../local/devnet/contracts.ts';
import { type Devnet, openDevnet } from '../../local/devnet/devnet.ts';
import { isV2, type Market } from '../../local/devnet/markets.ts';
import { Random } from '../../local/devnet/random.ts';
import { type Rpc, Sender, type Transaction, viewCall } from '../../local/devnet/rpc.ts';
import type { World } from '../../local/devnet/world.ts';
import { rpc } from '../support/service.ts';

const GENESIS = 1_790_000_000;

type Block = { readonly number: Hex; readonly hash: Hex; readonly transactions: readonly Hex[] };

const CONDITION_PREPARATION = toEventSelector(
  'ConditionPreparation(bytes32,address,bytes32,uint256)',
);

const isState = (name: string) => name.endsWith('.state');

const options = {
  rpcPort: 0,
  gammaPort: 0,
  seed: 5,
  traders: 60,
  historyDays: 2,
  historyMatches: 150,
  blockTimeSeconds: 0,
  matchesPerSecond: 0,
  now: () => GENESIS * 1000,
  report: () => {},
};

describe('openDevnet', () => {
  const directories: string[] = [];

  const newDirectory = () => {
    const directory = mkdtempSync(join(tmpdir(), 'devnet-'));
    directories.push(directory);
    return directory;
  };

  afterAll(() => {
    for (const directory of directories) rmSync(directory, { recursive: true, force: true });
  });

  test('writes the same history for the same seed and end', async () => {
    const chains: unknown[] = [];
    for (let i = 0; i < 2; i++) {
      const devnet = await openDevnet({ ...options, directory: newDirectory() });
      chains.push(await allLogs(devnet.chain.rpc));
      await devnet.close();
    }
    expect(chains[0]).toEqual(chains[1]);
    expect((chains[0] as unknown[]).length).toBeGreaterThan(1_000);
  });

  test('lists all markets of its history, including those that the contract has dropped', async () => {
    const many = { ...options, seed: 1, traders: 150, historyDays: 9, historyMatches: 1_400 };
    const now = () => 1_795_671_585_000;
    const devnet = await openDevnet({ ...many, now, directory: newDirectory() });
    const logs = await allLogs(devnet.chain.rpc);
    const prepared = logs.filter(({ topics: [topic] }) => topic === CONDITION_PREPARATION);
    const listed = [...devnet.world.listed.values()]
      .filter((market) => !isV2(market))
      .map(({ conditionId }) => conditionId);
    expect(prepared.map(({ topics }) => topics[1]).toSorted()).toEqual(listed.toSorted());
    // The contract keeps 512, in eight parts.
    const ids = await devnet.chain.rpc.batch<Hex>(
      prepared.map(({ topics: [, conditionId = '0x'] }) => {
        const call = { functionName: 'positionIds', args: [conditionId] } as const;
        const data = encodeFunctionData({ abi: conditionalTokensAbi, ...call });
        return viewCall(CONDITIONAL_TOKENS, data);
      }),
    );
    expect(ids.filter((answer) => BigInt(answer) === 0n).length).toBeGreaterThan(0);
    await devnet.close();
  });

  test('continues an existing chain, also after anvil was killed', async () => {
    const directory = newDirectory();
    const first = await openDevnet({ ...options, directory });
    const logs = await allLogs(first.chain.rpc);
    const block = await blockAndReceipts(first.chain.rpc);
    await first.close();

    const second = await openDevnet({ ...options, directory });
    expect(await allLogs(second.chain.rpc)).toEqual(logs);
    expect(await blockAndReceipts(second.chain.rpc)).toEqual(block);
    expect(second.world.unresolved.length).toBeGreaterThan(10);
    process.kill(second.chain.pid, 'SIGKILL');
    expect(await second.ended).toMatch(/anvil ended/);
    await second.close();

    const third = await openDevnet({ ...options, directory });
    expect(await allLogs(third.chain.rpc)).toEqual(logs);
    await third.close();
  });

  test('drops old blocks, and continues the same chain from a state', async () => {
    const directory = newDirectory();
    const given = {
      ...{ ...options, directory, now: Date.now },
      dropping: { keepBlocks: 10, segmentBlocks: 1, stored: () => Number.POSITIVE_INFINITY },
    };
    const first = await openDevnet(given);
    const { rpc } = first.chain;
    const base = Number(await rpc.call<Hex>('eth_blockNumber'));
    const hasStates = () => readdirSync(join(directory, 'chain')).filter(isState).length >= 2;
    while (!hasStates()) {
      const transfer = { from: DEPLOYER, to: DEPLOYER, data: '0x' } as const;
      await new Sender(rpc).send([transfer]);
      await rpc.call('evm_mine');
      await first.record();
    }
    for (let i = 0; i < 30; i++) await rpc.call('evm_mine');
    await first.record();
    const dropped = await rpc.call<Block>('eth_getBlockByNumber', `0x${base.toString(16)}`, false);
    expect(dropped.transactions).toEqual([]);
    const latest = await rpc.call<Block>('eth_getBlockByNumber', 'latest', false);
    const cash = first.world.traders.map(({ address }) => first.world.holdings.cash(address));
    await first.close();
    expect(existsSync(join(directory, 'chain', '0.blocks'))).toBe(false);

    const second = await openDevnet(given);
    const again = await second.chain.rpc.call<Block>('eth_getBlockByNumber', latest.number, false);
    expect(again).toEqual(latest);
    expect(second.world.unresolved.map(({ slug }) => slug).sort()).toEqual(
      first.world.unresolved.map(({ slug }) => slug).sort(),
    );
    expect(second.world.traders.map(({ address }) => second.world.holdings.cash(address))).toEqual(
      cash,
    );
    await second.close();
  });

  test('keeps every block that is not in LEDGER, and continues to mine when it is', async () => {
    const reports: string[] = [];
    let stored = 0;
    const given = {
      ...{ ...options, directory: newDirectory(), now: Date.now, historyMatches: 5 },
      blockTimeSeconds: 0.02,
      dropping: { keepBlocks: 50, segmentBlocks: 5, stored: () => stored },
      report: (line: Readonly<Record<string, unknown>>) => reports.push(String(line.event)),
    };
    let devnet = await openDevnet(given);
    const head = async () => Number(await devnet.chain.rpc.call<Hex>('eth_blockNumber'));
    const first = (await head()) + 1;
    const listing = devnet.world.list([unlistedOf(devnet)]);
    const [sent] = await new Sender(devnet.chain.rpc).send(listing);
    const receipt = () => devnet.chain.rpc.call('eth_getTransactionReceipt', sent);
    await expect.poll(receipt).not.toBeNull();
    const isHeld = async () => reports.at(-1) === 'not-mining' || (await head()) > first + 200;
    await expect.poll(isHeld).toBe(true);
    expect(await receipt()).not.toBeNull();
    await devnet.close();
    devnet = await openDevnet(given);
    expect(await receipt()).not.toBeNull();
    const held = await head();
    stored = held;
    await expect.poll(head).toBeGreaterThan(held + 5);
    await devnet.close();
  });

  test('keeps the account states of only a few blocks while it mines every second', async () => {
    const directory = newDirectory();
    const given = { ...options, directory, historyMatches: 5, blockTimeSeconds: 1 };
    const devnet = await openDevnet(given);
    const { rpc } = devnet.chain;
    for (let block = 0; block < 40; block++) await rpc.call('evm_mine');
    const head = Number(await rpc.call<Hex>('eth_blockNumber'));
    const balanceAt = (block: number) =>
      rpc.call('eth_getBalance', DEPLOYER, `0x${block.toString(16)}`);
    // Only a few blocks behind, because blocks are mined meanwhile.
    await balanceAt(head - 1);
    await expect(balanceAt(head - 30)).rejects.toThrow();
    await devnet.close();
  });

  test('closes while its first block is being mined', async () => {
    const given = {
      ...options,
      directory: newDirectory(),
      historyMatches: 10,
      blockTimeSeconds: 1,
    };
    const devnet = await openDevnet(given);
    await devnet.close();
    expect(await devnet.ended).toMatch(/stopped|anvil ended/);
  });

  test('keeps the hash of the first block over many starts', async () => {
    const directory = newDirectory();
    const hashes = new Set<string>();
    for (let start = 0; start < 6; start++) {
      const { chain, close } = await openDevnet({ ...options, directory, historyMatches: 5 });
      await chain.rpc.call('evm_mine');
      const block = await chain.rpc.call<{ hash: Hex }>('eth_getBlockByNumber', '0x0', false);
      hashes.add(block.hash);
      await close();
    }
    expect(hashes.size).toBe(1);
  });

  test('splits and merges as its books say, also after a restart', async () => {
    const directory = newDirectory();
    const devnet = await openDevnet({ ...options, directory });
    const { world, chain } = devnet;
    const random = new Random('split');
    const sent = Array.from({ length: 80 }, () => world.splitOrMerge(random, GENESIS) ?? []).flat();
    expect(new Set(sent.map(({ data }) => data.slice(0, 10))).size).toBe(2);
    const hashes = await new Sender(chain.rpc).send(sent);
    await chain.rpc.call('evm_mine');
    for (const hash of hashes) {
      const receipt = await chain.rpc.call<{ status: Hex }>('eth_getTransactionReceipt', hash);
      expect(receipt.status).toBe('0x1');
    }
    const booked = booksOf(world);
    await devnet.close();
    const second = await openDevnet({ ...options, directory });
    expect(booksOf(second.world)).toEqual(booked);
    await second.close();
  });

  test('trades markets and combos of protocol version 2 as its books say, until they are paid', async () => {
    const directory = newDirectory();
    const devnet = await openDevnet({ ...options, directory });
    const { world } = devnet;
    const v2 = world.calendar.between(GENESIS, GENESIS).filter(isV2);
    const matches = Array.from({ length: 10 }, (_, round) =>
      v2.flatMap((market) => world.match(market, GENESIS * 1000 + round) ?? []),
    ).flat();
    expect(matches.filter(({ match }) => match.market.legs !== undefined).length).toBeGreaterThan(
      20,
    );
    const expectSent = async (
      devnet: Devnet,
      transactions: readonly Transaction[],
      time: number,
    ) => {
      const sender = new Sender(devnet.chain.rpc);
      const hashes = await sender.send(transactions);
      await sender.mine(time);
      for (const hash of hashes) {
        const receipt = await devnet.chain.rpc.call<{ status: Hex }>(
          'eth_getTransactionReceipt',
          hash,
        );
        expect(receipt.status).toBe('0x1');
      }
      await devnet.record();
    };
    await expectSent(
      devnet,
      matches.map(({ transaction }) => transaction),
      GENESIS + 1,
    );
    const traded = booksOf(world);
    await devnet.close();

    const second = await openDevnet({ ...options, directory });
    expect(booksOf(second.world)).toEqual(traded);
    const end = Math.max(...v2.map(({ resolveTime }) => resolveTime));
    await expectSent(second, second.world.resolve(end), end);
    const paid = booksOf(second.world);
    expect(paid.cash).not.toEqual(traded.cash);
    await second.close();

    const third = await openDevnet({ ...options, directory });
    expect(booksOf(third.world)).toEqual(paid);
    expect(v2.filter(({ conditionId }) => !third.world.resolved.has(conditionId))).toEqual([]);
    await third.close();
  });

  test('trades through the mempool without unplanned reverts', async () => {
    const reports: Readonly<Record<string, unknown>>[] = [];
    const devnet = await openDevnet({
      ...options,
      directory: newDirectory(),
      now: Date.now,
      blockTimeSeconds: 1,
      matchesPerSecond: 60,
      report: (line) => reports.push(line),
    });
    const { rpc } = devnet.chain;
    const before = Number(await rpc.call<Hex>('eth_blockNumber'));
    const isPending = async () =>
      Number((await rpc.call<{ pending: Hex }>('txpool_status')).pending) > 0;
    const isLater = async () => Number(await rpc.call<Hex>('eth_blockNumber')) >= before + 5;
    await expect.poll(isPending, { interval: 50 }).toBe(true);
    await expect.poll(isLater).toBe(true);
    await devnet.close();
    expect(reports.filter((line) => line.event === 'unexpected-revert')).toEqual([]);
  });
});

describe('the chain for all other clients', () => {
  const directory = mkdtempSync(join(tmpdir(), 'devnet-'));
  const call = (method: string) => ({ jsonrpc: '2.0', id: 1, method, params: [] });
  let devnet: Devnet;

  beforeAll(async () => {
    devnet = await openDevnet({ ...options, directory, historyMatches: 5 });
  });

  afterAll(async () => {
    await devnet.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const head = () => rpc<Hex>(devnet.chain.url, 'eth_blockNumber', []);

  test.each([
    ...['anvil_reset', 'anvil_setBalance', 'anvil_impersonateAccount', 'evm_mine', 'evm_snapshot'],
    ...[
      'eth_sendTransaction',
      'eth_sign',
      'hardhat_reset',
      'debug_traceTransaction',
      'constructor',
    ],
  ])('does not do %s, alone or in a batch', async (method) => {
    const before = await head();
    await expect(rpc(devnet.chain.url, method, [])).rejects.toThrow('for the devnet itself');
    const body = JSON.stringify([call('eth_chainId'), call(method)]);
    const headers = { 'content-type': 'application/json' };
    const batch = await fetch(devnet.chain.url, { method: 'POST', headers, body });
    expect(await batch.text()).toContain('for the devnet itself');
    expect(await head()).toBe(before);
  });

  test('accepts a signed transaction and refuses an unsigned one', async () => {
    const sent = rpc(devnet.chain.url, 'eth_sendRawTransaction', ['0x02']);
    await expect(sent).rejects.toThrow(/decode/i);
  });

  test('pushes to a WebSocket, which may not mine', async () => {
    const socket = new WebSocket(devnet.chain.webSocketUrl);
    await once(socket, 'open');
    const next = async () => JSON.parse((await once(socket, 'message'))[0].data);
    socket.send(JSON.stringify(call('evm_mine')));
    expect((await next()).error.message).toContain('for the devnet itself');
    socket.send(JSON.stringify({ ...call('eth_subscribe'), params: ['newHeads'] }));
    const { result } = await next();
    // The head may be pushed before the call that mined it returns.
    const pushed = next();
    await devnet.chain.rpc.call('evm_mine');
    expect((await pushed).params.subscription).toBe(result);
    socket.close();
  });

  test.each([
    ['a page of another site', { Origin: 'https://evil.example' }],
    ['a page without an origin', { Origin: 'null' }],
    ['a name that was rebound to loopback', { Host: 'evil.example' }],
  ])('does not respond to %s', async (_, foreign) => {
    const headers = { 'content-type': 'text/plain', ...foreign };
    const post = request(devnet.chain.url, { method: 'POST', headers });
    post.end(JSON.stringify(call('eth_chainId')));
    const [response] = await once(post, 'response');
    response.resume();
    expect(response.statusCode).toBe(403);
    expect(response.headers['access-control-allow-origin']).toBeUndefined();
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' };
    const key = { 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' };
    const socket = request(devnet.chain.url, { headers: { ...foreign, ...upgrade, ...key } }).end();
    const [answer] = await Promise.race([once(socket, 'response'), once(socket, 'upgrade')]);
    answer.socket.destroy();
    expect(answer.statusCode).toBe(403);
  });
});

describe('the devnet process', () => {
  const directory = mkdtempSync(join(tmpdir(), 'devnet-'));
  const pidOfAnvil = () => Number(readFileSync(join(directory, 'chain.json.pid'), 'utf8'));

  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test('stops everything that it started, and continues the same chain', async () => {
    const first = await startProcess(directory);
    const head = await blockNumber(first.rpcUrl);
    const anvil = pidOfAnvil();
    first.child.kill('SIGTERM');
    expect(await first.exitCode).toBe(0);
    expect(isAlive(anvil)).toBe(false);

    const second = await startProcess(directory);
    expect(await blockNumber(second.rpcUrl)).toBeGreaterThanOrEqual(head);
    second.child.disconnect();
    expect(await second.exitCode).toBe(0);
  });

  test('loses no final block when anvil and the devnet are killed at once', async () => {
    let final: Block | undefined;
    for (let kill = 0; kill < 3; kill++) {
      const { child, rpcUrl, exitCode } = await startProcess(directory, ['--demo-rate', '20']);
      const blockAt = (at: string) => rpc<Block>(rpcUrl, 'eth_getBlockByNumber', [at, false]);
      if (final !== undefined) expect((await blockAt(final.number))?.hash).toBe(final.hash);
      const first = Number((await blockAt('finalized')).number);
      const isLater = async () => Number((await blockAt('finalized')).number) >= first + 2;
      await expect.poll(isLater).toBe(true);
      final = await blockAt('finalized');
      process.kill(pidOfAnvil(), 'SIGKILL');
      child.kill('SIGKILL');
      await exitCode;
    }
  });

  test('leaves no anvil behind when it is killed, and exits when anvil is killed', async () => {
    const first = await startProcess(directory);
    const anvil = pidOfAnvil();
    first.child.kill('SIGKILL');
    await first.exitCode;
    await expect.poll(() => isAlive(anvil)).toBe(false);

    const second = await startProcess(directory);
    process.kill(pidOfAnvil(), 'SIGKILL');
    expect(await second.exitCode).toBe(1);
  });
});

/** A market that the chain does not have yet. */
function unlistedOf({ world }: Devnet): Market {
  const later = world.calendar.between(GENESIS + 90 * 86_400, GENESIS + 90 * 86_400);
  const market = later.find(({ conditionId }) => !world.listed.has(conditionId));
  if (market === undefined) throw new RangeError('the calendar has later markets');
  return market;
}

type DevnetProcess = {
  readonly child: ChildProcess;
  readonly rpcUrl: string;
  readonly exitCode: Promise<number | null>;
};

/** Runs main.ts until it reports that it is ready. */
async function startProcess(
  directory: string,
  args: readonly string[] = [],
): Promise<DevnetProcess> {
  const entry = new URL('../../local/devnet/main.ts', import.meta.url);
  const size = ['--history-matches', '40', '--history-days', '1', '--traders', '60'];
  const child = fork(entry, ['--data', directory, ...size, '--block-time', '1', ...args], {
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
  });
  const exitCode = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => resolve(code));
  });
  if (child.stdout === null) throw new TypeError('stdout is a pipe');
  for await (const line of createInterface({ input: child.stdout })) {
    const message = JSON.parse(line) as { readonly event: string; readonly rpc_url: string };
    if (message.event === 'ready') return { child, rpcUrl: message.rpc_url, exitCode };
  }
  throw new Error(`the devnet ended before it was ready: exit code ${await exitCode}`);
}

async function blockNumber(url: string): Promise<number> {
  return Number(await rpc<Hex>(url, 'eth_blockNumber', []));
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Money and shares in open markets of all wallets. */
function booksOf({ traders, unresolved, holdings }: World) {
  const shares = unresolved.flatMap((market) =>
    ([0, 1] as const).flatMap((outcome) =>
      holdings
        .holders(market, outcome)
        .map(
          (owner) => `${market.key} ${outcome} ${owner} ${holdings.shares(market, outcome, owner)}`,
        ),
    ),
  );
  return { cash: traders.map(({ address }) => holdings.cash(address)), shares: shares.sort() };
}

async function allLogs(rpc: Rpc): Promise<readonly { readonly topics: readonly Hex[] }[]> {
  return rpc.call('eth_getLogs', { fromBlock: '0x0', toBlock: 'latest' });
}

async function blockAndReceipts(rpc: Rpc): Promise<unknown> {
  return Promise.all([
    rpc.call('eth_getBlockByNumber', '0x5', true),
    rpc.call('eth_getBlockReceipts', '0x5'),
  ]);
}
