/**
 * Completes the events of a final block with its movements, and with the markets whose tokens became known. Blocks come in
 * order, because what a token is and what a share is worth depends on the blocks before.
 */
import type { Hex } from 'viem';
import type {
  Hash,
  LedgerEvent,
  LedgerMarket,
  Match,
  Movement,
  Resolution,
  TradingEvent,
} from '../../contract.ts';
import { isStructured } from '../structured-ids.ts';
import { positionIds } from '../token-ids.ts';
import { type ShareAlarm, ShareAlarms } from './alarms.ts';
import { comboParts, comboPayouts, type Leg } from './combos.ts';
import { conversionValues } from './conversion.ts';
import { KnownMarkets } from './known-markets.ts';
import { type Moved, movementsOf } from './movements.ts';
import { valuesOf } from './restructuring.ts';
import type { Conversion, ShareContracts, ShareLogs } from './share-logs.ts';
import type { Restructured } from './v2-logs.ts';

/** The decoded logs of a final block. */
export type DecodedBlock = {
  readonly blockNumber: number;
  /** Seconds since the epoch. */
  readonly blockTime: number;
  /** In log order. */
  readonly events: readonly TradingEvent[];
  /** By transaction. */
  readonly shares: ReadonlyMap<Hash, ShareLogs>;
};

type ByMarket = ReadonlyMap<string, bigint>;
type Values = Map<Conversion | Restructured, ByMarket>;
const ONE = 1_000_000n;
const FEE_DENOMINATOR = 10_000n;
const NO_LOGS: ShareLogs = { moves: [], named: [], conditions: [] };

export class BlockMovements {
  readonly #contracts: ShareContracts;
  /** By exchange, the token in the ids of its shares, unless they are structured. */
  readonly #collaterals: ReadonlyMap<string, Hex | 'v3'>;
  readonly #known: KnownMarkets;
  readonly #alarms: ShareAlarms;

  /** `known` is what was learnt from the blocks before. */
  constructor(
    contracts: ShareContracts,
    collaterals: ReadonlyMap<string, Hex | 'v3'>,
    known = new KnownMarkets(),
  ) {
    this.#contracts = contracts;
    this.#collaterals = collaterals;
    this.#known = known;
    this.#alarms = new ShareAlarms(contracts, (token) => known.placeOf(token));
  }

  get known(): KnownMarkets {
    return this.#known;
  }

  /** Learns from an event that LEDGER holds already. Call it with all of them, in order. */
  learn(event: LedgerEvent): void {
    this.#known.learn(event);
  }

  #collateralOf(conditionId: string): Hex | undefined {
    return this.#known.find(conditionId)?.tokens?.collateral;
  }

  /** Contracts and tokens in the last completed block that ingest does not know. Call it once per block. */
  alarms(block: DecodedBlock): readonly ShareAlarm[] {
    return this.#alarms.of(block);
  }

  /** All events of the next block, in log order. */
  complete({ blockNumber, blockTime, events, shares }: DecodedBlock): readonly LedgerEvent[] {
    const complete: LedgerEvent[] = [];
    const results = new Map<number, number>();
    const learn = (given: LedgerEvent) => {
      const event = given.kind === 'resolution' ? numbered(given, results) : given;
      this.#known.learn(event);
      complete.push(event);
      for (const result of this.#comboResults(event)) learn(result);
    };
    for (const [txHash, { own: logged, logs }] of byTransaction(events, shares)) {
      const at = { blockNumber, blockTime, txHash };
      this.#learnMarkets(logged, logs, (market) => learn({ kind: 'market', ...at, ...market }));
      const own = logged.map((event) => this.inMarket(event));
      const derived = this.#derivedResults(logs, own).map((one) => ({
        ...({ kind: 'resolution', ...at, ...one } as const),
      }));
      const fills = own.flatMap((event) => (event.kind === 'match' ? event.fills : []));
      const placeOf = (token: string) => this.#known.placeOf(token);
      const moved = movementsOf(logs, fills, this.#contracts, placeOf).map((one) => ({
        ...one,
        logIndex: this.#placed(one.logIndex, own, logs),
      }));
      const values: Values = new Map();
      const parts = new Map<number, number>();
      // A match comes before the movements that were placed after it.
      for (const next of inLogOrder<TradingEvent | Moved>([...own, ...derived, ...moved])) {
        if (!('change' in next)) {
          if (!this.#isRepeated(next)) learn(next);
          continue;
        }
        const part = parts.get(next.logIndex) ?? 0;
        parts.set(next.logIndex, part + 1);
        complete.push({ ...at, ...this.#movement(next, moved, values), part });
      }
    }
    return inLogOrder(complete);
  }

  /** The event with the id of its market, which a condition of protocol version 2 may continue. */
  inMarket<Event extends TradingEvent>(event: Event): Event {
    const conditionId = this.#known.marketOf(event.conditionId);
    return conditionId === event.conditionId ? event : { ...event, conditionId };
  }

  /** Several logs tell the result of a condition of protocol version 2. */
  #isRepeated(event: TradingEvent): boolean {
    const { payouts, continuedBy } = this.#known.find(event.conditionId) ?? {};
    const isV2 = continuedBy !== undefined || isStructured(event.conditionId);
    return event.kind === 'resolution' && isV2 && payouts !== undefined;
  }

  /** Results that follow from others of their event. A market that was continued has one of its own. */
  #derivedResults({ v2 }: ShareLogs, own: readonly TradingEvent[]) {
    const logged = new Set(
      own.flatMap((one) => (one.kind === 'resolution' ? one.conditionId : [])),
    );
    return (v2?.derived ?? []).flatMap(({ conditionIds, payouts, logIndex }) =>
      conditionIds
        .filter((id) => this.#known.marketOf(id) === id && !logged.has(id))
        .map((conditionId) => ({
          ...{ conditionId, logIndex, payouts: [...payouts] as [bigint, bigint] },
        })),
    );
  }

  /** Of the combos whose payout an event decides. */
  #comboResults(event: LedgerEvent): readonly Resolution[] {
    const { blockNumber, blockTime, txHash, logIndex } = event;
    return this.#affectedCombos(event).flatMap((combo) => {
      const { legs = [], payouts } = this.#known.find(combo) ?? {};
      const parts =
        payouts === undefined ? comboParts(legs.map((leg) => this.#leg(leg))) : undefined;
      if (parts === undefined) return [];
      const at = { blockNumber, blockTime, txHash, logIndex };
      return [{ kind: 'resolution', ...at, conditionId: combo, ...comboPayouts(parts) }];
    });
  }

  #affectedCombos(event: LedgerEvent): readonly Hash[] {
    if (event.kind === 'resolution') return this.#known.combosOf(event.conditionId);
    if (event.kind !== 'market') return [];
    if (event.legs !== undefined) return [event.conditionId];
    // A leg that continues a market may have its result with that.
    return event.legacyConditionId === undefined
      ? []
      : this.#known.combosOf(event.legacyConditionId);
  }

  #leg(tokenId: string): Leg {
    const { conditionId = '', outcomeIndex = 0 } = this.#known.placeOf(tokenId) ?? {};
    const { payouts } = this.#known.find(conditionId) ?? {};
    return payouts && { paid: payouts[outcomeIndex], total: payouts[0] + payouts[1] };
  }

  /**
   * A wallet may move shares as soon as the exchange hands them over, before the match is closed. They count after the match,
   * because fills are booked when it is closed.
   */
  #placed(logIndex: number, events: readonly TradingEvent[], { moves }: ShareLogs): number {
    const closed = events.filter(({ kind }) => kind === 'match').map((event) => event.logIndex);
    const next = closed.find((log) => log >= logIndex);
    if (next === undefined) return logIndex;
    const before = closed.findLast((log) => log < logIndex) ?? -1;
    const isDuring = moves.some(
      (move) =>
        move.logIndex > before &&
        move.logIndex <= logIndex &&
        this.#contracts.exchanges.has(move.operator),
    );
    return isDuring ? next : logIndex;
  }

  /** Reports markets whose tokens become known, or turn out to be others than was known. */
  #learnMarkets(
    events: readonly TradingEvent[],
    { conditions, v2 }: ShareLogs,
    report: (market: Omit<LedgerMarket, 'kind' | 'blockNumber' | 'blockTime' | 'txHash'>) => void,
  ): void {
    for (const { legs, ...market } of v2?.conditions ?? [])
      report(legs === undefined ? market : { ...market, legs: [...legs] });
    for (const { logIndex, conditionId, collateral, isPrepared, ...fee } of conditions) {
      const known = this.#collateralOf(conditionId);
      // Whoever holds a token may mint shares with it. Only a preparation says whose tokens the exchanges trade.
      const isNew = known === undefined || (isPrepared && known !== collateral);
      if (isNew || fee.feeBips !== undefined) report({ logIndex, conditionId, collateral, ...fee });
    }
    for (const event of events) {
      if (event.kind !== 'match') continue;
      const { logIndex, conditionId } = event;
      const collateral = this.#tradedCollateral(event);
      if (collateral === undefined || collateral === this.#collateralOf(conditionId)) continue;
      report({ logIndex, conditionId, collateral });
    }
  }

  /** The collateral in the ids of the shares that were traded. */
  #tradedCollateral({ exchange, conditionId, fills }: Match): Hex | undefined {
    const [fill] = fills;
    const known = this.#known.placeOf(fill?.tokenId ?? '');
    if (known?.conditionId === conditionId) return this.#collateralOf(conditionId);
    const { collateral, negRiskCollateral } = this.#contracts;
    return [this.#collaterals.get(exchange), collateral, negRiskCollateral].find(
      (token): token is Hex =>
        token !== undefined &&
        token !== 'v3' &&
        positionIds(token, conditionId).some((id) => id.toString() === fill?.tokenId),
    );
  }

  #movement(
    moved: Moved,
    all: readonly Moved[],
    values: Values,
  ): Omit<Movement, 'blockNumber' | 'blockTime' | 'txHash' | 'part'> {
    const { kind: reason, logIndex, conditionId, trader, counterparty, change } = moved;
    return {
      kind: 'movement',
      ...{ logIndex, reason, conditionId, trader, counterparty },
      change: [change[0], change[1]],
      usdc: this.#paid(moved, all, values),
      mark: this.#markOf(conditionId),
    };
  }

  #markOf(conditionId: Hash): bigint | null {
    const { payouts, price } = this.#known.find(conditionId) ?? {};
    if (payouts === undefined) return price ?? null;
    return (ONE * payouts[0]) / (payouts[0] + payouts[1]);
  }

  #paid(moved: Moved, all: readonly Moved[], values: Values): bigint {
    const { kind, change, payout, conversion, restructured, conditionId } = moved;
    if (kind === 'split' || kind === 'merge') return -change[0];
    if (kind === 'redeem') return payout ?? 0n;
    if (restructured !== undefined) {
      const byMarket = values.get(restructured) ?? this.#restructured(restructured, all);
      values.set(restructured, byMarket);
      return byMarket.get(placeKey(moved)) ?? 0n;
    }
    if (kind !== 'convert' || conversion === undefined) return 0n;
    const parts = all.filter((one) => one.conversion === conversion);
    const out = parts.find((one) => one.change[0] > 0n)?.change[0] ?? this.#paidForEach(conversion);
    // As of the first transfer.
    const byMarket = values.get(conversion) ?? this.#valuesOf(conversion, parts, out);
    values.set(conversion, byMarket);
    const value = byMarket.get(conditionId) ?? 0n;
    return change[0] > 0n ? -value : out - value;
  }

  /** A conversion of all questions hands out no Yes, of which the fee could be seen. */
  #paidForEach({ amount, out, first }: Conversion): bigint {
    const feeBips = BigInt(this.#known.find(first)?.feeBips ?? 0);
    // Rounds down, as the adapter does.
    return out ?? amount - (amount * feeBips) / FEE_DENOMINATOR;
  }

  #restructured(restructured: Restructured, all: readonly Moved[]): ByMarket {
    const parts = all.filter((one) => one.restructured === restructured);
    const values = valuesOf(
      restructured.cash,
      parts.map(({ conditionId, change: [zero, one] }) => {
        const mark = this.#markOf(conditionId) ?? undefined;
        return zero !== 0n
          ? { shares: zero, price: mark }
          : { shares: one, price: mark === undefined ? undefined : ONE - mark };
      }),
    );
    return new Map(parts.map((part, at) => [placeKey(part), values[at] ?? 0n]));
  }

  #valuesOf({ questionOf }: Conversion, parts: readonly Moved[], out: bigint): ByMarket {
    const number = ({ conditionId }: Moved) => questionOf(conditionId) ?? 0;
    const ids = parts.toSorted((a, b) => number(a) - number(b)).map((one) => one.conditionId);
    const questions = ids.map((id) => {
      const { payouts, price } = this.#known.find(id) ?? {};
      return { payouts, mark: price };
    });
    const values = conversionValues(out, questions);
    return new Map(ids.map((id, index) => [id, values[index] ?? 0n]));
  }
}

/** `results` counts them by log. */
function numbered(event: Resolution, results: Map<number, number>): Resolution {
  const before = results.get(event.logIndex) ?? 0;
  results.set(event.logIndex, before + 1);
  return before === 0 ? event : { ...event, part: before };
}

/** A trader, a market, and the outcome that changed. */
const placeKey = ({ trader, conditionId, change }: Moved) =>
  `${trader}:${conditionId}:${change[0] === 0n ? 1 : 0}`;

type OfTransaction = { readonly own: TradingEvent[]; readonly logs: ShareLogs };

/** The transactions of a block in its order. */
function byTransaction(
  events: readonly TradingEvent[],
  shares: ReadonlyMap<Hash, ShareLogs>,
): readonly (readonly [Hash, OfTransaction])[] {
  const found = new Map<Hash, OfTransaction>();
  for (const [txHash, logs] of shares) found.set(txHash, { own: [], logs });
  for (const event of events) {
    const known = found.get(event.txHash) ?? { own: [], logs: NO_LOGS };
    known.own.push(event);
    found.set(event.txHash, known);
  }
  const first = ({ own, logs: { moves, named, conditions, v2 } }: OfTransaction) => {
    const all = [own, moves, named, conditions, v2?.conditions, v2?.derived, v2?.foreign];
    return Math.min(...all.flatMap((logs) => logs?.[0]?.logIndex ?? []));
  };
  return [...found].sort(([, a], [, b]) => first(a) - first(b));
}

/** Movements of one log stay in their order. */
function inLogOrder<Event extends { readonly logIndex: number }>(events: readonly Event[]) {
  return events.toSorted((a, b) => a.logIndex - b.logIndex);
}
