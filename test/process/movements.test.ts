/**
 * Wallets split, merge and send shares on a devnet that trades, while ingest and projector are killed. Afterwards every balance is
 * that of the chain, and every movement is known once. MOVES and KILLS set the size.
 */
import {
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  numberToHex,
  pad,
  parseAbi,
} from 'viem';
import { expect, test } from 'vitest';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { CONDITIONAL_TOKENS, conditionalTokensAbi, PUSD } from '../../local/devnet/contracts.ts';
import { sizes } from '../release/faults/run.ts';
import {
  blocksWithMovements,
  CHAIN,
  type StillDevnet,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { generator, SEED } from '../support/seed.ts';
import { rpc, settled, start, temporaryDirectory } from '../support/service.ts';
import { startParts } from '../support/stack.ts';

const { moves: MOVES, kills: KILLS } = sizes({ moves: [150, 5_000], kills: [6, 60] });
const SHARES = parseAbi([
  'function splitPosition(bytes32 conditionId, uint256 amount)',
  'function mergePositions(bytes32 conditionId, uint256 amount)',
  'function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes data)',
]);
const MONEY = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function balanceOf(address owner) view returns (uint256)',
]);
const M = 1_000_000n;
const WALLETS = Array.from({ length: 6 }, (_, i) => pad(numberToHex(0xabc000 + i), { size: 20 }));

/** Six wallets without keys that have money and no shares, and the markets that trade. */
async function openWallets(devnet: StillDevnet) {
  const blocks = await blocksWithMovements(devnet.url, await devnet.number('latest'));
  const events = blocks.flatMap((block) => block.events);
  const resolved = new Set(
    events.flatMap((event) => (event.kind === 'resolution' ? event.conditionId : [])),
  );
  const matches = events.filter((event) => event.kind === 'match');
  const open = matches.filter(({ conditionId }) => !resolved.has(conditionId));
  const markets = [...new Set(open.map(({ conditionId }) => conditionId))].slice(-5);
  const richest = await richestOf(
    devnet,
    matches.flatMap(({ fills }) => fills.map(({ trader }) => trader)),
  );
  for (const wallet of WALLETS) {
    const pay = { functionName: 'transfer', args: [wallet, 1_000n * M] } as const;
    await devnet.send(richest, PUSD, encodeFunctionData({ abi: MONEY, ...pay }));
    const args = [CONDITIONAL_TOKENS, 2n ** 200n] as const;
    const approve = { abi: MONEY, functionName: 'approve', args } as const;
    await devnet.send(wallet, PUSD, encodeFunctionData(approve));
  }
  await devnet.mine(1);
  return markets;
}

async function richestOf(devnet: StillDevnet, traders: readonly Hex[]): Promise<Hex> {
  let [richest, most] = ['0x' as Hex, 0n];
  for (const trader of new Set(traders)) {
    const of = { abi: MONEY, functionName: 'balanceOf' } as const;
    const data = encodeFunctionData({ ...of, args: [trader] });
    const result = await devnet.call<Hex>('eth_call', { to: PUSD, data }, 'latest');
    const balance = decodeFunctionResult({ ...of, data: result });
    if (balance > most) [richest, most] = [trader, balance];
  }
  return richest;
}

/** Random movements that the chain accepts, in blocks of a few, with a match in every third. */
async function* moved(devnet: StillDevnet, markets: readonly Hex[]) {
  const random = generator(SEED);
  const pick = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T;
  const held = new Map<string, bigint>();
  const add = (wallet: Hex, market: Hex, outcome: number, change: bigint) => {
    const key = `${wallet}:${market}:${outcome}`;
    held.set(key, (held.get(key) ?? 0n) + change);
  };
  const of = (wallet: Hex, market: Hex, outcome: number) =>
    held.get(`${wallet}:${market}:${outcome}`) ?? 0n;
  for (let n = 0; n < MOVES; n++) {
    const [wallet, market, outcome] = [pick(WALLETS), pick(markets), pick([0, 1] as const)];
    const pairs = [of(wallet, market, 0), of(wallet, market, 1)].reduce((a, b) => (a < b ? a : b));
    const most = of(wallet, market, outcome);
    const part = BigInt(1 + Math.floor(random() * 1_000));
    const what = pick(['split', 'merge', 'transfer', 'transfer'] as const);
    if (what === 'merge' && pairs > 0n) {
      const amount = (pairs * part) / 1_000n + 1n < pairs ? (pairs * part) / 1_000n + 1n : pairs;
      const args = [market, amount] as const;
      const merge = { abi: SHARES, functionName: 'mergePositions', args } as const;
      await devnet.send(wallet, CONDITIONAL_TOKENS, encodeFunctionData(merge));
      for (const one of [0, 1]) add(wallet, market, one, -amount);
      yield 'merge';
    } else if (what === 'transfer' && most > 0n) {
      const amount = (most * part + 999n) / 1_000n;
      const to = pick(WALLETS.filter((one) => one !== wallet));
      const id = positionIds(CHAIN.collateral, market)[outcome];
      const args = [wallet, to, id, amount, '0x'] as const;
      const transfer = { abi: SHARES, functionName: 'safeTransferFrom', args } as const;
      await devnet.send(wallet, CONDITIONAL_TOKENS, encodeFunctionData(transfer));
      add(wallet, market, outcome, -amount);
      add(to, market, outcome, amount);
      yield 'transfer';
    } else {
      const amount = part * 1_234n;
      const split = { functionName: 'splitPosition', args: [market, amount] } as const;
      await devnet.send(wallet, CONDITIONAL_TOKENS, encodeFunctionData({ abi: SHARES, ...split }));
      for (const one of [0, 1]) add(wallet, market, one, amount);
      yield 'split';
    }
    if (n % 3 === 0) await devnet.trade();
    if (random() < 0.5) await devnet.mine(1);
  }
  await devnet.mine(80);
}

test('every balance is that of the chain, and every movement is known once, whoever is killed', async () => {
  const directory = temporaryDirectory();
  const devnet = await startStillDevnet(`${directory.path}/devnet`, 250);
  const parts = await startParts(`${directory.path}/parts`, []);
  const run = (name: 'ingest' | 'projector') =>
    start(`${name}/main.ts`, [], { ...devnet.env, ...parts.env, LOG_LEVEL: 'warn' });
  const processes = { ingest: run('ingest'), projector: run('projector') };
  try {
    const markets = await openWallets(devnet);
    const counts = { split: 0, merge: 0, transfer: 0 };
    let done = 0;
    for await (const what of moved(devnet, markets)) {
      counts[what] += 1;
      done += 1;
      if (done % Math.ceil(MOVES / KILLS) !== 0) continue;
      const name = done % 2 === 0 ? 'ingest' : 'projector';
      processes[name].kill('SIGKILL');
      await processes[name].exit;
      processes[name] = run(name);
    }
    await settled(parts, await devnet.number('finalized'));

    const found = await parts.query<{ reason: string; count: string; opened: string }>(
      `SELECT toString(reason) AS reason, toString(countIf(kind = 'movement')) AS count,
         toString(countIf(kind = 'opening')) AS opened
       FROM movements GROUP BY reason`,
    );
    const known = Object.fromEntries(found.map(({ reason, count }) => [reason, Number(count)]));
    // Splits and merges have a row for each outcome, transfers one for each wallet.
    expect(known).toMatchObject({
      ...{ split: counts.split * 2, merge: counts.merge * 2, transfer: counts.transfer * 2 },
    });
    expect(Object.keys(known)).not.toContain('unexplained');
    expect(found.every(({ opened }) => opened === '0')).toBe(true);

    const sums = await parts.query<{ trader: Hex; condition: Hex; zero: string; one: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS trader, concat('0x', lower(hex(condition_id))) AS condition,
         toString(sum(balance_0)) AS zero, toString(sum(balance_1)) AS one
       FROM trader_markets GROUP BY trader, condition_id`,
    );
    const asked = sums.flatMap(({ trader, condition, zero, one }) => {
      const ids = positionIds(CHAIN.collateral, condition);
      return [zero, one].map((balance, outcome) => ({ trader, id: ids[outcome] ?? 0n, balance }));
    });
    const args = [asked.map(({ trader }) => trader), asked.map(({ id }) => id)] as const;
    const batch = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
    const call = { to: CONDITIONAL_TOKENS, data: encodeFunctionData({ ...batch, args }) };
    const data = await rpc<Hex>(devnet.url, 'eth_call', [{ ...call, gas: '0x20000000' }, 'latest']);
    expect(asked.map(({ balance }) => BigInt(balance))).toEqual(
      decodeFunctionResult({ ...batch, data }),
    );
  } finally {
    await Promise.all(Object.values(processes).map((one) => one.stop()));
    await parts.stop();
    await devnet.close();
    directory.remove();
  }
});
