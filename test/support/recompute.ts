/**
 * An independent account of a devnet: volumes, PnL, fees, counts and balances of every trader and market from the
 * chain's own logs: matches, resolutions, and every transfer of shares. Written from docs/pnl.md and the ABI alone, without
 * the project's decoder, classifier or fold: two implementations that agree to the micro-unit.
 */
import {
  BINARY_MODULE,
  COMBINATORIAL_MODULE,
  CONDITIONAL_TOKENS,
  EXCHANGE,
  EXCHANGE_V3,
  LOGGING_ADAPTER,
  NEG_RISK_ADAPTER,
  NEG_RISK_EXCHANGE,
  NEG_RISK_MODULE,
  POSITION_MANAGER,
  POSITION_REDEEMER,
  PUSD,
  REDEEMER,
  ROUTER,
  SILENT_ADAPTER,
  VAULT,
  WRAPPED_COLLATERAL,
  WRAPPED_EXCHANGE,
} from '../../local/devnet/contracts.ts';
import {
  addressOf,
  blockNumber,
  type ChainLog,
  chainFacts,
  chainLogs,
  type Fact,
} from '../release/faults/chain-facts.ts';
import { at } from './at.ts';
import {
  type Account,
  add,
  type Booking,
  Books,
  type ChainMarket,
  empty,
  type Moved,
} from './books.ts';
import { rpc } from './service.ts';
import {
  type Conversion,
  type Movement,
  type Restructuring,
  type Roles,
  SHARE_TOPICS,
  ShareMoves,
  type Token,
  type Transaction,
} from './share-moves.ts';
import { v2Results } from './v2-account.ts';

const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

const ROLES: Roles = {
  tokens: CONDITIONAL_TOKENS.toLowerCase(),
  exchanges: lowerCase(EXCHANGE, NEG_RISK_EXCHANGE, WRAPPED_EXCHANGE, EXCHANGE_V3),
  v2: {
    manager: POSITION_MANAGER.toLowerCase(),
    modules: lowerCase(BINARY_MODULE, NEG_RISK_MODULE, COMBINATORIAL_MODULE),
  },
  negRisk: {
    adapter: NEG_RISK_ADAPTER.toLowerCase(),
    burn: '0xa5ef39c3d3e10d0b270233af41cac69796b12966',
    vault: VAULT.toLowerCase(),
  },
  others: lowerCase(
    ...[SILENT_ADAPTER, LOGGING_ADAPTER, REDEEMER, WRAPPED_COLLATERAL],
    ...[ROUTER, POSITION_REDEEMER],
  ),
};

function lowerCase(...addresses: readonly string[]): string[] {
  return addresses.map((address) => address.toLowerCase());
}

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
  /** Everything that is in the accounts, in chain order. */
  readonly bookings: readonly Booking[];
  readonly movements: readonly Moved[];
  /** By `trader condition`: of both outcomes, by transfers alone. */
  readonly shares: ReadonlyMap<string, readonly [bigint, bigint]>;
  readonly lastFillBlock: number;
  readonly totalSupply: bigint;
  /** pUSD of each owner after each block that changed it, oldest first. */
  readonly balances: ReadonlyMap<string, readonly BalanceAt[]>;
};

type BalanceAt = { readonly block: number; readonly balance: bigint };

/** What happened at a place of the chain. Fills come before movements of the same log. */
type Step = { readonly block: number; readonly log: number } & (
  | { readonly fact: Fact }
  | { readonly movement: Movement | Conversion | Restructuring }
);

/** Also those of protocol version 2 that nobody lists: the lowest byte of an id is the outcome, the rest the condition. */
class Tokens extends Map<string, Token> {
  override get(id: string): Token | undefined {
    const known = super.get(id);
    const hex = BigInt(id).toString(16).padStart(64, '0');
    if (known !== undefined || !/^0[123].*0[01]$/.test(hex)) return known;
    return { condition: `0x${hex.slice(0, -2)}00`, outcome: hex.endsWith('1') ? 1 : 0 };
  }
}

/**
 * `listed` maps a token id to its condition and outcome: the only fact that logs do not carry. `aliases` has the older markets
 * of conditions that continue one.
 */
export async function recompute(
  rpcUrl: string,
  listed: ReadonlyMap<string, Token>,
  aliases: ReadonlyMap<string, string> = new Map(),
): Promise<Chain> {
  const tokens = new Tokens(listed);
  const timeOf = blockTimes(rpcUrl);
  const head = await blockNumber(rpcUrl, 'latest');
  const books = new Books();
  const { steps, shares } = await stepsOf(rpcUrl, head, tokens, aliases, books);
  const pnlHours: Chain['pnlHours'][number][] = [];
  let lastFillBlock = 0;
  let end = 0;
  for (const step of steps) {
    const time = await timeOf(step.block);
    const hour = Math.floor(time / 3_600) * 3_600;
    if (hour >= end && end > 0) pnlHours.push({ end, of: pnlOf(books) });
    end = hour + 3_600;
    if ('movement' in step) books.move(time, step.movement);
    else if (step.fact.kind === 'resolution')
      books.resolve(time, step.fact.conditionId, step.fact.payouts);
    else {
      lastFillBlock = step.block;
      bookMatch(books, tokens, time, step.fact);
    }
  }
  pnlHours.push({ end, of: pnlOf(books) });
  assertBalances(books, shares);
  const { markets, accounts, bookings, movements } = books;
  return {
    ...{ markets, accounts, bookings, movements, shares, pnlHours, lastFillBlock },
    hours: hoursOf(bookings),
    ...(await pusd(rpcUrl, head)),
  };
}

function bookMatch(
  books: Books,
  tokens: ReadonlyMap<string, Token>,
  time: number,
  { block, txHash, fills }: Extract<Fact, { kind: 'match' }>,
): void {
  for (const { tokenId, logIndex, ...fill } of fills) {
    const token = tokens.get(tokenId);
    if (token === undefined) throw new Error(`no market of token ${tokenId}`);
    const { condition, outcome } = token;
    const { trader, side, shares, usdc, fee, orderHash } = fill;
    books.fill(time, condition, { ...fill, outcome });
    if (!fill.isTaker) continue;
    books.marketOf(condition).matches.push({
      ...{ block, log: logIndex, time, taker: trader, txHash, orderHash },
      ...{ side, outcome, shares, usdc, fee },
    });
  }
}

/** All matches, resolutions and movements in chain order, and the balances that the transfers leave. */
async function stepsOf(
  rpcUrl: string,
  head: number,
  tokens: ReadonlyMap<string, Token>,
  aliases: ReadonlyMap<string, string>,
  { decidedAtOnce }: Books,
) {
  const logged = await chainFacts(rpcUrl, 0, head);
  const facts = [...logged, ...(await v2Results(rpcUrl, head, logged, aliases, decidedAtOnce))];
  const factsIn = new Map<string, Fact[]>();
  for (const fact of facts) at(factsIn, fact.txHash, () => []).push(fact);
  const logsIn = new Map<string, ChainLog[]>();
  for (const { txHash } of facts) logsIn.set(txHash, []);
  for await (const log of chainLogs(rpcUrl, { topics: [SHARE_TOPICS] }, 0, head))
    at(logsIn, log.transactionHash, () => []).push(log);
  const moves = new ShareMoves(ROLES, tokens);
  const shares = new Map<string, [bigint, bigint]>();
  const steps: Step[] = facts.map((fact) => ({ block: fact.block, log: fact.logIndex, fact }));
  for (const [txHash, logs] of logsIn) {
    const own = (factsIn.get(txHash) ?? []).filter((fact) => fact.kind === 'match');
    const block = Number(logs[0]?.blockNumber ?? own[0]?.block);
    const fills = own.flatMap((match) => match.fills);
    const transaction = { block, txHash, logs, fills, matches: spansOf(logs, own) };
    addShares(shares, moves, transaction, tokens);
    for (const movement of moves.explain(transaction))
      steps.push({ block, log: movement.log, movement });
  }
  const rank = (step: Step) => ('movement' in step ? 1 : 0);
  steps.sort((a, b) => a.block - b.block || a.log - b.log || rank(a) - rank(b));
  return { steps, shares };
}

/** From the first log of each match, which an exchange sends, to its last. */
function spansOf(
  logs: readonly ChainLog[],
  matches: readonly Extract<Fact, { kind: 'match' }>[],
): Transaction['matches'] {
  let after = -1;
  return matches.map(({ exchange, logIndex, fills }) => {
    const moved = logs.find(
      (log) => Number(log.logIndex) > after && addressOf(log.topics[1] ?? '') === exchange,
    );
    const first = Math.min(Number(moved?.logIndex ?? logIndex), fills[0]?.logIndex ?? logIndex);
    after = logIndex;
    return { first, last: logIndex };
  });
}

function addShares(
  shares: Map<string, [bigint, bigint]>,
  moves: ShareMoves,
  transaction: Transaction,
  tokens: ReadonlyMap<string, Token>,
): void {
  for (const { from, to, token, amount } of moves.movesOf(transaction)) {
    const { condition, outcome } = tokens.get(token) ?? {};
    if (condition === undefined || outcome === undefined) throw new Error(`no market of ${token}`);
    for (const [wallet, by] of [[from, -amount] as const, [to, amount] as const]) {
      if (!moves.isWallet(wallet)) continue;
      const held = at(shares, `${wallet} ${condition}`, (): [bigint, bigint] => [0n, 0n]);
      held[outcome] += by;
    }
  }
}

/** In an open market, what was booked must leave the balances that the transfers leave. */
function assertBalances({ markets }: Books, shares: Chain['shares']): void {
  for (const [condition, { holdings }] of markets) {
    for (const [trader, { balances }] of holdings) {
      const moved = shares.get(`${trader} ${condition}`) ?? [0n, 0n];
      if (balances[0] !== moved[0] || balances[1] !== moved[1])
        throw new Error(`${trader} ${condition}: booked ${balances}, moved ${moved}`);
    }
  }
}

/** Hours in which nothing was traded or closed are omitted. */
function hoursOf(bookings: readonly Booking[]): Chain['hours'] {
  const hours: Chain['hours'] = new Map();
  for (const { time, trader, condition, kind, ...change } of bookings) {
    const isMovement = kind === 'movement' || kind === 'opening';
    if (isMovement && change.pnl === 0n && change.cost === 0n) continue;
    const hour = Math.floor(time / 3_600) * 3_600;
    const account = at(hours, `${trader} ${hour}`, () => ({
      ...empty(),
      conditions: new Set<string>(),
    }));
    add(account, change);
    account.conditions.add(condition);
  }
  return hours;
}

/** The mark as a fraction of outcome 0: `paid` of `whole`, which is 0 before the first match. */
export function markOf({ matches, resolution }: ChainMarket) {
  if (resolution !== undefined) {
    const [paid = 0n, other = 0n] = resolution.payouts;
    return { paid, whole: paid + other, time: resolution.time, source: 'resolution' };
  }
  const last = matches.findLast((match) => match.shares > 0n);
  if (last === undefined) return { paid: 0n, whole: 0n, time: 0, source: 'none' };
  const paid = last.outcome === 0 ? last.usdc : last.shares - last.usdc;
  return { paid, whole: last.shares, time: last.time, source: 'last_match' };
}

/** The holders of a market and the value of their shares at its mark, rounded down; without a mark, what they cost. */
export function openPositions(market: ChainMarket) {
  return [...market.holdings].flatMap(([trader, { shares, cost, fees }]) => {
    const outcome = shares[0] > 0n ? 0 : 1;
    const own = shares[outcome];
    if (own === 0n) return [];
    const { paid, whole } = markOf(market);
    const value =
      whole === 0n ? cost + fees : (own * (outcome === 0 ? paid : whole - paid)) / whole;
    return [{ trader, outcome, own, cost, fees, value, unrealised: value - cost - fees }];
  });
}

function pnlOf({ accounts, markets }: Books) {
  const pnl = new Map<string, OpenPnl>();
  const of = (trader: string) => at(pnl, trader, () => ({ realised: 0n, unrealised: 0n }));
  for (const [key, { pnl }] of accounts) of(key.split(' ')[0] ?? '').realised += pnl;
  for (const market of markets.values()) {
    for (const { trader, unrealised } of openPositions(market)) of(trader).unrealised += unrealised;
  }
  return pnl;
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
