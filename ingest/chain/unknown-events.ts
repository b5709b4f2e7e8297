/**
 * Looks for events of protocol version 2 that ingest does not know. Its contracts are new and were upgraded three times, and an event
 * that is not asked for would be missed without a trace. Every BLOCKS final blocks, all their logs are read once more, whatever the
 * event; each unknown one is logged raw and counted. A search that fails is tried again with the next blocks.
 */
import type { Logger } from 'pino';
import { type Hex, toEventSelector } from 'viem';
import type { Chain } from '../events/chains.ts';
import { finalLogFilter } from '../events/decode.ts';
import type { Rpc } from './rpc.ts';

const BLOCKS = 100;
/** After a pause or in a catch-up, older blocks are left out. */
const BLOCKS_MAX = 1_000;

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
  #from: number | undefined;
  #isSearching = false;
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
    this.#from ??= block;
    const from = Math.max(this.#from, block + 1 - BLOCKS_MAX);
    if (this.#addresses.length === 0 || this.#isSearching || block - from + 1 < BLOCKS) return;
    this.#isSearching = true;
    void this.#search(from, block)
      .then(() => {
        this.#from = block + 1;
      })
      .catch((err) =>
        this.#options.logger.debug({ err, from, to: block }, 'unknown events were not looked for'),
      )
      .finally(() => {
        this.#isSearching = false;
      });
  }

  async #search(from: number, to: number): Promise<void> {
    const { rpc, logger } = this.#options;
    for (let first = from; first <= to; first += BLOCKS) {
      const last = Math.min(first + BLOCKS - 1, to);
      for (const log of await rpc.allLogs(this.#addresses, first, last)) {
        const [topic = '' as Hex] = log.topics;
        if (this.#known.has(topic)) continue;
        this.found += 1;
        const { address, blockNumber: block, transactionHash: transaction, topics, data } = log;
        logger.error(
          { address, block, transaction, topics, data },
          'an event of protocol version 2 that is not known',
        );
      }
    }
  }
}
