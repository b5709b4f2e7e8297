/**
 * Watches where the money goes. If the exchange moved to contracts that ingest does not know, everything would look healthy and empty;
 * but the money of its trades would still move. In the newest SAMPLE of every BLOCKS final blocks, this is the part of the pUSD that
 * was transferred in transactions without any log that ingest reads. Above MOST it is an error, with the contracts that were called.
 * A failed search is tried again with the next block.
 */
import type { Logger } from 'pino';
import { type Hex, toEventSelector } from 'viem';
import type { Chain } from '../events/chains.ts';
import { finalLogFilter } from '../events/decode.ts';
import type { LogFilter } from '../events/log.ts';
import type { RangeLog, Rpc } from './rpc.ts';

const BLOCKS = 100;
const SAMPLE = 5;
const MOST = 0.5;
/** Below this, a few wallets decide, micro-USDC. */
const MONEY_MIN = 1_000_000_000n;
const CALLED_MAX = 5;

const TRANSFER = toEventSelector('Transfer(address,address,uint256)');
const NOBODY = `0x${'0'.repeat(64)}`;

export type UnwatchedFlowOptions = {
  readonly rpc: Pick<Rpc, 'rangeLogs' | 'block'>;
  readonly chain: Chain;
  readonly logger: Logger;
};

export class UnwatchedFlow {
  readonly #options: UnwatchedFlowOptions;
  readonly #filter: LogFilter;
  #next: number | undefined;
  #isSearching = false;
  /** 0 to 1, of the newest sample with enough money; undefined before. */
  share: number | undefined;

  constructor(options: UnwatchedFlowOptions) {
    this.#options = options;
    this.#filter = finalLogFilter(options.chain);
  }

  /** Call it with the number of each final block that LEDGER has stored. Searches in the background, once it is due. */
  stored(block: number): void {
    this.#next ??= block + BLOCKS - 1;
    if (this.#isSearching || block < this.#next) return;
    this.#isSearching = true;
    void this.#search(block)
      .then(() => {
        this.#next = block + BLOCKS;
      })
      .catch((err) => this.#options.logger.debug({ err, block }, 'the flow of money was not read'))
      .finally(() => {
        this.#isSearching = false;
      });
  }

  async #search(to: number): Promise<void> {
    const { chain, logger } = this.#options;
    const from = to - SAMPLE + 1;
    const money = await this.#logs(from, to, { addresses: [chain.collateral], topics: [TRANSFER] });
    const watched = await this.#logs(from, to, this.#filter);
    const known = new Set(watched.map(({ transactionHash }) => transactionHash));
    let [all, unwatched] = [0n, 0n];
    const flows = new Map<Hex, { block: number; amount: bigint }>();
    for (const { topics, data, transactionHash: hash, blockNumber: block } of money) {
      // Deposits and withdrawals mint and burn.
      if (topics[1] === NOBODY || topics[2] === NOBODY) continue;
      const amount = BigInt(data);
      all += amount;
      if (known.has(hash)) continue;
      unwatched += amount;
      flows.set(hash, { block, amount: (flows.get(hash)?.amount ?? 0n) + amount });
    }
    if (all < MONEY_MIN) return;
    this.share = Number((unwatched * 1_000n) / all) / 1_000;
    if (this.share <= MOST) return;
    const called = await this.#called(flows);
    const message = 'most money moves in transactions that ingest does not read';
    logger.error({ from, to, share: this.share, called }, message);
  }

  #logs(from: number, to: number, filter: LogFilter): Promise<readonly RangeLog[]> {
    return this.#options.rpc.rangeLogs({ from, to, filter }, () => undefined);
  }

  /** The contracts that were called by the largest of these transactions. */
  async #called(
    flows: ReadonlyMap<Hex, { readonly block: number; readonly amount: bigint }>,
  ): Promise<readonly string[]> {
    const largest = [...flows].sort(([, a], [, b]) => (a.amount < b.amount ? 1 : -1));
    const some = largest.slice(0, CALLED_MAX);
    const blocks = new Set(some.map(([, { block }]) => block));
    const read = await Promise.all([...blocks].map((number) => this.#options.rpc.block(number)));
    const to = new Map(
      read.flatMap((block) =>
        (block?.transactions ?? []).map((one) => [one.hash, one.to] as const),
      ),
    );
    return [...new Set(some.flatMap(([hash]) => to.get(hash) ?? []))];
  }
}
