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
  /** Of the trading that follows: the history's rate rises to it, so that its volume does not jump. */
  readonly matchesPerSecond: number;
  readonly onProgress: (done: number, total: number) => void;
};

/** This part of the matches is spread over all of the history; the others are in its ramp. */
const EVEN_PART = 0.42;
const ROUNDS = 20;
const HISTORY_BLOCK_MATCHES = 12;
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

/** The s for which rate / (1 + t / s), t seconds before the end, adds up to these matches. */
function rampSeconds(matches: number, rate: number, span: number): number {
  let scale = 1;
  for (let i = 0; i < ROUNDS; i++) scale = matches / rate / Math.log(1 + span / scale);
  return scale;
}

/** Ascending timestamps of the blocks, dense towards the end; the last is the end time. */
function blockTimes(options: HistoryOptions, random: Random): readonly number[] {
  const count = Math.max(2, Math.ceil(options.matches / HISTORY_BLOCK_MATCHES));
  const times = new Set<number>([options.endTime]);
  const span = options.endTime - options.startTime - 1;
  const scale = rampSeconds(options.matches * (1 - EVEN_PART), options.matchesPerSecond, span);
  for (let i = 0; i < count; i++) {
    const ago =
      i < count * EVEN_PART
        ? random.between(0, span)
        : scale * ((1 + span / scale) ** random.unit() - 1);
    times.add(Math.floor(options.endTime - ago));
  }
  return [...times].sort((a, b) => a - b);
}
