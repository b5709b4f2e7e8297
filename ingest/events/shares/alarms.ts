/**
 * Contracts and tokens that ingest does not know. Their shares are accounted by the rules for wallets and unexplained
 * movements, or not at all, so a person has to look. Each is stored in LEDGER as a refused log.
 */
import { LRUCache } from 'lru-cache';
import type { Hash, TradingEvent } from '../../contract.ts';
import { DecodeError } from '../log.ts';
import { type TokenPlace, traderTest } from './movements.ts';
import type { Move, ShareContracts, ShareLogs } from './share-logs.ts';

/** Nobody but an exchange, an adapter or a redeemer moves shares of more owners than this in a day. */
const OWNERS_MAX = 20;
/** Operators of a day; about 2 KB each. */
const OPERATORS_MAX = 10_000;
const DAY_SECONDS = 86_400;

export type ShareAlarm = {
  readonly txHash: Hash;
  readonly logIndex: number;
  readonly error: DecodeError;
};

export class ShareAlarms {
  readonly #contracts: ShareContracts;
  readonly #placeOf: (tokenId: string) => TokenPlace | undefined;
  readonly #isTrader: (address: string) => boolean;
  /** By operator, the owners whose shares it moved on this day. */
  readonly #owners = new LRUCache<string, Set<string>>({ max: OPERATORS_MAX });
  #day = 0;

  /** `placeOf` knows the tokens that the exchanges trade. */
  constructor(contracts: ShareContracts, placeOf: (tokenId: string) => TokenPlace | undefined) {
    this.#contracts = contracts;
    this.#placeOf = placeOf;
    this.#isTrader = traderTest(contracts);
  }

  /** Of the next block, whose markets are known already. */
  of({
    blockTime,
    events,
    shares,
  }: {
    /** Seconds since the epoch. */
    readonly blockTime: number;
    readonly events: readonly TradingEvent[];
    /** By transaction. */
    readonly shares: ReadonlyMap<Hash, ShareLogs>;
  }): readonly ShareAlarm[] {
    const day = Math.floor(blockTime / DAY_SECONDS);
    if (day !== this.#day) this.#owners.clear();
    this.#day = day;
    const alarms: ShareAlarm[] = [];
    for (const event of events) {
      if (event.kind !== 'match') continue;
      const { txHash, logIndex, fills } = event;
      const token = fills.find(({ tokenId }) => this.#placeOf(tokenId) === undefined)?.tokenId;
      if (token !== undefined) alarms.push({ txHash, logIndex, error: foreign(token) });
    }
    for (const [txHash, { moves, v2 }] of shares) {
      for (const { logIndex, tokenId } of v2?.foreign ?? [])
        alarms.push({ txHash, logIndex, error: foreign(tokenId) });
      for (const move of moves) {
        const error = this.#errorOf(move);
        const isKnown =
          alarms.at(-1)?.txHash === txHash && alarms.at(-1)?.logIndex === move.logIndex;
        // One for each log: a batch may have many such tokens.
        if (error !== undefined && !isKnown)
          alarms.push({ txHash, logIndex: move.logIndex, error });
      }
    }
    return alarms;
  }

  #errorOf({ operator, from, tokenId }: Move): DecodeError | undefined {
    // Others use ConditionalTokens, too, with tokens that are not ours.
    if (this.#placeOf(tokenId) === undefined)
      return operator === this.#contracts.negRiskAdapter ? foreign(tokenId) : undefined;
    if (operator === from || !this.#isTrader(operator) || !this.#isTrader(from)) return undefined;
    const owners = this.#owners.get(operator) ?? new Set();
    this.#owners.set(operator, owners);
    if (owners.size > OWNERS_MAX || owners.has(from)) return undefined;
    owners.add(from);
    return owners.size > OWNERS_MAX
      ? new DecodeError('unknown_operator', `${operator} moved shares of ${owners.size} owners`)
      : undefined;
  }
}

function foreign(tokenId: string): DecodeError {
  return new DecodeError('foreign_token', `${tokenId} belongs to no known market`);
}
