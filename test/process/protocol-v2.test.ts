/**
 * The service on a chain that changes over to protocol version 2: wallets use both, markets continue on the new exchange, combos are
 * traded and taken apart, while ingest, projector, nats-server and ClickHouse are killed. Afterwards every balance is that of the chain,
 * FEED has every match once, nothing is unexplained, each wallet's money is what its fills and movements say, and calldata predicted every fill. MOVES and
 * KILLS set the size.
 */
import { decodeFunctionResult, encodeFunctionData, type Hex, numberToHex } from 'viem';
import { expect, test } from 'vitest';
import { connectNats } from '../../infra/nats/connection.ts';
import { readRange } from '../../ingest/chain/block-range.ts';
import { factsOf } from '../../ingest/chain/blocks.ts';
import { connectRpc } from '../../ingest/chain/rpc.ts';
import { decodeMatchCall } from '../../ingest/events/match-call.ts';
import { comboParts, comboPayouts } from '../../ingest/events/shares/combos.ts';
import { isStructured, structuredTokens } from '../../ingest/events/structured-ids.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import {
  BINARY_MODULE,
  COMBINATORIAL_MODULE,
  CONDITIONAL_TOKENS,
  DEPLOYER,
  EXCHANGE_V3,
  POSITION_MANAGER,
} from '../../local/devnet/contracts.ts';
import { BINARY, positionId } from '../../local/devnet/position-ids.ts';
import { Random } from '../../local/devnet/random.ts';
import { payoutOf, payoutsOf } from '../../projector/fold/position.ts';
import { chainFacts } from '../release/faults/chain-facts.ts';
import { compareFeed } from '../release/faults/compare.ts';
import { sizes } from '../release/faults/run.ts';
import { CHAIN, type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { CASH, MovingWallets, moneyOf } from '../support/moving-wallets.ts';
import { SEED } from '../support/seed.ts';
import { settled, start, temporaryDirectory } from '../support/service.ts';
import { startParts } from '../support/stack.ts';
import { balancesIn, moduleAbi, V2Wallets } from '../support/v2-wallets.ts';

const {
  moves: MOVES,
  kills: KILLS,
  combos: COMBOS,
} = sizes({ moves: [220, 6_000], kills: [4, 40], combos: [2_000, 100_000] });
const RESOLUTIONS = 15;
const KILLED = ['ingest', 'nats', 'projector', 'clickhouse'] as const;
const M = 1_000_000n;

test('every share and every payment of both protocols is accounted, whoever is killed', async () => {
  const directory = temporaryDirectory();
  const devnet = await startStillDevnet(`${directory.path}/devnet`, 100);
  const parts = await startParts(`${directory.path}/parts`, []);
  const run = (name: 'ingest' | 'projector') =>
    start(`${name}/main.ts`, [], { ...devnet.env, ...parts.env, LOG_LEVEL: 'warn' });
  const processes = { ingest: run('ingest'), projector: run('projector') };
  try {
    await processes.ingest.event('caught_up');
    const liveAfter = await devnet.number('latest');
    const before = await MovingWallets.open(devnet, SEED);
    const wallets = await V2Wallets.open(devnet, SEED);
    let killed = 0;
    for (let n = 0; n < MOVES; n++) {
      await wallets.ways[n % wallets.ways.length]?.();
      // The old protocol ends with the first half.
      if (n % 3 === 0 && n < MOVES / 2) await before.ways[n % before.ways.length]?.();
      if (n % Math.ceil(MOVES / RESOLUTIONS) === 0) await wallets.resolveSome();
      if ((n + 1) % Math.ceil(MOVES / KILLS) !== 0) continue;
      const name = KILLED[killed % KILLED.length] ?? 'ingest';
      killed += 1;
      if (name === 'nats' || name === 'clickhouse') await parts.restart[name]();
      else {
        await processes[name].event(name === 'ingest' ? 'ledger' : 'stored');
        processes[name].kill('SIGKILL');
        await processes[name].exit;
        processes[name] = run(name);
      }
    }
    await devnet.mine(80);
    await settled(parts, await devnet.number('finalized'));

    // Every balance, in both contracts.
    const sums = await parts.query<{ owner: Hex; condition: Hex; zero: string; one: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS owner, concat('0x', lower(hex(condition_id))) AS condition,
         toString(sum(balance_0)) AS zero, toString(sum(balance_1)) AS one
       FROM trader_markets GROUP BY trader, condition_id`,
    );
    const continued = new Map(wallets.continued());
    const held = new Map<string, bigint>();
    const add = (owner: string, market: string, outcome: number, shares: bigint) => {
      const key = `${owner}:${market}:${outcome}`;
      held.set(key, (held.get(key) ?? 0n) + shares);
    };
    const owners = wallets.wallets;
    const places = (ids: ReadonlySet<bigint>) =>
      owners.flatMap((owner) => [...ids].map((id) => ({ owner, id })));
    const ofManager = places(wallets.ids);
    for (const [at, shares] of (await balancesIn(devnet, POSITION_MANAGER, ofManager)).entries()) {
      const { owner, id } = ofManager[at] ?? { owner: '0x', id: 0n };
      const condition = numberToHex(id & ~1n, { size: 32 });
      add(owner, continued.get(condition) ?? condition, Number(id & 1n), shares);
    }
    for (const { conditionId, tokens } of wallets.legacyMarkets())
      for (const [outcome, id] of tokens.entries()) {
        const asked = owners.map((owner) => ({ owner, id }));
        for (const [at, shares] of (await balancesIn(devnet, CONDITIONAL_TOKENS, asked)).entries())
          add(owners[at] ?? '0x', conditionId, outcome, shares);
      }
    const booked = new Map(
      sums.flatMap(({ owner, condition, zero, one }) =>
        [zero, one].map((shares, outcome) => [`${owner}:${condition}:${outcome}`, BigInt(shares)]),
      ),
    );
    const isOurs = (key: string) => owners.some((owner) => key.startsWith(owner));
    const differing = [...new Set([...held.keys(), ...[...booked.keys()].filter(isOurs)])]
      .map((key) => [key, booked.get(key) ?? 0n, held.get(key) ?? 0n] as const)
      .filter(([, one, other]) => one !== other);
    expect(differing.slice(0, 5)).toEqual([]);
    expect([...held.values()].filter((shares) => shares > 0n).length).toBeGreaterThan(20);

    const reasons = await parts.query<{ reason: string; kind: string; count: string }>(
      `SELECT toString(reason) AS reason, toString(kind) AS kind, toString(count()) AS count
       FROM movements WHERE trader IN (${owners.map((owner) => `unhex('${owner.slice(2)}')`).join()})
       GROUP BY reason, kind ORDER BY reason`,
    );
    const known = new Set(reasons.map(({ reason }) => reason));
    for (const reason of ['split', 'merge', 'redeem', 'convert', 'transfer'])
      expect([...known]).toContain(reason);
    expect(
      reasons.filter(({ reason, kind }) => reason === 'unexplained' || kind === 'opening'),
    ).toEqual([]);
    const [refused] = await parts.query<{ count: string }>(
      'SELECT toString(count()) AS count FROM refused_events',
    );
    expect(refused?.count).toBe('0');

    const [combos] = await parts.query<{ count: string }>(
      `SELECT toString(count()) AS count FROM markets FINAL
       WHERE slug LIKE 'combo-%' AND question LIKE '%: %' AND group_item_title LIKE '% legs'`,
    );
    expect(Number(combos?.count)).toBeGreaterThan(5);

    const cash = await parts.query<{ owner: Hex; cash: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS owner, toString(sum(${CASH})) AS cash FROM bookings GROUP BY trader`,
    );
    const paid = new Map(cash.map(({ owner, cash: sum }) => [owner, BigInt(sum)]));
    for (const [owner, given] of [...wallets.given, ...before.given])
      expect([owner, given + (paid.get(owner) ?? 0n)]).toEqual([
        owner,
        await moneyOf(devnet, owner),
      ]);

    await expectCallsToPredictFills(devnet);

    const facts = await chainFacts(devnet.url, 0, await devnet.number('finalized'));
    const nats = await connectNats({ url: parts.env.NATS_URL, name: 'test' });
    try {
      const feed = await compareFeed({ nats, facts, liveAfter });
      expect(feed.differences).toEqual([]);
      expect(feed.liveMatches).toBeGreaterThan(20);
    } finally {
      await nats.close();
    }
  } finally {
    await Promise.all(Object.values(processes).map((one) => one.stop()));
    await parts.stop();
    await devnet.close();
    directory.remove();
  }
});

/** Each match of version 3 as its calldata said before it was mined. */
async function expectCallsToPredictFills(devnet: StillDevnet): Promise<void> {
  const source = { rpc: connectRpc(devnet.url, { chainId: CHAIN.id }), chain: CHAIN };
  const markets = {
    outcomeOf: (conditionId: string, token: string) => {
      const tokens = isStructured(conditionId)
        ? structuredTokens(conditionId)
        : positionIds(CHAIN.collateral, conditionId as Hex).map(String);
      const at = tokens.indexOf(token);
      return at === 0 ? (0 as const) : at === 1 ? (1 as const) : undefined;
    },
    conditionOfToken: async (token: string) =>
      numberToHex(BigInt(token) & ~1n, { size: 32 }) as Hex,
  };
  let compared = 0;
  const head = await devnet.number('latest');
  for (let from = 0; from <= head; from += 100) {
    const { blocks } = await readRange(source, from, Math.min(from + 99, head));
    for (const { raw } of blocks) {
      if (raw === undefined) continue;
      for (const { exchange, call, fills } of (await factsOf(raw, CHAIN, markets)).matches) {
        if (exchange !== EXCHANGE_V3.toLowerCase() || call === '') continue;
        const { taker, makers } = decodeMatchCall(call, exchange, CHAIN.id);
        const plain = [...makers, taker].map(({ order, ...fill }) => fill);
        expect(fills).toMatchObject(plain);
        compared += 1;
      }
    }
  }
  expect(compared).toBeGreaterThan(20);
}

test('combos pay exactly what the contract pays, whatever the results of their legs', async () => {
  const directory = temporaryDirectory();
  const devnet = await startStillDevnet(`${directory.path}/devnet`, 20);
  try {
    const random = new Random(`combos:${SEED}`);
    const conditions = Array.from({ length: 120 }, (_, n) =>
      positionId(BINARY, numberToHex(n, { size: 32 }), 1),
    ).sort((a, b) => (a < b ? -1 : 1));
    const results = new Map<bigint, bigint>();
    for (const condition of conditions) {
      const first = random.pick([
        M,
        M,
        M,
        M / 2n,
        BigInt(1 + random.below(999_998)),
        BigInt(1 + random.below(999_998)),
      ]);
      // Few lose, or nearly every combo would.
      results.set(condition, random.chance(0.02) ? 0n : first);
      const id = numberToHex(condition, { size: 32 }).slice(0, -2) as Hex;
      const args = [
        id,
        [results.get(condition) ?? 0n, M - (results.get(condition) ?? 0n)],
      ] as const;
      const data = encodeFunctionData({ abi: moduleAbi, functionName: 'reportResult', args });
      await devnet.send(DEPLOYER, BINARY_MODULE, data);
    }
    await devnet.mine(1);
    let [partial, nothing] = [0, 0];
    const different: unknown[] = [];
    const one = async () => {
      const size = 2 + random.below(49);
      const legs = conditions
        .map((condition) => ({ condition, order: random.unit() }))
        .sort((a, b) => a.order - b.order)
        .slice(0, size)
        .map(
          ({ condition }) =>
            condition + (results.get(condition) === M || random.chance(0.7) ? 0n : 1n),
        )
        .sort((a, b) => (a < b ? -1 : 1));
      const outcome = random.chance(0.5) ? (0 as const) : (1 as const);
      const amount = BigInt(1 + random.below(2 ** 48));
      const parts = comboParts(
        legs.map((leg) => {
          const first = results.get(leg & ~1n) ?? 0n;
          return { paid: leg & 1n ? M - first : first, total: M };
        }),
      );
      const payouts = comboPayouts(parts ?? [0n, 0n]);
      if (payouts.parts !== undefined) partial += 1;
      const expected = payoutOf(amount, outcome, payoutsOf(payouts));
      if (expected === 0n) nothing += 1;
      const call = { abi: moduleAbi, functionName: 'payoutOf' } as const;
      const data = encodeFunctionData({ ...call, args: [legs, BigInt(outcome), amount] });
      const to = { to: COMBINATORIAL_MODULE, data };
      const paid = decodeFunctionResult({
        ...call,
        data: await devnet.call('eth_call', to, 'latest'),
      });
      if (paid !== expected) different.push({ legs, outcome, amount, paid, expected });
    };
    for (let n = 0; n < COMBOS; n += 20) await Promise.all(Array.from({ length: 20 }, one));
    console.info(
      `TEST_SEED=${SEED}: ${COMBOS} combos, ${partial} of them rounded in tables, ${nothing} paid 0`,
    );
    expect(different.slice(0, 3)).toEqual([]);
    expect(partial).toBeGreaterThan(COMBOS / 10);
  } finally {
    await devnet.close();
    directory.remove();
  }
});
