/**
 * Writes the devnet's history: about thirty days of matches in blocks with explicit timestamps, denser towards the end,
 * so that every time frame of the leaderboard has traders. The same seed and end time give the same transactions in the
 * same order.
 */
import type { Market } from './markets.ts';
import type { Match } from './orders.ts';
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
};

type HistoryBlock = {
  /** Unix seconds. */
  readonly time: number;
  readonly transactions: readonly Transaction[];
  readonly matches: readonly Match[];
};

const DAY_SECONDS = 86_400;
/** UTC. */
const PEAK_HOUR = 19;
/** The busiest hour has four times the matches of the quietest. */
const SWING = 0.6;
const EVEN_SECONDS = 6 * 3_600;
/** This share of the matches is spread evenly over the history; the rest forms the ramp at its end. */
const EVEN_PART = 0.42;
const ROUNDS = 20;
const HISTORY_BLOCK_MATCHES = 12;
/** How many consecutive matches are in one market, so that short-lived markets have trades. */
const STREAK_MAX = 5;
const MARKET_TRIES_MAX = 20;

/** Sends the whole history. Afterwards the holdings of `world` equal those on the chain. */
export async function writeHistory(
  rpc: Rpc,
  world: World,
  options: HistoryOptions & { readonly onProgress: (done: number, total: number) => void },
): Promise<void> {
  const sender = new Sender(rpc);
  let done = 0;
  // Plan the next block while the node is still busy with the previous one.
  let sending: Promise<void> = Promise.resolve();
  for (const block of planHistory(world, options)) {
    done += block.matches.length;
    await sending;
    sending = sendBlock(sender, block);
    options.onProgress(done, options.matches);
  }
  await sending;
}

async function sendBlock(sender: Sender, { transactions, time }: HistoryBlock): Promise<void> {
  await sender.send(transactions);
  await sender.mine(time);
}

/** An upper bound for the number of the history's last block. */
export function blocksMax(matches: number): number {
  // The first block has the contracts, the last one is at the end time.
  return blockCount(matches) + 2;
}

function blockCount(matches: number): number {
  return Math.max(2, Math.ceil(matches / HISTORY_BLOCK_MATCHES));
}

/** The blocks of the history, booked in `world` as they are taken. */
export function* planHistory(world: World, options: HistoryOptions): Generator<HistoryBlock> {
  const random = new Random(`history:${options.seed}`);
  const times = blockTimes(options, random);
  let done = 0;
  let previous = options.startTime;
  for (const [i, time] of times.entries()) {
    world.listV2(previous, time);
    previous = time;
    const wanted = Math.round(((i + 1) * options.matches) / times.length) - done;
    done += wanted;
    const block = planBlock(world, time, wanted, random);
    const isLast = i === times.length - 1;
    const open = isLast ? world.list(world.calendar.between(time, time)) : [];
    yield { ...block, transactions: [...block.transactions, ...open] };
  }
}

function planBlock(world: World, time: number, wanted: number, random: Random): HistoryBlock {
  const transactions = [...world.resolve(time), ...world.deposit()];
  const matches: Match[] = [];
  let market: Market | undefined;
  let streak = 0;
  for (let tries = 0; matches.length < wanted && tries < wanted * MARKET_TRIES_MAX; tries++) {
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
    matches.push(planned.match);
  }
  return { time, transactions, matches };
}

/** The s for which rate / (1 + t / s), t seconds before the end, adds up to these matches. */
function rampSeconds(matches: number, rate: number, span: number): number {
  let scale = 1;
  for (let i = 0; i < ROUNDS; i++) scale = matches / rate / Math.log(1 + span / scale);
  return scale;
}

/**
 * The trading activity in that second: highest in the European evening and American afternoon, lowest twelve hours later.
 * The last hours are even, because the live trading that follows has no daily rhythm.
 */
function activity(time: number, ago: number): number {
  const hours = (time % DAY_SECONDS) / 3_600 - PEAK_HOUR;
  const swing = SWING * Math.min(1, ago / EVEN_SECONDS);
  return 1 + swing * Math.cos((hours / 24) * 2 * Math.PI);
}

/** Ascending timestamps of the blocks, dense towards the end; the last is the end time. */
function blockTimes(options: HistoryOptions, random: Random): readonly number[] {
  const count = blockCount(options.matches);
  const times = new Set<number>([options.endTime]);
  const span = options.endTime - options.startTime - 1;
  const scale = rampSeconds(options.matches * (1 - EVEN_PART), options.matchesPerSecond, span);
  for (let i = 0; i < count; i++) {
    let [ago, time] = [0, 0];
    do {
      ago =
        i < count * EVEN_PART
          ? random.between(0, span)
          : scale * ((1 + span / scale) ** random.unit() - 1);
      time = Math.floor(options.endTime - ago);
    } while (random.unit() * (1 + SWING) > activity(time, ago));
    times.add(time);
  }
  return [...times].sort((a, b) => a - b);
}
