/**
 * Random matches of every type on a real anvil, some with more of the taker's money than needed: the prediction from
 * calldata equals the exchange's logs, including order hashes and rounding. process/devnet-exchange.test.ts checks
 * that the exchange pays what it logs and hashes orders by EIP-712.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeFunctionData, type Hex } from 'viem';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decodeLogs } from '../../ingest/events/decode.ts';
import type { ChainLog } from '../../ingest/events/log.ts';
import { decodeMatchCall, type MatchedFill } from '../../ingest/events/match-call.ts';
import { type Chain, startChain } from '../../local/devnet/chain.ts';
import {
  CHAIN_ID,
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  deploy,
  EXCHANGE,
  exchangeAbi,
  NEG_RISK_EXCHANGE,
  OPERATORS,
  ORACLE,
  PUSD,
  pusdAbi,
} from '../../local/devnet/contracts.ts';
import { Calendar } from '../../local/devnet/markets.ts';
import { Sender } from '../../local/devnet/rpc.ts';
import {
  BUY,
  type Draw,
  drawMatch,
  type MatchType,
  type ModelMatch,
  type ModelOrder,
  typeOf,
} from '../support/calldata-model.ts';
import { generator, SEED } from '../support/seed.ts';

const GENESIS = 1_790_000_000;
const MATCHES = 600;
const BLOCK_MATCHES = 20;
const TYPE_MATCHES_MIN = 20;
const CASH = 10n ** 15n;
const STOCK = 10n ** 14n;
const WALLETS = ['a1', 'b2', 'c3', 'd4', 'e5', 'f6', 'a7'].map(
  (byte): Hex => `0x${byte.repeat(20)}`,
);

type RawLog = Omit<ChainLog, 'logIndex'> & { readonly logIndex: Hex };

describe('decodeMatchCall against the contract', () => {
  let chain: Chain;
  let sender: Sender;
  let time = GENESIS + 10;
  const directory = mkdtempSync(join(tmpdir(), 'differential-'));
  const draw = integers(SEED);
  const markets = new Calendar(1, GENESIS).between(GENESIS, GENESIS + 1);
  const sides = [EXCHANGE, NEG_RISK_EXCHANGE].map((exchange) => {
    const market = markets.find((one) => one.exchange === exchange);
    if (market === undefined) throw new RangeError(`no market on ${exchange}`);
    return { exchange: exchange.toLowerCase() as Hex, market };
  });

  beforeAll(async () => {
    console.log(`seed ${SEED}`);
    chain = await startChain({
      stateFile: join(directory, 'chain.json'),
      port: 0,
      genesisTime: GENESIS,
    });
    await deploy(chain.rpc, GENESIS + 1);
    sender = new Sender(chain.rpc);
    const mint = { abi: pusdAbi, functionName: 'mint', args: [WALLETS, WALLETS.map(() => CASH)] };
    await sender.send([
      { from: DEPLOYER as Hex, to: PUSD as Hex, data: encodeFunctionData(mint as never) },
      ...sides.map(({ market }) => ({
        from: DEPLOYER as Hex,
        to: CONDITIONAL_TOKENS as Hex,
        data: encodeFunctionData({
          abi: conditionalTokensAbi,
          functionName: 'prepareCondition',
          args: [ORACLE, market.questionId, 2n],
        }),
      })),
    ]);
    await sender.mine(++time);
    await send(sides.flatMap(({ exchange, market }) => stock(exchange, market)));
  });

  afterAll(async () => {
    await chain.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test('predicted fills equal logged fills, for every type of match', async () => {
    const seen = new Map<MatchType, number>();
    for (let i = 0; i < MATCHES; i += BLOCK_MATCHES) {
      const sent = Array.from({ length: BLOCK_MATCHES }, (_, j) => {
        const { exchange, market } = sides[j % sides.length] as (typeof sides)[number];
        const match = drawMatch(draw, {
          wallets: shuffled(draw, WALLETS),
          tokenIds: market.tokenIds,
        });
        seen.set(typeOf(match), (seen.get(typeOf(match)) ?? 0) + 1);
        return { exchange, match, input: encode(market.conditionId, match) };
      });
      const logged = await send(sent);
      expect(logged).toHaveLength(BLOCK_MATCHES);
      for (const [j, { exchange, input, match }] of sent.entries()) {
        const call = decodeMatchCall(input, exchange, CHAIN_ID);
        const fills = logged[j]?.fills.map(common);
        expect([...call.makers, call.taker].map(common), `seed ${SEED}, ${typeOf(match)}`).toEqual(
          fills,
        );
        expect(logged[j]?.exchange).toBe(exchange);
      }
    }
    expect([...seen.keys()].toSorted()).toEqual([
      ...['complementary', 'merge', 'mint', 'mixed merge', 'mixed mint'],
    ]);
    for (const count of seen.values()) expect(count).toBeGreaterThan(TYPE_MATCHES_MIN);
  });

  /** Mines the matches into one block and returns the exchanges' logs in order. Throws on a revert. */
  async function send(matches: readonly { readonly exchange: Hex; readonly input: Hex }[]) {
    const [from] = OPERATORS;
    await sender.send(matches.map(({ exchange, input }) => ({ from, to: exchange, data: input })));
    await sender.mine(++time);
    const logs = await chain.rpc.call<RawLog[]>('eth_getLogs', {
      fromBlock: 'latest',
      toBlock: 'latest',
      address: [EXCHANGE, NEG_RISK_EXCHANGE],
    });
    const decoded = decodeLogs(
      logs.map((log) => ({ ...log, logIndex: Number(log.logIndex) })),
      {
        exchanges: new Set(sides.map(({ exchange }) => exchange)),
        conditionalTokens: CONDITIONAL_TOKENS.toLowerCase(),
      },
    );
    expect(decoded.refused).toEqual([]);
    return decoded.events.filter((event) => event.kind === 'match');
  }
});

/** Mint matches that leave every wallet with shares of both tokens. */
function stock(exchange: Hex, market: { conditionId: Hex; tokenIds: readonly [bigint, bigint] }) {
  return WALLETS.map((maker, i) => {
    const taker = WALLETS[(i + 1) % WALLETS.length] as Hex;
    const half = STOCK / 2n;
    const order = (wallet: Hex, tokenId: bigint, salt: bigint): ModelOrder => ({
      ...{ salt, maker: wallet, signer: wallet, tokenId, makerAmount: half, takerAmount: STOCK },
      ...{ side: BUY, signatureType: 0, timestamp: 0n, signature: '0x' },
      ...{ metadata: `0x${'00'.repeat(32)}`, builder: `0x${'00'.repeat(32)}` },
    });
    const [first, second] = market.tokenIds;
    const match: ModelMatch = {
      takerOrder: order(taker, first, BigInt(i)),
      makerOrders: [order(maker, second, BigInt(i))],
      takerFillAmount: half,
      makerFillAmounts: [half],
      takerFeeAmount: 0n,
      makerFeeAmounts: [0n],
    };
    return { exchange, input: encode(market.conditionId, match) };
  });
}

function encode(conditionId: Hex, match: ModelMatch): Hex {
  return encodeFunctionData({
    abi: exchangeAbi,
    functionName: 'matchOrders',
    args: [
      conditionId,
      match.takerOrder,
      match.makerOrders,
      match.takerFillAmount,
      match.makerFillAmounts,
      match.takerFeeAmount,
      match.makerFeeAmounts,
    ],
  });
}

function common(fill: MatchedFill) {
  const { orderHash, trader, side, tokenId, shares, usdc, fee } = fill;
  return { orderHash, trader, side, tokenId, shares, usdc, fee };
}

function shuffled<T>(draw: Draw, items: readonly T[]): readonly T[] {
  return items
    .map((item) => ({ item, key: draw(0n, 2n ** 32n) }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ item }) => item);
}

/** Integers of any size from a seed, 32 bits at a time. */
function integers(seed: number): Draw {
  const random = generator(seed);
  return (min, max) => {
    const span = max - min + 1n;
    let bits = 0n;
    for (let top = 1n; top < span << 64n; top <<= 32n) {
      bits = (bits << 32n) | BigInt(random() * 2 ** 32);
    }
    return min + (bits % span);
  };
}
