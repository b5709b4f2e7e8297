/**
 * An independent account of a devnet: volumes, PnL, fees and counts of every trader and market from the
 * chain's own logs and resolutions. Written from docs/pnl.md and the ABI alone, without the project's
 * decoder or fold: two implementations that agree to the micro-unit.
 */
import { decodeEventLog, type Hex, parseAbi } from 'viem';
import {
  CONDITIONAL_TOKENS,
  EXCHANGE,
  NEG_RISK_EXCHANGE,
  PUSD,
} from '../../infra/local/devnet/contracts.ts';
import { rpc } from './service.ts';

const ABI = parseAbi([
  'event OrderFilled(bytes32 indexed orderHash, address indexed maker, address indexed taker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee, bytes32 builder, bytes32 metadata)',
  'event ConditionResolution(bytes32 indexed conditionId, address indexed oracle, bytes32 indexed questionId, uint256 outcomeSlotCount, uint256[] payoutNumerators)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
]);

const BLOCKS_A_PAGE = 200;

type RawLog = {
  readonly address: Hex;
  readonly topics: [Hex, ...Hex[]];
  readonly data: Hex;
  readonly blockNumber: Hex;
  readonly logIndex: Hex;
  readonly transactionHash: Hex;
};

export type Account = {
  pnl: bigint;
  cost: bigint;
  fee: bigint;
  makerVolume: bigint;
  takerVolume: bigint;
  fills: number;
  settlements: number;
};

/** What a trader holds of one market, as the two outcomes' net: at most one of them is above 0. */
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
  holdings: ReadonlyMap<string, Holding>;
};

/** What `shares` shares of outcome 0 cost in the last match with shares. */
export type Close = { readonly usdc: bigint; readonly shares: bigint; readonly time: number };

/** PnL of a trader. */
type Equity = { realised: bigint; unrealised: bigint };

export type Chain = {
  /** By condition id. */
  readonly markets: ReadonlyMap<string, ChainMarket>;
  /** Final positions, by condition and then by trader. */
  readonly holdings: ReadonlyMap<string, ReadonlyMap<string, Holding>>;
  /** By condition, of the unresolved ones. */
  readonly closes: ReadonlyMap<string, Close>;
  /** By trader, after each hour with an event, oldest first; `end` is the end of the hour. */
  readonly equity: readonly { readonly end: number; readonly of: ReadonlyMap<string, Equity> }[];
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
  const accounts = new Map<string, Account>();
  const hours: Chain['hours'] = new Map();
  const holdings = new Map<string, Map<string, Holding>>();
  const markets = new Map<string, ChainMarket>();
  const marketOf = (condition: string) =>
    at(markets, condition, () => ({ matches: [], resolution: undefined, holdings: new Map() }));
  const closes = new Map<string, Close>();
  const equity: Chain['equity'][number][] = [];
  let lastFillBlock = 0;
  let end = 0;
  for await (const log of chainLogs(rpcUrl, [EXCHANGE, NEG_RISK_EXCHANGE, CONDITIONAL_TOKENS])) {
    const event = decoded(log);
    if (event === undefined || event.eventName === 'Transfer') continue;
    const time = await timeOf(log.blockNumber);
    const hour = Math.floor(time / 3_600) * 3_600;
    if (hour >= end && end > 0) equity.push({ end, of: equityOf(accounts, holdings, closes) });
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
    if (event.eventName === 'ConditionResolution') {
      const { conditionId, payoutNumerators } = event.args;
      for (const [trader, holding] of holdings.get(conditionId) ?? []) {
        const change = payOut(holding, payoutNumerators);
        if (change !== undefined) book(trader, conditionId, change);
      }
      holdings.delete(conditionId);
      marketOf(conditionId).resolution = { time, payouts: payoutNumerators };
      closes.delete(conditionId);
      continue;
    }
    const { maker, taker, side, tokenId, makerAmountFilled, takerAmountFilled, fee } = event.args;
    const token = tokens.get(tokenId.toString());
    if (token === undefined) throw new Error(`no market of token ${tokenId}`);
    const trader = maker.toLowerCase();
    const [usdc, shares] =
      side === 0 ? [makerAmountFilled, takerAmountFilled] : [takerAmountFilled, makerAmountFilled];
    const isTaker = taker.toLowerCase() === log.address.toLowerCase();
    const market = at(holdings, token.condition, () => new Map<string, Holding>());
    const holding = at(market, trader, flat);
    book(trader, token.condition, {
      ...trade(holding, side === 0, token.outcome, shares, usdc, fee),
      fee,
      [isTaker ? 'takerVolume' : 'makerVolume']: usdc,
      fills: 1,
    });
    if (isTaker && shares > 0n) {
      const first = token.outcome === 0 ? usdc : shares - usdc;
      closes.set(token.condition, { usdc: first, shares, time });
    }
    lastFillBlock = Number(log.blockNumber);
    if (!isTaker) continue;
    marketOf(token.condition).matches.push({
      ...{ block: lastFillBlock, log: Number(log.logIndex), time, taker: trader },
      ...{ txHash: log.transactionHash, orderHash: event.args.orderHash },
      ...{ side: side === 0 ? 'BUY' : 'SELL', outcome: token.outcome, shares, usdc, fee },
    });
  }
  for (const [condition, held] of holdings) marketOf(condition).holdings = held;
  equity.push({ end, of: equityOf(accounts, holdings, closes) });
  const held = { holdings, closes, equity };
  return { markets, accounts, hours, ...held, lastFillBlock, ...(await pusd(rpcUrl)) };
}

/** What a holding is worth at a close, rounded down. */
export function worthOf({ shares }: Holding, { usdc, shares: whole }: Close): bigint {
  return shares[0] > 0n ? (shares[0] * usdc) / whole : (shares[1] * (whole - usdc)) / whole;
}

function equityOf(
  accounts: Chain['accounts'],
  holdings: Chain['holdings'],
  closes: Chain['closes'],
): ReadonlyMap<string, Equity> {
  const equity = new Map<string, Equity>();
  const of = (trader: string) => at(equity, trader, () => ({ realised: 0n, unrealised: 0n }));
  for (const [key, { pnl }] of accounts) of(key.split(' ')[0] ?? '').realised += pnl;
  for (const [condition, own] of holdings) {
    const close = closes.get(condition);
    if (close === undefined) continue;
    for (const [trader, holding] of own) {
      of(trader).unrealised += worthOf(holding, close) - holding.cost - holding.fees;
    }
  }
  return equity;
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

/** Balances from every Transfer since the first block, beside what the token itself says. */
async function pusd(rpcUrl: string): Promise<Pick<Chain, 'totalSupply' | 'balances'>> {
  const balances = new Map<string, BalanceAt[]>();
  const add = (owner: string, value: bigint, block: number) => {
    const history = balances.get(owner.toLowerCase()) ?? [];
    balances.set(owner.toLowerCase(), history);
    const last = history.at(-1);
    if (last?.block === block) history.pop();
    history.push({ block, balance: (last?.balance ?? 0n) + value });
  };
  for await (const log of chainLogs(rpcUrl, [PUSD])) {
    const event = decoded(log);
    if (event?.eventName !== 'Transfer') continue;
    const { from, to, value } = event.args;
    add(from, -value, Number(log.blockNumber));
    add(to, value, Number(log.blockNumber));
  }
  balances.delete(`0x${'0'.repeat(40)}`);
  const supply = await rpc<Hex>(rpcUrl, 'eth_call', [{ to: PUSD, data: '0x18160ddd' }, 'latest']);
  return { totalSupply: BigInt(supply), balances };
}

/** In pages: all logs of a long run would not fit into one answer. */
async function* chainLogs(rpcUrl: string, address: readonly string[]): AsyncGenerator<RawLog> {
  const head = Number(await rpc<Hex>(rpcUrl, 'eth_blockNumber', []));
  const hex = (block: number) => `0x${block.toString(16)}`;
  for (let from = 0; from <= head; from += BLOCKS_A_PAGE) {
    const toBlock = hex(Math.min(head, from + BLOCKS_A_PAGE - 1));
    yield* await rpc<RawLog[]>(rpcUrl, 'eth_getLogs', [{ fromBlock: hex(from), toBlock, address }]);
  }
}

/** Seconds since the epoch of a block, each asked for once. */
function blockTimes(rpcUrl: string): (block: Hex) => Promise<number> {
  const times = new Map<Hex, Promise<number>>();
  const ask = async (block: Hex) => {
    const { timestamp } = await rpc<{ timestamp: Hex }>(rpcUrl, 'eth_getBlockByNumber', [
      block,
      false,
    ]);
    return Number(timestamp);
  };
  return (block) => at(times, block, () => ask(block));
}

function decoded(log: RawLog) {
  try {
    return decodeEventLog({ abi: ABI, topics: log.topics, data: log.data });
  } catch {
    return undefined;
  }
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

function add(account: Account, change: Partial<Account>): void {
  account.pnl += change.pnl ?? 0n;
  account.cost += change.cost ?? 0n;
  account.fee += change.fee ?? 0n;
  account.makerVolume += change.makerVolume ?? 0n;
  account.takerVolume += change.takerVolume ?? 0n;
  account.fills += change.fills ?? 0;
  account.settlements += change.settlements ?? 0;
}

export function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
