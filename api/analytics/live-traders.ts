/**
 * Sums of a trader's recent windows, live for the traders who are asked for: the first request reads their cells as of one
 * block, later ones get them from memory (live-cells.ts). docs/decisions/0010-live-sums.md explains it. While requests
 * arrive, the memory follows the newest block that all projectors have stored completely. On any doubt, everything is
 * forgotten, and read again when it is asked for.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import type { ProcessStates } from '../../infra/nats/states.ts';
import { Problem } from '../http/errors.ts';
import { type Live, LiveCells } from './live-cells.ts';
import {
  isContinued,
  type Place,
  readLabels,
  readPeriod,
  readStored,
  readTables,
  type Tables,
} from './live-log.ts';
import { type Reading, read } from './query.ts';
import { rowOf, seconds } from './rows.ts';
import { NEWEST_BLOCK, readPairs, sumWindows, type TagSums } from './trader-cells.ts';

/** The memory is brought to the newest block this often, while requests arrive. */
const FOLLOW_MS = 200;
/** A request waits for that if the last time was so long ago. */
const WAIT_MS = 500;
/** After a longer pause between requests, it is cheaper to read again. */
const PAUSE_SECONDS_MAX = 60;
/** Much less than the shortest window, so that what leaves a window was stored before it is read. */
const BEHIND_SECONDS_MAX = 600;
/** Projectors that store so much at once are catching up. */
const ROWS_MAX = 20_000;
/** Changed labels are read this often, and again for a while, because the dictionary of labels follows the listings. */
const LABELS_MS = 2_000;
const LABELS_OVERLAP_SECONDS = 30;
const MARKETS_MAX = 200_000;

/** The memory, and up to where it is exact. */
type Memory = {
  readonly cells: LiveCells;
  /** Of the traders whose cells are being read. */
  readonly loads: Map<string, Promise<Live>>;
  readonly tables: Tables;
  /** All blocks up to this one count, and none after it. */
  place: Place;
  /** By the monotonic clock. */
  followedAtMs: number;
  labelsAtMs: number;
};

export type Recent = {
  /** For each window, shortest first, sums over the markets with equal tags. Windows end now. */
  readonly windows: readonly (readonly TagSums[])[];
  /** Time of the newest fill of all, seconds since the epoch; 0 without one. */
  readonly lastTradeAt: number;
};

export type LiveTraders = ReturnType<typeof createLiveTraders>;

export function createLiveTraders(options: {
  readonly reading: Omit<Reading, 'signal'>;
  readonly states: Pick<ProcessStates, 'of'>;
  /** Bytes of memory, estimated; 0: all requests are answered by statements. */
  readonly bytesMax: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly monotonicNow: () => number;
}) {
  const { states, bytesMax, monotonicNow } = options;
  // What is read serves other requests, too, so a client's disconnect must not abort it.
  const reading = { ...options.reading, signal: null };
  const clock = () => Math.floor(options.now() / 1_000);
  let memory: Memory | undefined;
  let following: Promise<void> | undefined;

  /** The memory as of now; undefined if statements have to answer. */
  async function current(): Promise<Memory | undefined> {
    if (bytesMax === 0) return undefined;
    const isNow = memory?.cells.advance(clock()) ?? false;
    const ageMs = monotonicNow() - (memory?.followedAtMs ?? 0);
    if (isNow && ageMs < FOLLOW_MS) return memory;
    following ??= follow()
      .catch((error: unknown) => {
        memory = undefined;
        // The statements that answer instead find the same outage.
        if (!(error instanceof Problem)) throw error;
      })
      .finally(() => {
        following = undefined;
      });
    // The next request gets an error that nobody waits for.
    following.catch(() => undefined);
    if (!isNow || ageMs >= WAIT_MS) await following;
    return memory;
  }

  async function follow(): Promise<void> {
    const place = storedPlace(states, clock());
    if (place === undefined) memory = undefined;
    else if (memory === undefined || isPaused(memory, clock())) memory = await begin(place);
    else if (!(await catchUp(memory, place))) memory = undefined;
  }

  async function begin(place: Place): Promise<Memory | undefined> {
    const now = clock();
    // The clock of the chain is ahead: its newest bookings are in no window yet.
    if (place.time > now) return undefined;
    const atMs = monotonicNow();
    const tables = await readTables(reading);
    // Replicas of a cluster do not have the same rows at the same time.
    if (tables.length === 0 || tables.some(({ engine }) => engine !== 'MergeTree'))
      return undefined;
    return {
      cells: new LiveCells({ now, bytesMax }),
      ...{ loads: new Map(), tables, place, followedAtMs: atMs, labelsAtMs: atMs },
    };
  }

  /** Brings the memory to this block and to now. Returns whether it is exact. */
  async function catchUp(to: Memory, newest: Place): Promise<boolean> {
    const { cells, place } = to;
    const atMs = monotonicNow();
    const isLabelsDue = atMs - to.labelsAtMs >= LABELS_MS;
    const periods = cells.unread(clock());
    const [stored, labels, ...leaving] = await Promise.all([
      newest.block > place.block ? readStored(reading, place, newest.block, ROWS_MAX) : [],
      isLabelsDue ? readLabels(reading, LABELS_OVERLAP_SECONDS, ROWS_MAX) : [],
      ...periods.map((period) => (period === undefined ? [] : readPeriod(reading, period))),
    ]);
    // After the rows, so that all of them were read from these tables.
    const isSame = isContinued(to.tables, await readTables(reading));
    if (!isSame || [stored, labels].some(({ length }) => length === ROWS_MAX)) return false;
    for (const [window, period] of periods.entries()) {
      if (period !== undefined) cells.queue(window, period, leaving[window] ?? []);
    }
    if (!cells.advance(clock()) || cells.size.markets > MARKETS_MAX) return false;
    // The clock of the chain may be ahead.
    const early = stored.find(({ time }) => time > cells.now);
    const end = early === undefined ? newest : { block: early.block - 1, time: place.time };
    cells.enter(stored.filter(({ block }) => block <= end.block));
    if (end.block > place.block) to.place = end;
    for (const one of labels) cells.relabel(one.conditionId, one);
    if (isLabelsDue) to.labelsAtMs = atMs;
    to.followedAtMs = atMs;
    return true;
  }

  /** The trader's cells, which others may be waiting for. */
  async function liveOf({ cells, loads, place }: Memory, trader: string): Promise<Live> {
    const known = cells.find(trader);
    if (known !== undefined) return (await loads.get(trader)) ?? known;
    const live = cells.begin(trader);
    const wanted = { trader, now: cells.now, block: place.block };
    const loading = readRecent(reading, wanted).then((found) => {
      cells.fill(live, found);
      return live;
    });
    loads.set(trader, loading);
    try {
      return await loading;
    } catch (error) {
      cells.drop(trader, live);
      throw error;
    } finally {
      if (loads.get(trader) === loading) loads.delete(trader);
    }
  }

  return {
    /**
     * The sums of a trader, only over the markets of a series if there is one. Statements that only this request needs are
     * those of `own`. Throws Problem 503 if ClickHouse is unavailable.
     */
    async recent(own: Reading, trader: string, series?: string): Promise<Recent> {
      const used = await current();
      const found = used && (await liveOf(used, trader));
      // What was forgotten meanwhile may be wrong.
      const { pairs, lastTradeAt } =
        found !== undefined && used === memory
          ? found
          : await readRecent(own, { trader, now: clock(), block: NEWEST_BLOCK });
      const all = [...pairs.values()];
      const counted = all.filter(
        ({ labels }) => series === undefined || labels.series.toLowerCase() === series,
      );
      return { windows: sumWindows(counted), lastTradeAt };
    },
  };
}

/** The block up to which all projectors have stored everything; undefined if it is unknown or old. */
function storedPlace(states: Pick<ProcessStates, 'of'>, now: number): Place | undefined {
  const all = states.of('projector');
  const block = Math.min(...all.map((one) => one.block ?? -1));
  const time = Math.min(...all.map(({ reached }) => reached));
  return block >= 0 && now - time <= BEHIND_SECONDS_MAX ? { block, time } : undefined;
}

/** Whether the clock jumped, or nobody asked for a while. */
function isPaused({ cells }: Memory, now: number): boolean {
  return now < cells.now || now - cells.now > PAUSE_SECONDS_MAX;
}

async function readRecent(own: Reading, wanted: Parameters<typeof readPairs>[1]) {
  const { pairs, newestFill } = await readPairs(own, wanted);
  return { pairs, lastTradeAt: newestFill || (await readNewest(own, wanted.trader)) };
}

const ActivityRow = rowOf({ newest: seconds('max(last_trade_at)') });

const ACTIVITY_SQL = `
SELECT ${ActivityRow.columns}
FROM trader_activity
WHERE trader = {trader:FixedString(20)}`;

/** Time of a trader's newest fill, seconds since the epoch; 0 without a fill. */
async function readNewest(reading: Reading, trader: string): Promise<number> {
  const parameters = { trader: new Bytes(trader) };
  const [activity] = await read(reading, { sql: ACTIVITY_SQL, parameters, row: ActivityRow });
  return activity?.newest ?? 0;
}
