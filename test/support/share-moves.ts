/**
 * Why shares moved, from the logs of a transaction: written from the contracts' ABI and the roles of the contracts, without
 * the project's classifier. A movement is found by its wallet's end of a transfer and named by the event next to it. What
 * fills and movements do not explain is `unexplained`, so for each wallet and token they add up to the transfers.
 */
import { encodePacked, keccak256, numberToHex } from 'viem';
import { addressOf, type ChainLog, words } from '../release/faults/chain-facts.ts';
import { at } from './at.ts';
import { nextOf, V2_TOPICS } from './v2-account.ts';
import { only } from './wallet-ledger.ts';

const TOPICS = {
  single: '0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62',
  batch: '0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb',
  split: '0x2e6bb91f8cbcda0c93623c54d0403a43514fabc40084ec96b6d5379a74786298',
  merge: '0x6f13ca62553fcc2bcd2372180a43949c1e4cebba603901ede2f4e14f36b282ca',
  redeem: '0x2682012a4a4f1973119f1c9b90745d1bd91fa2bab387344f044cb3586864d18d',
  marketPrepared: '0xf059ab16d1ca60e123eab60e3c02b68faf060347c701a5d14885a8e1def7b3a8',
  convert: '0xb03d19dddbc72a87e735ff0ea3b57bef133ebe44e1894284916a84044deb367e',
} as const;
export const SHARE_TOPICS: readonly string[] = [...Object.values(TOPICS), ...V2_TOPICS];

/** The contracts that hold or move shares for others; never a wallet. Lower case. */
export type Roles = {
  readonly tokens: string;
  /** Their transfers are explained by fills. */
  readonly exchanges: readonly string[];
  /** The adapter of negative-risk markets, if there is one, and where it leaves converted shares and its fees. */
  readonly negRisk?: { readonly adapter: string; readonly burn: string; readonly vault: string };
  /** Protocol version 2. */
  readonly v2?: { readonly manager: string; readonly modules: readonly string[] };
  /** Adapters and redeemers. */
  readonly others: readonly string[];
};

export type Token = { readonly condition: string; readonly outcome: 0 | 1 };

type Place = { readonly block: number; readonly log: number; readonly txHash: string };

/** One wallet's shares of one market, or a transfer to `counterparty`, which gets the opposite. */
export type Movement = Place & {
  readonly reason: 'split' | 'merge' | 'redeem' | 'transfer' | 'refund' | 'unexplained';
  readonly wallet: string;
  readonly condition: string;
  readonly change: [bigint, bigint];
  /** The other wallet, or the contract of an unexplained movement. */
  readonly counterparty: string;
  /** Micro-USDC that the contract took or paid; else 0. */
  readonly paid: bigint;
};

/** No of some questions of a negative-risk market became Yes of the others, and cash. */
export type Conversion = Place & {
  readonly reason: 'convert';
  readonly wallet: string;
  /** No given, of each. */
  readonly amount: bigint;
  /** Yes received, of each other question: less than `amount` if there is a fee. */
  readonly out: bigint;
  /** In the order of the questions. */
  readonly questions: readonly { readonly condition: string; readonly isGiven: boolean }[];
};

/** Shares of some markets of protocol version 2 became shares of others, and money. */
export type Restructuring = Place & {
  readonly reason: 'restructure';
  readonly wallet: string;
  /** Paid to the wallet. */
  readonly cash: bigint;
  readonly pieces: readonly {
    readonly condition: string;
    readonly outcome: 0 | 1;
    readonly shares: bigint;
  }[];
};

type Fill = {
  readonly trader: string;
  readonly isTaker: boolean;
  readonly side: 'BUY' | 'SELL';
  readonly tokenId: string;
  readonly shares: bigint;
};

/** One move's part of a movement; parts of one group are one movement. */
type Part = { readonly group: string; readonly movement: Movement };

/** Shares of one token from one address to another. */
export type Move = {
  readonly log: number;
  readonly operator: string;
  readonly from: string;
  readonly to: string;
  readonly token: string;
  readonly amount: bigint;
};

export type Transaction = {
  readonly block: number;
  readonly txHash: string;
  /** In order, of all contracts. */
  readonly logs: readonly ChainLog[];
  readonly fills: readonly Fill[];
  /** From the first log of a match to the one that closes it. */
  readonly matches: readonly { readonly first: number; readonly last: number }[];
};

const ZERO = `0x${'0'.repeat(40)}`;

export class ShareMoves {
  readonly #roles: Roles;
  readonly #tokens: ReadonlyMap<string, Token>;
  readonly #contracts: ReadonlySet<string>;
  /** In ten-thousandths, by market id. */
  readonly #feeBips = new Map<string, bigint>();

  constructor(roles: Roles, tokens: ReadonlyMap<string, Token>) {
    const { negRisk } = roles;
    const all = [
      roles.tokens,
      ...roles.exchanges,
      ...roles.others,
      ...Object.values(negRisk ?? {}),
      ...(roles.v2 === undefined ? [] : [roles.v2.manager, ...roles.v2.modules]),
    ];
    this.#contracts = new Set([ZERO, ...all]);
    this.#roles = roles;
    this.#tokens = tokens;
  }

  isWallet(address: string): boolean {
    return !this.#contracts.has(address);
  }

  /** All moves of a transaction, without those that move nothing. */
  movesOf({ logs }: Transaction): readonly Move[] {
    return logs
      .filter(({ address }) =>
        [this.#roles.tokens, this.#roles.v2?.manager].includes(address.toLowerCase()),
      )
      .flatMap(movesOf)
      .filter(({ from, to, amount }) => amount > 0n && from !== to);
  }

  /** In the order of their places. */
  explain(transaction: Transaction): readonly (Movement | Conversion | Restructuring)[] {
    const { block, txHash, matches } = transaction;
    for (const { topics, data } of transaction.logs) {
      const [kind, market = ''] = topics;
      if (kind === TOPICS.marketPrepared) this.#feeBips.set(market, words(data)[0] ?? 0n);
    }
    const all = this.movesOf(transaction);
    const placed = (log: number): Place => {
      const match = matches.find(({ first, last }) => log >= first && log <= last);
      return { block, txHash, log: match?.last ?? log };
    };
    const free = new Set(all.filter(({ operator }) => !this.#roles.exchanges.includes(operator)));
    const ofV2 = this.#ofV2(transaction, free, placed);
    const conversions = this.#conversions(transaction, free, placed);
    const named = [...free].flatMap((move) => this.#named(move, transaction, placed));
    const movements = [...merged(named)];
    const rest = this.#rest(transaction, all, [...ofV2, ...conversions, ...movements], placed);
    return [...ofV2, ...conversions, ...movements, ...rest].toSorted((a, b) => a.log - b.log);
  }

  /** The movement that one move is part of, with the event that names it. */
  #named(move: Move, { logs }: Transaction, placed: (log: number) => Place): readonly Part[] {
    const token = this.#tokens.get(move.token);
    const [gives, gets] = [this.isWallet(move.from), this.isWallet(move.to)];
    if (token === undefined || (!gives && !gets)) return [];
    const { condition, outcome } = token;
    const wallet = gives ? move.from : move.to;
    const change = only(outcome, gives ? -move.amount : move.amount);
    const base = { ...placed(move.log), wallet, condition, change };
    if (gives && gets) {
      const movement = { ...base, reason: 'transfer', counterparty: move.to, paid: 0n } as const;
      return [{ group: `${move.log} ${condition}`, movement }];
    }
    const event = gives
      ? eventAfter(logs, move.log, condition)
      : splitOf(logs, move, condition, wallet);
    if (event === undefined) return [];
    const { reason, paid, log } = event;
    return [{ group: `${log} ${wallet}`, movement: { ...base, reason, counterparty: '', paid } }];
  }

  /** What modules of protocol version 2 did. Takes its moves out of `free`. */
  #ofV2(
    { logs }: Transaction,
    free: Set<Move>,
    placed: (log: number) => Place,
  ): readonly (Movement | Restructuring)[] {
    const parts: Part[] = [];
    const restructured = new Map<string, Restructuring>();
    for (const move of [...free]) {
      const [gives, gets] = [this.isWallet(move.from), this.isWallet(move.to)];
      const token = this.#tokens.get(move.token);
      if (gives === gets || token === undefined) continue;
      const other = gives ? move.to : move.from;
      const module = other === ZERO ? move.operator : other;
      if (!this.#roles.v2?.modules.includes(module)) continue;
      const event = nextOf(logs, module, move.log);
      if (event === undefined) continue;
      free.delete(move);
      const { reason, paid, log } = event;
      // The same shares come back in another contract.
      if (reason === 'migrate') continue;
      const { condition, outcome } = token;
      const wallet = gives ? move.from : move.to;
      const shares = gives ? -move.amount : move.amount;
      const group = `${log} ${wallet}`;
      if (reason === 'convert') {
        const base = { ...placed(move.log), reason: 'restructure', wallet, cash: paid } as const;
        const known = restructured.get(group) ?? { ...base, pieces: [] };
        const pieces = [...known.pieces, { condition, outcome, shares }];
        restructured.set(group, { ...known, pieces });
      } else {
        const change = only(outcome, shares);
        const movement = { ...placed(move.log), reason, wallet, condition, change, paid };
        parts.push({ group, movement: { ...movement, counterparty: '' } });
      }
    }
    return [...merged(parts), ...restructured.values()];
  }

  /** Takes the moves of conversions out of `free`. */
  #conversions(
    { logs }: Transaction,
    free: Set<Move>,
    placed: (log: number) => Place,
  ): readonly Conversion[] {
    const { negRisk } = this.#roles;
    if (negRisk === undefined) return [];
    const events = logs.filter(
      ({ address, topics }) =>
        address.toLowerCase() === negRisk.adapter && topics[0] === TOPICS.convert,
    );
    return events.map((event, i) => {
      const [, caller = '', market = '', set = ''] = event.topics;
      const [amount = 0n] = words(event.data);
      const at = Number(event.logIndex);
      const after = Number(events[i - 1]?.logIndex ?? -1);
      const before = Number(events[i + 1]?.logIndex ?? Infinity);
      const asked = addressOf(caller);
      const isOf = ({ token }: Move, outcome: 0 | 1) => {
        const known = this.#tokens.get(token);
        return (
          known?.outcome === outcome && this.#questionOf(market, known.condition) !== undefined
        );
      };
      const own = [...free].filter(({ log }) => log > after && log < before);
      const burned = own.filter(
        (move) => move.from === negRisk.adapter && move.to === negRisk.burn && isOf(move, 1),
      );
      const end = this.isWallet(asked) ? negRisk.burn : asked;
      const given = own.filter(
        (move) => this.isWallet(move.from) && move.to === end && move.log < at && isOf(move, 1),
      );
      const received = own.filter(
        (move) =>
          this.isWallet(move.to) &&
          (move.from === asked || (move.from === negRisk.adapter && move.log < at)) &&
          isOf(move, 0),
      );
      for (const move of [...given, ...received]) free.delete(move);
      const conditionOf = ({ token }: Move) => this.#tokens.get(token)?.condition ?? '';
      const questions = [
        ...given.map((move) => ({ condition: conditionOf(move), isGiven: true })),
        ...burned.map((move) => ({ condition: conditionOf(move), isGiven: false })),
      ]
        .map((one) => ({ ...one, index: this.#questionOf(market, one.condition) ?? 0 }))
        .toSorted((a, b) => a.index - b.index);
      const asSet = questions.reduce(
        (bits, one) => (one.isGiven ? bits | (1n << BigInt(one.index)) : bits),
        0n,
      );
      if (asSet !== BigInt(set)) throw new Error(`conversion of ${set} moved No of ${asSet}`);
      const fee = (amount * (this.#feeBips.get(market) ?? 0n)) / 10_000n;
      return {
        ...placed(given[0]?.log ?? at),
        ...{ reason: 'convert', wallet: given[0]?.from ?? asked, amount, questions },
        out: received[0]?.amount ?? amount - fee,
      } satisfies Conversion;
    });
  }

  /** Index of a condition among the questions of a negative-risk market. */
  #questionOf(market: string, condition: string): number | undefined {
    const adapter = (this.#roles.negRisk?.adapter ?? ZERO) as `0x${string}`;
    return at(questions, `${adapter} ${market}`, () => questionsOf(adapter, market)).get(condition);
  }

  /** What transfers moved beyond fills and movements, for each wallet and market. */
  #rest(
    { fills, matches, ...transaction }: Transaction,
    moves: readonly Move[],
    found: readonly (Movement | Conversion | Restructuring)[],
    placed: (log: number) => Place,
  ): readonly Movement[] {
    const rest = new Map<string, bigint>();
    const add = (wallet: string, condition: string, outcome: 0 | 1, amount: bigint) => {
      const key = `${wallet} ${condition} ${outcome}`;
      rest.set(key, (rest.get(key) ?? 0n) + amount);
    };
    for (const { from, to, token, amount } of moves) {
      const known = this.#tokens.get(token);
      if (known === undefined) continue;
      add(from, known.condition, known.outcome, -amount);
      add(to, known.condition, known.outcome, amount);
    }
    for (const { trader, side, tokenId, shares } of fills) {
      const { condition, outcome } = this.#tokens.get(tokenId) ?? {};
      if (condition === undefined || outcome === undefined) continue;
      add(trader, condition, outcome, side === 'BUY' ? -shares : shares);
    }
    for (const one of found) {
      for (const { wallet, condition, change } of changesOf(one)) {
        add(wallet, condition, 0, -change[0]);
        add(wallet, condition, 1, -change[1]);
      }
    }
    return [...rest].flatMap(([key, amount]): Movement[] => {
      const [wallet = '', condition = '', which] = key.split(' ');
      const outcome = which === '0' ? 0 : 1;
      if (amount === 0n || !this.isWallet(wallet)) return [];
      const isToken = (id: string) => {
        const token = this.#tokens.get(id);
        return token?.condition === condition && token.outcome === outcome;
      };
      const isSold = fills.some(
        (fill) =>
          fill.trader === wallet && fill.isTaker && fill.side === 'SELL' && isToken(fill.tokenId),
      );
      const isRefund = amount > 0n && isSold;
      const move = moves.findLast(
        ({ from, to, token }) => (amount > 0n ? to : from) === wallet && isToken(token),
      );
      const other = amount > 0n ? move?.from : move?.to;
      return [
        {
          ...transaction,
          ...placed(move?.log ?? matches.at(-1)?.last ?? 0),
          reason: isRefund ? 'refund' : 'unexplained',
          ...{ wallet, condition, counterparty: isRefund ? '' : (other ?? '') },
          ...{ change: only(outcome, amount), paid: 0n },
        },
      ];
    });
  }
}

/** What a movement changes, for each wallet and market. */
export function changesOf(one: Movement | Conversion | Restructuring) {
  if (one.reason === 'restructure')
    return one.pieces.map(({ condition, outcome, shares }) => ({
      ...{
        wallet: one.wallet,
        condition,
        change: only(outcome, shares) as readonly [bigint, bigint],
      },
    }));
  if (one.reason !== 'convert') {
    const { wallet, condition, change, counterparty } = one;
    const own = { wallet, condition, change };
    if (one.reason !== 'transfer') return [own];
    return [own, { wallet: counterparty, condition, change: [-change[0], -change[1]] as const }];
  }
  return one.questions.map(({ condition, isGiven }) => ({
    ...{ wallet: one.wallet, condition },
    change: isGiven ? ([0n, -one.amount] as const) : ([one.out, 0n] as const),
  }));
}

/** Moves of one event, or of one log between two wallets, are one movement. */
function merged(named: readonly Part[]): Iterable<Movement> {
  const groups = new Map<string, Movement>();
  for (const { group, movement } of named) {
    const one = at(groups, group, (): Movement => ({ ...movement, change: [0n, 0n] }));
    one.change[0] += movement.change[0];
    one.change[1] += movement.change[1];
  }
  return groups.values();
}

/** The merge or redemption of this condition that follows. */
function eventAfter(logs: readonly ChainLog[], log: number, condition: string) {
  for (const { topics, data, logIndex } of logs) {
    if (Number(logIndex) < log) continue;
    const values = words(data);
    const at = { log: Number(logIndex) };
    // Words: collateral, offset of the partition, amount.
    if (topics[0] === TOPICS.merge && topics[3] === condition)
      return { ...at, reason: 'merge', paid: values[2] ?? 0n } as const;
    // Words: condition, offset of the index sets, payout.
    if (topics[0] === TOPICS.redeem && values[0] === BigInt(condition))
      return { ...at, reason: 'redeem', paid: values[2] ?? 0n } as const;
  }
  return undefined;
}

/** The split that these shares come from: after them if they were minted for the wallet, else before them. */
function splitOf(logs: readonly ChainLog[], move: Move, condition: string, wallet: string) {
  const isDirect = move.from === ZERO;
  const splits = logs.filter(({ topics }) => topics[0] === TOPICS.split && topics[3] === condition);
  const found = isDirect
    ? splits.find(
        ({ logIndex, topics }) =>
          Number(logIndex) > move.log && addressOf(topics[1] ?? '') === wallet,
      )
    : splits.findLast(({ logIndex }) => Number(logIndex) < move.log);
  if (found === undefined) return undefined;
  const paid = -(words(found.data)[2] ?? 0n);
  return { log: Number(found.logIndex), reason: 'split', paid } as const;
}

function movesOf({ topics, data, logIndex }: ChainLog): readonly Move[] {
  const [kind, operator = '', from = '', to = ''] = topics;
  if (kind !== TOPICS.single && kind !== TOPICS.batch) return [];
  const ends = { operator: addressOf(operator), from: addressOf(from), to: addressOf(to) };
  const values = words(data);
  const log = Number(logIndex);
  if (kind === TOPICS.single) {
    const [token = 0n, amount = 0n] = values;
    return [{ ...ends, log, token: String(token), amount }];
  }
  const amounts = listAt(values, 1);
  return listAt(values, 0).map((token, i) => ({
    ...{ ...ends, log, token: String(token) },
    amount: amounts[i] ?? 0n,
  }));
}

/** The list whose offset in bytes is this word. */
function listAt(values: readonly bigint[], word: number): readonly bigint[] {
  const start = Number((values[word] ?? 0n) / 32n);
  return values.slice(start + 1, start + 1 + Number(values[start] ?? 0n));
}

const questions = new Map<string, ReadonlyMap<string, number>>();

/** The questions that a market can have, by condition: their ids are that of the market with the last byte counted up. */
function questionsOf(adapter: `0x${string}`, market: string): ReadonlyMap<string, number> {
  return new Map(
    Array.from({ length: 256 }, (_, index) => {
      const question = numberToHex(BigInt(market) | BigInt(index), { size: 32 });
      const packed = encodePacked(['address', 'bytes32', 'uint256'], [adapter, question, 2n]);
      return [keccak256(packed), index];
    }),
  );
}
