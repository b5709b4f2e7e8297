/**
 * Why shares moved, for one transaction. Fills explain what an exchange moves. Every other transfer of a trader is part of a
 * movement, so that for each wallet and token the transfers equal the fills plus the movements. Events only name the kind;
 * what no event names is `unexplained` and never dropped.
 */
import type { Hex } from 'viem';
import type { Hash } from '../../contract.ts';
import type { Side } from '../log.ts';
import type { Conversion, Move, Named, ShareContracts, ShareLogs } from './share-logs.ts';
import type { Restructured } from './v2-logs.ts';

export type Moved = {
  readonly kind: Exclude<Named['kind'], 'migrate'> | 'transfer' | 'refund' | 'unexplained';
  /** Of its first transfer. */
  readonly logIndex: number;
  readonly trader: Hex;
  /** The receiver of a transfer, or the contract of an unexplained movement; else ''. */
  readonly counterparty: Hex | '';
  readonly conditionId: Hash;
  /** Of the balances of outcome 0 and outcome 1, micro-shares. */
  readonly change: readonly [bigint, bigint];
  /** Of a redemption, micro-USDC. */
  readonly payout: bigint | undefined;
  readonly conversion: Conversion | undefined;
  readonly restructured?: Restructured | undefined;
};

export type TokenPlace = {
  readonly conditionId: Hash;
  readonly outcomeIndex: 0 | 1;
  /** The condition of protocol version 2 that continues this one. */
  readonly continuedBy?: Hash | undefined;
};

/** A fill of the transaction. */
export type Filled = {
  readonly logIndex: number;
  readonly trader: Hex;
  readonly isTaker: boolean;
  readonly side: Side;
  readonly tokenId: string;
  readonly shares: bigint;
};

/**
 * The movements of a transaction, by their first logs. `placeOf` knows the tokens that the exchanges trade; others (nested
 * positions, other collaterals, more outcomes) are ignored.
 */
export function movementsOf(
  { moves, named }: ShareLogs,
  fills: readonly Filled[],
  contracts: ShareContracts,
  placeOf: (tokenId: string) => TokenPlace | undefined,
): readonly Moved[] {
  const isTrader = traderTest(contracts);
  const found = new Map<string, Moved>();
  const add = (key: string, { tokenId, shares }: Change, movement: Described): void => {
    const place = placeOf(tokenId);
    if (place === undefined) return;
    const { conditionId, outcomeIndex } = place;
    const before = found.get(`${key}:${conditionId}`)?.change ?? [0n, 0n];
    const change: [bigint, bigint] = [...before];
    change[outcomeIndex] += shares;
    found.set(`${key}:${conditionId}`, {
      ...NOTHING_PAID,
      ...movement,
      ...found.get(`${key}:${conditionId}`),
      conditionId,
      change,
    });
  };
  const moved = new Exchanged();
  for (const move of moves) {
    const { from, to, tokenId, shares, logIndex } = move;
    const [isOut, isIn] = [isTrader(from), isTrader(to)];
    if (contracts.exchanges.has(move.operator)) {
      if (isOut) moved.add(from, tokenId, -shares, move);
      if (isIn) moved.add(to, tokenId, shares, move);
    } else if (isOut && isIn) {
      const movement = { kind: 'transfer', logIndex, trader: from, counterparty: to } as const;
      add(`${logIndex}`, { tokenId, shares: -shares }, movement);
    } else if (isOut || isIn) {
      const [trader, contract] = isOut ? [from, to] : [to, from];
      const change = { tokenId, shares: isOut ? -shares : shares };
      const { conditionId = '', continuedBy } = placeOf(tokenId) ?? {};
      const about = named.filter(
        ({ isAbout }) =>
          isAbout(conditionId, tokenId) || (continuedBy && isAbout(continuedBy, tokenId)),
      );
      const event = nameOf({ ...move, trader, contract, isOut }, about, contracts);
      if (event?.kind === 'migrate') {
        // What leaves ConditionalTokens comes back in the PositionManager, so nothing is left, unless the market is not known.
        const movement = { kind: 'unexplained', logIndex, trader, counterparty: contract } as const;
        add(`migrate:${trader}`, change, movement);
      } else if (event === undefined) {
        add(`${logIndex}`, change, {
          kind: 'unexplained',
          logIndex,
          trader,
          counterparty: contract,
        });
      } else {
        const { kind, payout, conversion, restructured } = event;
        // Each has a value of its own.
        const outcome = restructured === undefined ? '' : placeOf(tokenId)?.outcomeIndex;
        add(`${event.logIndex}:${trader}:${outcome}`, change, {
          ...{ kind, logIndex, trader, counterparty: '', payout, conversion, restructured },
        });
      }
    }
  }
  for (const { trader, exchange, isReturned, logIndex, ...change } of moved.without(fills)) {
    const named = isReturned
      ? ({ kind: 'refund', counterparty: '' } as const)
      : ({ kind: 'unexplained', counterparty: exchange } as const);
    add(`${named.kind}:${trader}`, change, { ...named, logIndex, trader });
  }
  return [...found.values()]
    .filter(({ change }) => change[0] !== 0n || change[1] !== 0n)
    .flatMap(inPairs)
    .sort((a, b) => a.logIndex - b.logIndex);
}

/** Splits and merges change both outcomes by the same amount. What one changed more is not explained by them. */
function inPairs(movement: Moved): readonly Moved[] {
  const { kind, change } = movement;
  const [zero, one] = change;
  if ((kind !== 'split' && kind !== 'merge') || zero === one) return [movement];
  const [less, more] = kind === 'split' ? [zero, one] : [-zero, -one];
  const pairs = less < 0n || more < 0n ? 0n : less < more ? less : more;
  const both = kind === 'split' ? pairs : -pairs;
  const rest: readonly [bigint, bigint] = [zero - both, one - both];
  const unexplained = { ...movement, kind: 'unexplained', change: rest } as const;
  return pairs === 0n ? [unexplained] : [{ ...movement, change: [both, both] }, unexplained];
}

type Change = { readonly tokenId: string; readonly shares: bigint };
type Described = Omit<Moved, 'conditionId' | 'change' | 'payout' | 'conversion'> &
  Partial<Pick<Moved, 'payout' | 'conversion'>>;
const NOTHING_PAID = { payout: undefined, conversion: undefined };
const ZERO = '0x0000000000000000000000000000000000000000';

/** Whether an address may be a trader: it is none of the contracts. */
export function traderTest(contracts: ShareContracts): (address: string) => boolean {
  const { conditionalTokens, negRiskAdapter, burn, v2 } = contracts;
  const sets = [
    ...[contracts.exchanges, contracts.silentAdapters, contracts.adapters],
    ...[contracts.redeemers, contracts.others, v2?.modules ?? new Set()],
  ];
  const single = new Set<string | undefined>([
    ...[ZERO, conditionalTokens, negRiskAdapter, burn, v2?.positionManager],
  ]);
  return (address) => !single.has(address) && !sets.some((set) => set.has(address));
}

/**
 * The event that names a transfer between a trader and a contract: the contract's own one about that trader; for minted and
 * burnt shares that of ConditionalTokens, for converted ones that of the neg-risk adapter. An adapter without events is the
 * caller of the contract behind it, which logs after the adapter took shares and before it hands them over. A module of
 * protocol version 2 takes shares, mints and burns before it logs, whoever called it. All events are about the shares' market.
 */
function nameOf(
  move: Move & {
    readonly trader: Hex;
    readonly contract: Hex;
    readonly isOut: boolean;
  },
  about: readonly Named[],
  { conditionalTokens, negRiskAdapter, silentAdapters, burn, v2 }: ShareContracts,
): Named | undefined {
  const { trader, contract, operator, isOut, logIndex } = move;
  const emitters = new Map([
    [ZERO, conditionalTokens],
    [burn, negRiskAdapter],
  ]);
  const after = (events: readonly Named[]) => events.find((event) => event.logIndex > logIndex);
  const module = contract === ZERO ? operator : contract;
  if (v2?.modules.has(module)) return after(about.filter(({ emitter }) => emitter === module));
  const own = about.filter(
    ({ by, emitter }) => by === trader && emitter === (emitters.get(contract) ?? contract),
  );
  // Where an adapter logs its own event among the transfers is not known for sure.
  if (own.length > 0) return after(own) ?? own.at(-1);
  if (!silentAdapters.has(contract)) return undefined;
  const behind = about.filter(({ by }) => by === contract);
  return isOut ? after(behind) : behind.findLast((event) => event.logIndex < logIndex);
}

type Left = Change & {
  readonly trader: Hex;
  readonly exchange: Hex | '';
  readonly logIndex: number;
};

/** What exchanges moved, by wallet and token. */
class Exchanged {
  readonly #left = new Map<string, Left>();

  add(
    trader: Hex,
    tokenId: string,
    shares: bigint,
    of: { operator?: Hex; logIndex: number },
  ): void {
    const key = `${trader}:${tokenId}`;
    const { operator: exchange = '', logIndex } = of;
    const known = this.#left.get(key) ?? { trader, tokenId, shares: 0n, exchange, logIndex };
    this.#left.set(key, { ...known, shares: known.shares + shares });
  }

  /** What no fill explains. An exchange returns to a taker what it did not sell. */
  without(fills: readonly Filled[]): readonly (Left & { readonly isReturned: boolean })[] {
    const sold = new Set<string>();
    for (const fill of fills) {
      const { trader, tokenId, side, shares, isTaker } = fill;
      this.add(trader, tokenId, side === 'SELL' ? shares : -shares, fill);
      if (isTaker && side === 'SELL') sold.add(`${trader}:${tokenId}`);
    }
    return [...this.#left]
      .filter(([, { shares }]) => shares !== 0n)
      .map(([key, left]) => ({ ...left, isReturned: left.shares > 0n && sold.has(key) }));
  }
}
