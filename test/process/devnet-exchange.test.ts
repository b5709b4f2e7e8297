import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import {
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  hashTypedData,
  parseEventLogs,
} from 'viem';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { positionIds } from '../../ingest/events/token-ids.ts';
import artifacts from '../../local/devnet/artifacts.json' with { type: 'json' };
import { type Chain, startChain } from '../../local/devnet/chain.ts';
import { compileContracts, formatArtifacts } from '../../local/devnet/compile.ts';
import {
  CHAIN_ID,
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  deploy,
  EXCHANGE,
  exchangeAbi,
  FEE_RECEIVER,
  NEG_RISK_EXCHANGE,
  OPERATORS,
  ORACLE,
  PUSD,
  pusdAbi,
  STRANGER,
} from '../../local/devnet/contracts.ts';
import { Calendar, type Market } from '../../local/devnet/markets.ts';
import {
  BUY,
  encodeMatch,
  type Match,
  type Order,
  SELL,
  settle,
} from '../../local/devnet/orders.ts';
import { type Rpc, Sender } from '../../local/devnet/rpc.ts';
import { TOPICS } from '../../local/devnet/topics.ts';

const GENESIS = 1_790_000_000;
const ZERO_WORD: Hex = `0x${'00'.repeat(32)}`;
const MICRO = 1_000_000n;
const WALLETS = ['a1', 'b2', 'c3', 'd4', 'e5'].map((byte): Hex => `0x${byte.repeat(20)}`);
const [TAKER = '0x', ANNE = '0x', BEN = '0x', CARL = '0x', POOR = '0x'] = WALLETS;
const START_CASH = 1_000n * MICRO;

test('artifacts.json is what the contracts compile to (renew: node local/devnet/compile.ts)', () => {
  const file = new URL('../../local/devnet/artifacts.json', import.meta.url);
  expect(formatArtifacts(compileContracts())).toBe(readFileSync(file, 'utf8'));
});

type Receipt = { readonly status: Hex; readonly logs: never[] };

describe('the exchange', () => {
  let chain: Chain;
  let sender: Sender;
  let directory: string;
  let time = GENESIS + 10;
  let salt = 1n;
  const markets = new Calendar(1, GENESIS).between(GENESIS, GENESIS + 1);
  const market = pickMarket(markets, EXCHANGE);
  const negRiskMarket = pickMarket(markets, NEG_RISK_EXCHANGE);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'devnet-'));
    const stateFile = join(directory, 'chain.json');
    chain = await startChain({ stateFile, port: 0, genesisTime: GENESIS });
    await deploy(chain.rpc, GENESIS + 1);
    sender = new Sender(chain.rpc);
    const rich = WALLETS.filter((wallet) => wallet !== POOR);
    await sender.send([
      mint(rich, START_CASH),
      ...[market, negRiskMarket].map((one) =>
        onTokens('prepareCondition', [ORACLE, one.questionId, 2n]),
      ),
    ]);
    await sender.mine(++time);
  });

  afterAll(async () => {
    await chain.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test('is deployed at its fixed addresses', async () => {
    for (const address of [PUSD, CONDITIONAL_TOKENS, EXCHANGE, NEG_RISK_EXCHANGE]) {
      expect((await chain.rpc.call<Hex>('eth_getCode', address, 'latest')).length).toBeGreaterThan(
        100,
      );
    }
    expect(Number(await chain.rpc.call<Hex>('eth_chainId'))).toBe(CHAIN_ID);
  });

  test('derives the token ids of a real market', async () => {
    const file = new URL('../fixtures/gamma-market-btc-hourly-resolved.json', import.meta.url);
    const real = JSON.parse(readFileSync(file, 'utf8'));
    const usdc = '0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174';
    const ids = await read(chain.rpc, 'derivePositionIds', [usdc, real.conditionId]);
    expect((ids as bigint[]).map(String)).toEqual(JSON.parse(real.clobTokenIds));
    expect(await read(chain.rpc, 'positionIds', [market.conditionId])).toEqual(
      positionIds(PUSD, market.conditionId),
    );
  });

  test('mints for buyers of both outcomes, several makers at once', async () => {
    const match = makeMatch(
      market,
      order(TAKER, BUY, 0, 400, 30),
      [
        [order(ANNE, BUY, 1, 610, 10), 6_100_000n],
        [order(BEN, BUY, 1, 600, 50), 12_000_000n],
      ],
      { fill: 11_900_000n, fee: 12_340n },
    );
    const logs = await expectMatch(match);
    expect(logs.map((log) => log.eventName)).toEqual([
      ...['OrderFilled', 'OrderFilled'],
      ...['FeeCharged', 'OrderFilled', 'OrdersMatched'],
    ]);
    expect(await shares(market, 0, TAKER)).toBe(30n * MICRO);
    expect(await shares(market, 1, BEN)).toBe(20n * MICRO);
  });

  test('swaps with makers on the other side; a buying taker keeps the price improvement', async () => {
    const match = makeMatch(
      market,
      order(CARL, BUY, 0, 700, 9),
      [[order(TAKER, SELL, 0, 500, 9), 9n * MICRO]],
      { fill: 6_300_000n, fee: 1_000n },
    );
    await expectMatch(match);
    const [, taker] = settle(match);
    expect(taker?.making).toBe(4_500_000n);
  });

  test('swaps for a selling taker, with fees of makers, rounding down', async () => {
    const match = makeMatch(
      market,
      order(TAKER, SELL, 0, 300, 8),
      [
        [order(ANNE, BUY, 0, 333, 9), 1_000_000n],
        [order(BEN, BUY, 0, 331, 4), 1_324_000n],
      ],
      { fill: 8n * MICRO, fee: 20_000n, makerFees: [7n, 0n] },
    );
    const logs = await expectMatch(match);
    expect(logs.map((log) => log.eventName).slice(0, 2)).toEqual(['FeeCharged', 'OrderFilled']);
    // 1 / 0.333 shares, cut after the micro-share.
    expect(settle(match)[0]?.taking).toBe(3_003_003n);
  });

  test('merges for sellers of both outcomes', async () => {
    const match = makeMatch(
      market,
      order(TAKER, SELL, 0, 380, 5),
      [[order(BEN, SELL, 1, 590, 5), 5n * MICRO]],
      { fill: 5n * MICRO, fee: 5_000n },
    );
    await expectMatch(match);
    expect(settle(match).at(-1)?.taking).toBe(2_050_000n);
  });

  test('mixes complementary makers with a mint', async () => {
    const match = makeMatch(
      market,
      order(CARL, BUY, 0, 450, 8),
      [
        [order(TAKER, SELL, 0, 420, 3), 3n * MICRO],
        [order(ANNE, BUY, 1, 580, 5), 2_900_000n],
      ],
      { fill: 3_360_000n, fee: 0n },
    );
    await expectMatch(match);
  });

  test('mixes complementary makers with a merge', async () => {
    const match = makeMatch(
      market,
      order(TAKER, SELL, 0, 350, 4),
      [
        [order(CARL, BUY, 0, 390, 2), 780_000n],
        [order(BEN, SELL, 1, 600, 2), 2n * MICRO],
      ],
      { fill: 4n * MICRO, fee: 100n },
    );
    await expectMatch(match);
  });

  test('reports the whole fill amount of a mint and refunds the rest', async () => {
    const match = makeMatch(
      market,
      order(TAKER, BUY, 0, 500, 10),
      [[order(ANNE, BUY, 1, 600, 10), 6n * MICRO]],
      { fill: 5n * MICRO, fee: 0n },
    );
    expect(settle(match).at(-1)).toMatchObject({ making: 5n * MICRO, refund: MICRO });
    await expectMatch(match);
  });

  test('works the same on the neg-risk exchange', async () => {
    const match = makeMatch(
      negRiskMarket,
      order(TAKER, BUY, 0, 250, 4),
      [[order(ANNE, BUY, 1, 750, 4), 3n * MICRO]],
      { fill: MICRO, fee: 30n },
    );
    await expectMatch(match);
  });

  test('hashes orders as Polymarket V2 does', async () => {
    const one = order(TAKER, BUY, 0, 400, 1);
    const data = encodeFunctionData({ abi: exchangeAbi, functionName: 'hashOrder', args: [one] });
    const hash = await chain.rpc.call<Hex>('eth_call', { to: EXCHANGE, data }, 'latest');
    expect(hash).toBe(orderHash(one, EXCHANGE));
  });

  test('refuses strangers, overfilled orders, orders that do not cross, and empty wallets', async () => {
    const maker = order(ANNE, BUY, 1, 600, 2);
    const good = makeMatch(market, order(TAKER, BUY, 0, 400, 2), [[maker, 1_200_000n]], {
      fill: 800_000n,
      fee: 0n,
    });
    const poor = makeMatch(market, order(POOR, BUY, 0, 400, 2), [[maker, 1_200_000n]], {
      fill: 800_000n,
      fee: 0n,
    });
    const apart = makeMatch(market, order(TAKER, BUY, 0, 300, 2), [[maker, 1_200_000n]], {
      fill: 600_000n,
      fee: 0n,
    });
    expect(await statusOf(good, STRANGER)).toBe('0x0');
    expect(await statusOf(poor, OPERATORS[0])).toBe('0x0');
    expect(await statusOf(apart, OPERATORS[0])).toBe('0x0');
    expect(await statusOf(good, OPERATORS[1])).toBe('0x1');
    expect(await statusOf(good, OPERATORS[1])).toBe('0x0');
  });

  test('pays out a resolved market to the last micro-unit', async () => {
    await sender.send([
      onTokens('reportPayouts', [market.questionId, [0n, 1n]]),
      onTokens('redeemPositions', [market.conditionId, WALLETS]),
      onTokens('reportPayouts', [negRiskMarket.questionId, [1n, 1n]]),
      onTokens('redeemPositions', [negRiskMarket.conditionId, WALLETS]),
    ]);
    await sender.mine(++time);
    expect(await cash(CONDITIONAL_TOKENS)).toBe(0n);
    const owners = [...WALLETS, FEE_RECEIVER] as const;
    const sum = (await Promise.all(owners.map(cash))).reduce((a, b) => a + b, 0n);
    expect(sum).toBe(4n * START_CASH);
  });

  test('uses the storage of resolved markets again', async () => {
    const old = new Calendar(2, GENESIS).between(GENESIS - 14 * 86_400, GENESIS);
    for (let i = 0; i < 1_000; i += 50) {
      const some = old.slice(i, i + 50);
      await sender.send([
        mint([DEPLOYER], 50n),
        ...some.map(({ questionId }) => onTokens('prepareCondition', [ORACLE, questionId, 2n])),
        ...some.map(({ conditionId }) => onTokens('splitPosition', [conditionId, 1n])),
        ...some.map(({ questionId }) => onTokens('reportPayouts', [questionId, [1n, 0n]])),
        ...some.map(({ conditionId }) => onTokens('redeemPositions', [conditionId, [DEPLOYER]])),
      ]);
      await sender.mine(++time);
    }
    expect(await cash(DEPLOYER)).toBe(1_000n);
    const dump = await chain.rpc.call<Hex>('anvil_dumpState');
    const { accounts } = JSON.parse(String(gunzipSync(Buffer.from(dump.slice(2), 'hex'))));
    const { storage } = accounts[CONDITIONAL_TOKENS.toLowerCase()];
    expect(Object.keys(storage).length).toBeLessThan(3_000);
  });

  /** Executes a match; its logs and balances must be those of `settle`, and pUSD must not leak. */
  async function expectMatch(match: Match) {
    const wallets = [TAKER, ANNE, BEN, CARL, FEE_RECEIVER] as const;
    const before = await Promise.all(wallets.map(cash));
    const receipt = await execute(match, OPERATORS[0]);
    expect(receipt.status).toBe('0x1');
    const logs = parseEventLogs({ abi: exchangeAbi, logs: receipt.logs });
    const executions = settle(match);
    const fills = logs.filter((log) => log.eventName === 'OrderFilled');
    expect(fills.map(({ args }) => args)).toMatchObject(
      executions.map(({ order: one, making, taking, fee }, i) => ({
        orderHash: orderHash(one, match.market.exchange),
        maker: expect.stringMatching(new RegExp(one.maker, 'i')),
        taker: expect.stringMatching(
          new RegExp(
            i < executions.length - 1 ? match.takerOrder.maker : match.market.exchange,
            'i',
          ),
        ),
        side: one.side,
        tokenId: one.tokenId,
        makerAmountFilled: making,
        takerAmountFilled: taking,
        fee,
      })),
    );
    expect(logs.at(-1)).toMatchObject({
      eventName: 'OrdersMatched',
      args: { takerOrderHash: orderHash(match.takerOrder, match.market.exchange) },
    });
    const expected = new Map(wallets.map((wallet, i) => [wallet.toLowerCase(), before[i] ?? 0n]));
    const move = (wallet: string, amount: bigint) =>
      expected.set(wallet.toLowerCase(), (expected.get(wallet.toLowerCase()) ?? 0n) + amount);
    for (const { order: one, making, taking, fee, refund } of executions) {
      move(one.maker, (one.side === BUY ? refund - making : taking) - fee);
      move(FEE_RECEIVER, fee);
    }
    expect(await Promise.all(wallets.map(cash))).toEqual([...expected.values()]);
    expect(await cash(match.market.exchange)).toBe(0n);
    return logs;
  }

  async function execute(match: Match, from: Hex): Promise<Receipt> {
    const [hash] = await sender.send([
      { from, to: match.market.exchange, data: encodeMatch(match) },
    ]);
    await sender.mine(++time);
    return chain.rpc.call<Receipt>('eth_getTransactionReceipt', hash);
  }

  async function statusOf(match: Match, from: Hex): Promise<Hex> {
    return (await execute(match, from)).status;
  }

  async function cash(owner: Hex): Promise<bigint> {
    const data = encodeFunctionData({ abi: pusdAbi, functionName: 'balanceOf', args: [owner] });
    return BigInt(await chain.rpc.call<Hex>('eth_call', { to: PUSD, data }, 'latest'));
  }

  async function shares(one: Market, outcome: 0 | 1, owner: Hex): Promise<bigint> {
    return (await read(chain.rpc, 'balanceOf', [owner, one.tokenIds[outcome]])) as bigint;
  }

  /** Price in thousandths, whole shares. The token is put in by `makeMatch`. */
  function order(maker: Hex, side: 0 | 1, outcome: 0 | 1, price: number, size: number): Order {
    const sharesWanted = BigInt(size) * MICRO;
    const usdc = (sharesWanted * BigInt(price)) / 1000n;
    return {
      salt: salt++,
      maker,
      signer: maker,
      tokenId: market.tokenIds[outcome],
      makerAmount: side === BUY ? usdc : sharesWanted,
      takerAmount: side === BUY ? sharesWanted : usdc,
      side,
      signatureType: 0,
      timestamp: 0n,
      metadata: ZERO_WORD,
      builder: ZERO_WORD,
      signature: '0x',
    };
  }

  function makeMatch(
    one: Market,
    takerOrder: Order,
    makers: readonly (readonly [Order, bigint])[],
    amounts: {
      readonly fill: bigint;
      readonly fee: bigint;
      readonly makerFees?: readonly bigint[];
    },
  ): Match {
    const onMarket = (each: Order): Order => ({
      ...each,
      tokenId: one.tokenIds[each.tokenId === market.tokenIds[0] ? 0 : 1],
    });
    return {
      market: one,
      takerOrder: onMarket(takerOrder),
      makerOrders: makers.map(([each]) => onMarket(each)),
      takerFillAmount: amounts.fill,
      makerFillAmounts: makers.map(([, making]) => making),
      takerFeeAmount: amounts.fee,
      makerFeeAmounts: amounts.makerFees ?? makers.map(() => 0n),
    };
  }
});

function pickMarket(markets: readonly Market[], exchange: Hex): Market {
  const market = markets.find((one) => one.exchange === exchange);
  if (market === undefined)
    throw new RangeError(`no market on ${exchange} in ${TOPICS.length} topics`);
  return market;
}

function call(to: Hex, data: Hex) {
  return { from: DEPLOYER, to, data } as const;
}

function mint(owners: readonly Hex[], value: bigint) {
  const args = [owners, owners.map(() => value)] as const;
  return call(PUSD, encodeFunctionData({ abi: pusdAbi, functionName: 'mint', args }));
}

function onTokens(
  functionName: 'prepareCondition' | 'reportPayouts' | 'redeemPositions' | 'splitPosition',
  args: readonly unknown[],
) {
  const { abi } = artifacts.ConditionalTokens;
  return call(CONDITIONAL_TOKENS, encodeFunctionData({ abi, functionName, args }));
}

async function read(
  rpc: Rpc,
  functionName: 'balanceOf' | 'positionIds' | 'derivePositionIds',
  args: readonly unknown[],
): Promise<unknown> {
  const data = encodeFunctionData({ abi: conditionalTokensAbi, functionName, args } as never);
  const answer = await rpc.call<Hex>('eth_call', { to: CONDITIONAL_TOKENS, data }, 'latest');
  return decodeFunctionResult({ abi: conditionalTokensAbi, functionName, data: answer });
}

/** The order hash by viem's EIP-712, independent of the contract. */
function orderHash(order: Order, exchange: Hex): Hex {
  return hashTypedData({
    domain: {
      name: 'Polymarket CTF Exchange',
      version: '2',
      chainId: CHAIN_ID,
      verifyingContract: exchange,
    },
    primaryType: 'Order',
    types: {
      Order: [
        { name: 'salt', type: 'uint256' },
        { name: 'maker', type: 'address' },
        { name: 'signer', type: 'address' },
        { name: 'tokenId', type: 'uint256' },
        { name: 'makerAmount', type: 'uint256' },
        { name: 'takerAmount', type: 'uint256' },
        { name: 'side', type: 'uint8' },
        { name: 'signatureType', type: 'uint8' },
        { name: 'timestamp', type: 'uint256' },
        { name: 'metadata', type: 'bytes32' },
        { name: 'builder', type: 'bytes32' },
      ],
    },
    message: order,
  });
}
