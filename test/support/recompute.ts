/**
 * An independent account of a devnet: volumes, PnL, fees and counts of every trader and market from the
 * chain's own logs and resolutions. Written from docs/pnl.md and the ABI alone, without the project's
 * decoder or fold: two implementations that agree to the micro-unit.
 */
import { PUSD } from '../../local/devnet/contracts.ts';
import { addressOf, blockNumber, chainFacts, chainLogs } from '../release/faults/chain-facts.ts';
import { rpc } from './service.ts';

const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

export type Account = {
  pnl: bigint;
  cost: bigint;
  fee: bigint;
  makerVolume: bigint;
  takerVolume: bigint;
  fills: number;
  settlements: number;
};

/** A trader's net holding in one market: at most one outcome is above 0. */
export type Holding = { shares: [bigint, bigint]; cost: bigint; fees: bigint };

/** One match: the fill of its taker. */
export type ChainMatch = {
  readonly block: number;
  readonly log: number;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly txHash: string;
  readonly orderHash: string;
  readonly taker: string;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

export type ChainMarket = {
  /** In chain order. */
  readonly matches: ChainMatch[];
  resolution: { readonly time: number; readonly payouts: readonly bigint[] } | undefined;
  /** By trader; empty once it is resolved. */
  readonly holdings: Map<string, Holding>;
};

/** PnL of a trader. */
type OpenPnl = { realised: bigint; unrealised: bigint };

export type Chain = {
  /** By condition id. */
  readonly markets: ReadonlyMap<string, ChainMarket>;
  /** By trader, after each hour with an event, oldest first; `end` is the end of the hour. */
  readonly pnlHours: readonly { readonly end: number; readonly of: ReadonlyMap<string, OpenPnl> }[];
  /** By `trader condition`. */
  readonly accounts: Map<string, Account>;
  /** By `trader hour` (epoch seconds of the hour's start). */
  readonly hours: Map<string, Account & { readonly conditions: Set<string> }>;
  readonly lastFillBlock: number;
  readonly totalSupply: bigint;
  /** pUSD of each owner after each block that changed it, oldest first. */
  readonly balances: ReadonlyMap<string, readonly BalanceAt[]>;
};

type BalanceAt = { readonly block: number; readonly balance: bigint };

/** `tokens` maps a token id to its condition and outcome: the only fact that logs do not carry. */
export async function recompute(
  rpcUrl: string,
  tokens: ReadonlyMap<string, { readonly condition: string; readonly outcome: 0 | 1 }>,
): Promise<Chain> {
  const timeOf = blockTimes(rpcUrl);
  const head = await blockNumber(rpcUrl, 'latest');
  const accounts = new Map<string, Account>();
  const hours: Chain['hours'] = new Map();
  const markets = new Map<string, ChainMarket>();
  const marketOf = (condition: string) =>
    at(markets, condition, () => ({ matches: [], resolution: undefined, holdings: new Map() }));
  const pnlHours: Chain['pnlHours'][number][] = [];
  let lastFillBlock = 0;
  let end = 0;
  for (const fact of await chainFacts(rpcUrl, 0, head)) {
    const { block, txHash } = fact;
    const time = await timeOf(block);
    const hour = Math.floor(time / 3_600) * 3_600;
    if (hour >= end && end > 0) pnlHours.push({ end, of: pnlOf(accounts, markets) });
    end = hour + 3_600;
    const book = (trader: string, condition: string, change: Partial<Account>) => {
      add(at(accounts, `${trader} ${condition}`, empty), change);
      const inHour = at(hours, `${trader} ${hour}`, () => ({
        ...empty(),
        conditions: new Set<string>(),
      }));
      add(inHour, change);
      inHour.conditions.add(condition);
    };
    if (fact.kind === 'resolution') {
      const { conditionId, payouts } = fact;
      const market = marketOf(conditionId);
      for (const [trader, holding] of market.holdings) {
        const change = payOut(holding, payouts);
        if (change !== undefined) book(trader, conditionId, change);
      }
      market.holdings.clear();
      market.resolution = { time, payouts };
      continue;
    }
    lastFillBlock = block;
    for (const { trader, side, tokenId, shares, usdc, fee, ...fill } of fact.fills) {
      const token = tokens.get(tokenId);
      if (token === undefined) throw new Error(`no market of token ${tokenId}`);
      const { condition, outcome } = token;
      const market = marketOf(condition);
      book(trader, condition, {
        ...trade(at(market.holdings, trader, flat), side === 'BUY', outcome, shares, usdc, fee),
        fee,
        [fill.isTaker ? 'takerVolume' : 'makerVolume']: usdc,
        fills: 1,
      });
      if (!fill.isTaker) continue;
      market.matches.push({
        ...{ block, log: fill.logIndex, time, taker: trader, txHash, orderHash: fill.orderHash },
        ...{ side, outcome, shares, usdc, fee },
      });
    }
  }
  pnlHours.push({ end, of: pnlOf(accounts, markets) });
  return { markets, accounts, hours, pnlHours, lastFillBlock, ...(await pusd(rpcUrl, head)) };
}

/** The mark as a fraction of outcome 0: `paid` of `whole`. */
export function markOf({ matches, resolution }: ChainMarket) {
  if (resolution !== undefined) {
    const [paid = 0n, other = 0n] = resolution.payouts;
    return { paid, whole: paid + other, time: resolution.time, source: 'resolution' };
  }
  const last = matches.findLast((match) => match.shares > 0n);
  if (last === undefined) throw new Error('a market without matches has no mark');
  const paid = last.outcome === 0 ? last.usdc : last.shares - last.usdc;
  return { paid, whole: last.shares, time: last.time, source: 'last_match' };
}

/** The holders of a market and the value of their shares at its mark, rounded down. */
export function openPositions(market: ChainMarket) {
  return [...market.holdings].flatMap(([trader, { shares, cost, fees }]) => {
    const outcome = shares[0] > 0n ? 0 : 1;
    const own = shares[outcome];
    if (own === 0n) return [];
    const { paid, whole } = markOf(market);
    const value = (own * (outcome === 0 ? paid : whole - paid)) / whole;
    return [{ trader, outcome, own, cost, fees, value, unrealised: value - cost - fees }];
  });
}

function pnlOf(accounts: Chain['accounts'], markets: Chain['markets']) {
  const pnl = new Map<string, OpenPnl>();
  const of = (trader: string) => at(pnl, trader, () => ({ realised: 0n, unrealised: 0n }));
  for (const [key, { pnl }] of accounts) of(key.split(' ')[0] ?? '').realised += pnl;
  for (const market of markets.values()) {
    for (const { trader, unrealised } of openPositions(market)) of(trader).unrealised += unrealised;
  }
  return pnl;
}

/** The rule of docs/pnl.md for one fill; returns what it realised. */
export function trade(
  holding: Holding,
  isBuy: boolean,
  outcome: 0 | 1,
  shares: bigint,
  usdc: bigint,
  fee: bigint,
): Pick<Account, 'pnl' | 'cost'> {
  const bought = isBuy ? outcome : ((1 - outcome) as 0 | 1);
  const paid = isBuy ? usdc : shares - usdc;
  const opposite = (1 - bought) as 0 | 1;
  const held = holding.shares[opposite];
  const closing = held < shares ? held : shares;
  let [pnl, cost, closingPaid, closingFee] = [0n, 0n, 0n, 0n];
  if (closing > 0n) {
    closingPaid = (paid * closing) / shares;
    closingFee = (fee * closing) / shares;
    cost = (holding.cost * closing) / held;
    const fees = (holding.fees * closing) / held;
    pnl = closing - closingPaid - closingFee - cost - fees;
    holding.cost -= cost;
    holding.fees -= fees;
    holding.shares[opposite] -= closing;
  }
  if (shares > closing) {
    holding.shares[bought] += shares - closing;
    holding.cost += paid - closingPaid;
    holding.fees += fee - closingFee;
  }
  return { pnl, cost };
}

export function payOut(holding: Holding, payouts: readonly bigint[]): Partial<Account> | undefined {
  const outcome = holding.shares[0] > 0n ? 0 : 1;
  if (holding.shares[outcome] === 0n) return undefined;
  const total = payouts.reduce((sum, one) => sum + one, 0n);
  const payout = (holding.shares[outcome] * (payouts[outcome] ?? 0n)) / total;
  return { pnl: payout - holding.cost - holding.fees, cost: holding.cost, settlements: 1 };
}

/** Balances from every Transfer since the first block, compared with those of the token contract. */
async function pusd(
  rpcUrl: string,
  head: number,
): Promise<Pick<Chain, 'totalSupply' | 'balances'>> {
  const balances = new Map<string, BalanceAt[]>();
  const add = (owner: string, value: bigint, block: number) => {
    const history = at(balances, owner, () => []);
    const last = history.at(-1);
    if (last?.block === block) history.pop();
    history.push({ block, balance: (last?.balance ?? 0n) + value });
  };
  for await (const log of chainLogs(rpcUrl, { address: PUSD, topics: [TRANSFER] }, 0, head)) {
    const [, from = '', to = ''] = log.topics;
    add(addressOf(from), -BigInt(log.data), Number(log.blockNumber));
    add(addressOf(to), BigInt(log.data), Number(log.blockNumber));
  }
  balances.delete(`0x${'0'.repeat(40)}`);
  const call = { to: PUSD, data: '0x18160ddd' };
  const supply = await rpc<string>(rpcUrl, 'eth_call', [call, 'latest']);
  return { totalSupply: BigInt(supply), balances };
}

/** Seconds since the epoch of a block; requests each block once. */
function blockTimes(rpcUrl: string): (block: number) => Promise<number> {
  const times = new Map<number, Promise<number>>();
  const ask = async (block: number) => {
    const params = [`0x${block.toString(16)}`, false];
    const { timestamp } = await rpc<{ timestamp: string }>(rpcUrl, 'eth_getBlockByNumber', params);
    return Number(timestamp);
  };
  return (block) => at(times, block, () => ask(block));
}

export function flat(): Holding {
  return { shares: [0n, 0n], cost: 0n, fees: 0n };
}

function empty(): Account {
  return {
    pnl: 0n,
    cost: 0n,
    fee: 0n,
    makerVolume: 0n,
    takerVolume: 0n,
    fills: 0,
    settlements: 0,
  };
}

function add(account: Account, { fills = 0, settlements = 0, ...sums }: Partial<Account>): void {
  account.fills += fills;
  account.settlements += settlements;
  for (const name of ['pnl', 'cost', 'fee', 'makerVolume', 'takerVolume'] as const) {
    account[name] += sums[name] ?? 0n;
  }
}

export function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
