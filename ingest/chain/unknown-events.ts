/**
 * Looks for events of protocol version 2 that ingest does not know. Its contracts are new and were upgraded three times, and an event
 * that is not asked for would be missed without a trace. All logs of final blocks are read once more, BLOCKS at a time, whatever the
 * event; each unknown one is logged raw and counted. A failed search is tried again BLOCKS later.
 */
import type { Logger } from 'pino';
import { toEventSelector } from 'viem';
import type { Chain } from '../events/chains.ts';
import { finalLogFilter } from '../events/decode.ts';
import type { RangeLog, Rpc } from './rpc.ts';

/** On Polygon these may have 8,000 logs; many nodes refuse more than 10,000. */
const BLOCKS = 10;
/** After a pause or in a catch-up, older blocks are left out. */
const BLOCKS_MAX = 100;

/** Events that move no shares and resolve nothing. */
const HARMLESS = [
  'FeeCharged(address,uint256)',
  'TradingPaused(address)',
  'TradingUnpaused(address)',
  'OrderPreapproved(bytes32)',
  'OrderPreapprovalInvalidated(bytes32)',
  'UserPaused(address,uint256)',
  'UserUnpaused(address)',
  'UserPauseBlockIntervalUpdated(uint256,uint256)',
  'ApprovalForAll(address,address,bool)',
  'ResultReported(address,bytes31,uint256[])',
  'EventPrepared(bytes29,uint256,bytes32)',
  'LegacyCollateralSettled(address,address,uint256)',
  'CrossModuleAuthSet(address,bool)',
  'OwnershipTransferred(address,address)',
  'OwnershipHandoverRequested(address)',
  'OwnershipHandoverCanceled(address)',
  'Initialized(uint64)',
].map((event) => toEventSelector(event));

export type UnknownEventsOptions = {
  readonly rpc: Pick<Rpc, 'allLogs'>;
  readonly chain: Chain;
  readonly logger: Logger;
};

export class UnknownEvents {
  readonly #options: UnknownEventsOptions;
  readonly #addresses: readonly string[];
  readonly #known: ReadonlySet<string>;
  /** First block to search. */
  #from: number | undefined;
  /** Newest block of the last search. */
  #searched = 0;
  #isSearching = false;
  #isFailing = false;
  /** Found since startup. */
  found = 0;

  constructor(options: UnknownEventsOptions) {
    const { chain } = options;
    this.#options = options;
    const v3 = [...chain.exchanges].flatMap(([address, ids]) => (ids === 'v3' ? [address] : []));
    const { v2 } = chain.shares ?? {};
    this.#addresses = v2 === undefined ? [] : [...v3, v2.positionManager, ...v2.modules];
    this.#known = new Set([...finalLogFilter(chain).topics, ...HARMLESS]);
  }

  /** Call it with the number of each final block that LEDGER has stored. Searches in the background, once it is due. */
  stored(block: number): void {
    if (this.#from === undefined) {
      this.#from = block;
      this.#searched = block - 1;
    }
    const isDue = block - this.#searched >= BLOCKS;
    if (this.#addresses.length === 0 || this.#isSearching || !isDue) return;
    this.#searched = block;
    this.#isSearching = true;
    void this.#search(Math.max(this.#from, block + 1 - BLOCKS_MAX), block)
      .then(() => {
        this.#isFailing = false;
      })
      .catch((err) => {
        if (!this.#isFailing)
          this.#options.logger.warn({ err, to: block }, 'unknown events could not be looked for');
        this.#isFailing = true;
      })
      .finally(() => {
        this.#isSearching = false;
      });
  }

  async #search(from: number, to: number): Promise<void> {
    for (let first = from; first <= to; first += BLOCKS) {
      const last = Math.min(first + BLOCKS - 1, to);
      for (const log of await this.#options.rpc.allLogs(this.#addresses, first, last))
        this.#check(log);
      this.#from = last + 1;
    }
  }

  #check({ address, blockNumber: block, transactionHash: transaction, topics, data }: RangeLog) {
    if (this.#known.has(topics[0] ?? '')) return;
    this.found += 1;
    this.#options.logger.error(
      { address, block, transaction, topics, data },
      'an event of protocol version 2 that is not known',
    );
  }
}
