/**
 * Publishes balances of shares to METADATA, to be compared with what was booked (projector/compare-balances.ts): of each
 * block, one trader and market whose balances it changed enter a sample. The sample is read in turn, PAIRS_AT_ONCE by one
 * call to each contract that holds shares every ROUND_MS, at the newest final block of LEDGER. After a failed call, the next ones wait for the next round.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { Address, Hash, LedgerEvent, ShareBalances } from '../contract.ts';
import type { KnownMarkets } from '../events/shares/known-markets.ts';
import type { Rpc } from './rpc.ts';

const ROUND_MS = 10_000;
const ROUND_MS_MAX = 600_000;
/** 86,400 a day, which take 11 MB in METADATA. */
const PAIRS_AT_ONCE = 10;
/** On Polygon, a pair stays for three hours and is read about twice. 200 bytes each. */
const PAIRS_MAX = 5_000;

type Pair = { readonly trader: Address; readonly conditionId: Hash };
type ReadPair = Pair & { readonly tokens: ReturnType<KnownMarkets['tokensOf']> };

export type SharesOptions = {
  readonly rpc: Pick<Rpc, 'shareBalances'>;
  readonly conditionalTokens: Hex;
  /** Undefined without protocol version 2. */
  readonly positionManager: Hex | undefined;
  readonly known: Pick<KnownMarkets, 'tokensOf'>;
  /** The movements of all blocks from here on are read. */
  readonly coveredFrom: number;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onBalances: (balances: ShareBalances) => Promise<void>;
  /** Pause between two rounds, milliseconds; 10,000 by default. */
  readonly roundMs?: number;
};

export class SampledShares {
  readonly #options: SharesOptions;
  readonly #pairs: Pair[] = [];
  /** Number of pairs that have entered the sample; the newest one replaces the oldest. */
  #entered = 0;
  /** The place in the sample from where it is read next. */
  #turn = 0;
  #block = 0;
  /** Since startup: pairs of balances published, and pairs of failed calls. */
  readonly counts = { read: 0, failed: 0 };

  constructor(options: SharesOptions) {
    this.#options = options;
  }

  /** Takes a pair of a block that LEDGER has stored into the sample. Its hash decides which one. */
  stored({ number, hash }: { number: number; hash: string }, events: readonly LedgerEvent[]): void {
    this.#block = Math.max(this.#block, number);
    const changed = events.flatMap(pairsOf);
    const pair = changed[Number(`0x${hash.slice(-8)}`) % changed.length];
    if (pair === undefined) return;
    this.#pairs[this.#entered % PAIRS_MAX] = pair;
    this.#entered += 1;
  }

  /** Reads and publishes until the signal aborts. */
  async run(): Promise<void> {
    const { logger, signal, roundMs = ROUND_MS } = this.#options;
    for (let waitMs = roundMs; !signal.aborted; ) {
      const pairs = this.#next();
      try {
        if (pairs.length > 0) await this.#read(pairs);
        waitMs = roundMs;
      } catch (err) {
        this.counts.failed += pairs.length;
        waitMs = Math.min(waitMs * 2, ROUND_MS_MAX);
        if (!signal.aborted) logger.warn({ err }, 'balances of shares could not be read, retrying');
      }
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** The pairs whose turn it is, each once. */
  #next(): readonly ReadPair[] {
    const size = Math.min(PAIRS_AT_ONCE, this.#pairs.length);
    const next = new Map<string, ReadPair>();
    for (let n = 0; n < size; n++) {
      const pair = this.#pairs[(this.#turn + n) % this.#pairs.length];
      if (pair === undefined) continue;
      const tokens = this.#options.known.tokensOf(pair.conditionId);
      const isKnown =
        tokens.conditionalTokens !== undefined || tokens.positionManager !== undefined;
      if (isKnown) next.set(JSON.stringify(pair), { ...pair, tokens });
    }
    this.#turn += size;
    return [...next.values()];
  }

  async #read(pairs: readonly ReadPair[]): Promise<void> {
    const { conditionalTokens, positionManager, coveredFrom, onBalances } = this.#options;
    const blockNumber = this.#block;
    const held = pairs.map((): [bigint, bigint] => [0n, 0n]);
    const add = async (contract: Hex | undefined, holder: keyof ReadPair['tokens']) => {
      if (contract === undefined) return;
      const asked = pairs.flatMap(({ trader: owner, tokens }, at) =>
        (tokens[holder] ?? []).map((tokenId, outcome) => ({ owner, tokenId, at, outcome })),
      );
      const shares = await this.#balances(contract, asked, blockNumber);
      for (const [n, { at, outcome }] of asked.entries()) {
        const of = held[at];
        if (of !== undefined) of[outcome === 0 ? 0 : 1] += shares[n] ?? 0n;
      }
    };
    await add(conditionalTokens, 'conditionalTokens');
    await add(positionManager, 'positionManager');
    const balances = pairs.map(({ trader, conditionId }, at): ShareBalances['balances'][number] => {
      const [zero, one] = held[at] ?? [0n, 0n];
      return [trader, conditionId, zero, one];
    });
    await onBalances({ kind: 'share_balances', blockNumber, coveredFrom, balances });
    this.counts.read += pairs.length;
  }

  async #balances(
    contract: Hex,
    asked: readonly { readonly owner: Hex; readonly tokenId: string }[],
    blockNumber: number,
  ): Promise<readonly bigint[]> {
    if (asked.length === 0) return [];
    const owned = asked.map(({ owner, tokenId }) => ({ owner, tokenId: BigInt(tokenId) }));
    const shares = await this.#options.rpc.shareBalances(contract, owned, blockNumber);
    if (shares.length !== asked.length)
      throw new RangeError(`${shares.length} balances, not ${asked.length}`);
    return shares;
  }
}

/** The traders whose balances an event changed. */
function pairsOf(event: LedgerEvent): readonly Pair[] {
  if (event.kind === 'match')
    return event.fills.map(({ trader }) => ({ trader, conditionId: event.conditionId }));
  if (event.kind !== 'movement') return [];
  const { trader, conditionId, reason, counterparty } = event;
  const sender = { trader, conditionId };
  if (reason !== 'transfer' || counterparty === '') return [sender];
  return [sender, { trader: counterparty, conditionId }];
}
