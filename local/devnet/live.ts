/**
 * Trades live: sends matches at a given rate to the mempool, where they wait for the next block. Markets are listed
 * shortly before they open and resolved after they end. Now and then a trader splits money or merges shares. A few calls revert on purpose: matches of an operator that
 * cannot be paid, and matches of a stranger. All others are sent only if the holdings allow them. If one of them
 * reverts anyway, it is reported and the holdings are read from the chain again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hex } from 'viem';
import { STRANGER } from './contracts.ts';
import { encodeMatch } from './orders.ts';
import { Random } from './random.ts';
import { type Rpc, Sender, type Transaction } from './rpc.ts';
import { LIST_AHEAD_SECONDS, type PlannedMatch, type World } from './world.ts';

type LiveOptions = {
  readonly seed: number;
  readonly matchesPerSecond: number;
  readonly signal: AbortSignal;
  /** True while no blocks are mined; then nothing is sent. */
  readonly isHeld: () => boolean;
  readonly onRevert: (hash: Hex) => void;
};

const UPKEEP_MS = 1_000;
const DEPOSIT_MS = 20_000;
const REVIEW_MS = 4_000;
/** How often a trader splits or merges. */
const SPLIT_MS = 5_000;
const UNPAYABLE_CHANCE = 1 / 400;
const SPOOF_CHANCE = 1 / 600;
/** After a pause (a sleeping machine, a stopped process) older matches are skipped, not sent in a burst. */
const BACKLOG_MS_MAX = 2_000;

/**
 * Runs until the signal aborts. Throws if the chain refuses a call or stops responding: the bookings of a call that was
 * never sent cannot be undone, so the process must end and the next one read the chain again.
 */
export async function tradeLive(rpc: Rpc, world: World, options: LiveOptions): Promise<void> {
  const sender = new Sender(rpc);
  const review = new Review(rpc, world, options.onRevert);
  const head = await review.start();
  const random = new Random(`live:${options.seed}:${head}`);
  const splits = new Random(`splits:${options.seed}:${head}`);
  const due = { upkeep: 0, deposit: 0, review: 0, split: Date.now() + SPLIT_MS, match: Date.now() };
  while (!options.signal.aborted) {
    if (options.isHeld()) {
      await sleep(UPKEEP_MS, undefined, { signal: options.signal }).catch(() => {});
      continue;
    }
    const now = Date.now();
    if (now >= due.upkeep) {
      due.upkeep = now + UPKEEP_MS;
      const seconds = Math.floor(now / 1000);
      const upcoming = world.calendar.between(seconds, seconds + LIST_AHEAD_SECONDS);
      await sender.send([...world.list(upcoming), ...world.resolve(seconds)]);
    }
    if (now >= due.deposit) {
      due.deposit = now + DEPOSIT_MS;
      await sender.send(world.deposit());
    }
    if (now >= due.review) {
      due.review = now + REVIEW_MS;
      await review.check();
    }
    if (now >= due.split) {
      due.split = now + SPLIT_MS;
      const transaction = world.splitOrMerge(splits, Math.floor(now / 1000));
      if (transaction !== undefined) await sender.send([transaction]);
    }
    if (now >= due.match) {
      const gap = (-Math.log(1 - random.unit()) * 1000) / options.matchesPerSecond;
      due.match = Math.max(due.match + gap, now - BACKLOG_MS_MAX);
      await sendMatch(world, sender, random, review);
    }
    const next = Math.min(due.upkeep, due.match, due.review);
    const wait = Math.max(0, next - Date.now());
    if (wait > 0) await sleep(wait, undefined, { signal: options.signal }).catch(() => {});
  }
}

async function sendMatch(world: World, sender: Sender, random: Random, review: Review) {
  const now = Date.now();
  const market = world.chooseMarket(world.chooseTopic(), Math.floor(now / 1000));
  if (market === undefined) return;
  const listing = world.list([market]);
  const planned = world.match(market, now);
  const wanted = planned === undefined ? [] : [planned.transaction];
  const broken = planned === undefined ? [] : brokenCopies(planned, random);
  const hashes = await sender.send([...listing, ...wanted, ...broken]);
  review.expect(hashes.slice(listing.length + wanted.length));
}

/** Copies of a valid match that the exchange will reject. */
function brokenCopies(
  { match, transaction }: PlannedMatch,
  random: Random,
): readonly Transaction[] {
  const copies: Transaction[] = [];
  if (random.chance(UNPAYABLE_CHANCE)) {
    const poor = random.hex(20);
    const takerOrder = {
      ...match.takerOrder,
      maker: poor,
      signer: poor,
      salt: BigInt(random.hex(8)),
    };
    // The makers' orders may already be filled, but the exchange rejects the match in either case.
    copies.push({ ...transaction, data: encodeMatch({ ...match, takerOrder }) });
  }
  if (random.chance(SPOOF_CHANCE)) copies.push({ ...transaction, from: STRANGER });
  return copies;
}

/** Searches the receipts of new blocks for unplanned reverts. */
class Review {
  readonly #rpc: Rpc;
  readonly #world: World;
  readonly #onRevert: (hash: Hex) => void;
  readonly #expected = new Set<Hex>();
  #nextBlock = 0;

  constructor(rpc: Rpc, world: World, onRevert: (hash: Hex) => void) {
    this.#rpc = rpc;
    this.#world = world;
    this.#onRevert = onRevert;
  }

  /** Starts after the current head; returns its number. */
  async start(): Promise<number> {
    const head = Number(await this.#rpc.call<Hex>('eth_blockNumber'));
    this.#nextBlock = head + 1;
    return head;
  }

  expect(hashes: readonly Hex[]): void {
    for (const hash of hashes) this.#expected.add(hash);
  }

  async check(): Promise<void> {
    const head = Number(await this.#rpc.call<Hex>('eth_blockNumber'));
    let hasUnexpected = false;
    for (; this.#nextBlock <= head; this.#nextBlock++) {
      const block = `0x${this.#nextBlock.toString(16)}`;
      const receipts = await this.#rpc.call<readonly { status: Hex; transactionHash: Hex }[]>(
        'eth_getBlockReceipts',
        block,
      );
      for (const { status, transactionHash } of receipts) {
        if (this.#expected.delete(transactionHash) || status === '0x1') continue;
        hasUnexpected = true;
        this.#onRevert(transactionHash);
      }
    }
    if (hasUnexpected) await this.#reload();
  }

  /** Waits until nothing is pending, so that the chain's balances are complete. */
  async #reload(): Promise<void> {
    while ((await this.#pendingCount()) > 0) await sleep(UPKEEP_MS / 4);
    const wallets = this.#world.traders.map((trader) => trader.address);
    await this.#world.holdings.load(this.#rpc, wallets, this.#world.unresolved);
  }

  async #pendingCount(): Promise<number> {
    return Number((await this.#rpc.call<{ pending: Hex }>('txpool_status')).pending);
  }
}
