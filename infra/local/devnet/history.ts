/**
 * Writes the devnet's past: some thirty days of matches in blocks with explicit timestamps, more of them
 * towards the end, so that every time frame of a leaderboard has traders. The same seed and end time give the
 * same transactions in the same order.
 */
import type { Market } from './markets.ts';
import { Random } from './random.ts';
import { type Rpc, Sender, type Transaction } from './rpc.ts';
import type { World } from './world.ts';

type HistoryOptions = {
  readonly seed: number;
  readonly startTime: number;
  readonly endTime: number;
  readonly matches: number;
  readonly onProgress: (done: number, total: number) => void;
};

const HOUR_SECONDS = 3600;
/** The part of the matches in each stretch before the end; the first stretch is all of history. */
const STRETCHES = [
  { hours: Number.POSITIVE_INFINITY, part: 0.42 },
  { hours: 72, part: 0.16 },
  { hours: 24, part: 0.14 },
  { hours: 4, part: 0.14 },
  { hours: 1, part: 0.14 },
];
export const HISTORY_BLOCK_MATCHES = 12;
/** Consecutive matches in one market, so that short windows see trading. */
const STREAK_MAX = 5;
const MARKET_TRIES_MAX = 20;

/** Sends the whole history. The holdings of `world` end as on the chain. */
export async function writeHistory(rpc: Rpc, world: World, options: HistoryOptions): Promise<void> {
  const sender = new Sender(rpc);
  const random = new Random(`history:${options.seed}`);
  const times = blockTimes(options, random);
  let done = 0;
  // A block is prepared while the node still works on the previous one.
  let sending: Promise<void> = Promise.resolve();
  for (const [i, time] of times.entries()) {
    const wanted = Math.round(((i + 1) * options.matches) / times.length) - done;
    const block = planBlock(world, time, wanted, random);
    if (i === times.length - 1) block.push(...world.list(world.calendar.between(time, time)));
    done += wanted;
    await sending;
    sending = sendBlock(sender, block, time);
    options.onProgress(done, options.matches);
  }
  await sending;
}

async function sendBlock(sender: Sender, block: readonly Transaction[], time: number) {
  await sender.send(block);
  await sender.mine(time);
}

function planBlock(world: World, time: number, wanted: number, random: Random): Transaction[] {
  const transactions = [...world.resolve(time), ...world.deposit()];
  let market: Market | undefined;
  let streak = 0;
  for (let count = 0, tries = 0; count < wanted && tries < wanted * MARKET_TRIES_MAX; tries++) {
    if (market === undefined || streak === 0) {
      market = world.chooseMarket(world.chooseTopic(), time);
      streak = 1 + random.below(STREAK_MAX);
    }
    streak--;
    if (market === undefined) continue;
    const listing = world.list([market]);
    const planned = world.match(market, time * 1000);
    transactions.push(...listing);
    if (planned === undefined) continue;
    transactions.push(planned.transaction);
    count++;
  }
  return transactions;
}

/** Ascending timestamps of the blocks, dense towards the end; the last is the end time. */
function blockTimes(options: HistoryOptions, random: Random): readonly number[] {
  const count = Math.max(2, Math.ceil(options.matches / HISTORY_BLOCK_MATCHES));
  const times = new Set<number>([options.endTime]);
  for (const { hours, part } of STRETCHES) {
    const from = Math.max(options.startTime + 1, options.endTime - hours * HOUR_SECONDS);
    for (let i = 0; i < Math.ceil(count * part); i++) {
      times.add(Math.floor(random.between(from, options.endTime)));
    }
  }
  return [...times].sort((a, b) => a - b);
}
