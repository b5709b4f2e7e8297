/**
 * Keeps the memory of live sums exact: while requests arrive, it follows the newest block that all projectors have stored
 * completely, and reads ahead what leaves a window. On any doubt, everything is forgotten, and read again when it is asked
 * for. docs/decisions/0010-live-sums.md explains it.
 */
import type { ProcessStates } from '../../infra/nats/states.ts';
import { Problem } from '../http/errors.ts';
import { LiveCells } from './live-cells.ts';
import { LiveHoldings } from './live-holdings.ts';
import {
  isContinued,
  type Place,
  readLabels,
  readPeriod,
  readResolved,
  readStored,
  readTables,
  type Tables,
} from './live-log.ts';
import { LivePool } from './live-pool.ts';
import type { Reading } from './query.ts';

/** The memory is brought to the newest block this often, while requests arrive. */
const FOLLOW_MS = 200;
/** A request waits for that only if the last time was so long ago, so one that comes every second does not. */
const WAIT_MS = 2_000;
/** After a longer pause between requests, it is cheaper to read again. */
const PAUSE_SECONDS_MAX = 60;
/** Much less than the shortest window, so that what leaves a window was stored before it is read. */
const BEHIND_SECONDS_MAX = 600;
/** Projectors that store so much at once are catching up. */
const ROWS_MAX = 20_000;
/** How often changed labels are read and the tables are checked. */
const LABELS_MS = 2_000;
/** Labels are read again for this long, because the dictionary is reloaded after a listing is stored. */
const LABELS_OVERLAP_SECONDS = 30;
const MARKETS_MAX = 200_000;

/** The memory, and the last block that it covers. */
export type Memory = {
  readonly cells: LiveCells;
  readonly holdings: LiveHoldings;
  readonly pool: LivePool;
  readonly tables: Tables;
  /** All blocks up to this one count, and none after it. */
  place: Place;
  /** By the monotonic clock. */
  followedAtMs: number;
  labelsAtMs: number;
};

export type LiveOptions = {
  readonly reading: Reading;
  readonly states: Pick<ProcessStates, 'of'>;
  /** Bytes of memory, estimated; 0: all requests are answered by statements. */
  readonly bytesMax: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly monotonicNow: () => number;
};

export function followMemory(options: LiveOptions) {
  const { reading, states, bytesMax, monotonicNow } = options;
  const clock = () => Math.floor(options.now() / 1_000);
  let memory: Memory | undefined;
  let following: Promise<void> | undefined;
  let forgotten = 0;

  async function follow(): Promise<void> {
    const place = storedPlace(states, clock());
    if (place === undefined) forget();
    else if (memory === undefined || isPaused(memory, clock())) {
      forget();
      memory = await begin(place);
    } else if (!(await catchUp(memory, place))) forget();
  }

  /** Lets the windows of the memory end now, if it was read so far ahead. */
  function advance(): boolean {
    try {
      return memory?.cells.advance(clock()) ?? false;
    } catch (error) {
      // One response fails, but none is wrong.
      forget();
      throw error;
    }
  }

  function forget(): void {
    if (memory !== undefined) forgotten += 1;
    memory = undefined;
  }

  async function begin(place: Place): Promise<Memory | undefined> {
    const now = clock();
    // The clock of the chain is ahead: its newest bookings are in no window yet.
    if (place.time > now) return undefined;
    const atMs = monotonicNow();
    const tables = await readTables(reading);
    // Replicas of a cluster do not have the same rows at the same time.
    if (tables.some(({ engine }) => /^(?:Distributed|Replicated)/.test(engine))) return undefined;
    const pool = new LivePool(bytesMax);
    return {
      pool,
      cells: new LiveCells({ now, traders: pool.kind('cells') }),
      holdings: new LiveHoldings(pool.kind('holdings')),
      ...{ tables, place, followedAtMs: atMs, labelsAtMs: atMs },
    };
  }

  /** Brings the memory to this block and to now. Returns whether it is exact. */
  async function catchUp(to: Memory, newest: Place): Promise<boolean> {
    const { cells, holdings, place } = to;
    const atMs = monotonicNow();
    const isNewer = newest.block > place.block;
    const isLabelsDue = atMs - to.labelsAtMs >= LABELS_MS;
    const periods = cells.unread(clock());
    if (!isNewer && !isLabelsDue && periods.every((period) => period === undefined)) {
      to.followedAtMs = atMs;
      return cells.advance(clock());
    }
    const [stored, resolved, labels, ...leaving] = await Promise.all([
      isNewer ? readStored(reading, place, newest.block, ROWS_MAX) : [],
      isNewer ? readResolved(reading, place, newest.block, ROWS_MAX) : [],
      isLabelsDue ? readLabels(reading, LABELS_OVERLAP_SECONDS, ROWS_MAX) : [],
      ...periods.map((period) => (period === undefined ? [] : readPeriod(reading, period))),
    ]);
    // After the rows, so that all of them were read from these tables.
    const isSame = isContinued(to.tables, await readTables(reading));
    const isWhole = [stored, resolved, labels].every(({ length }) => length < ROWS_MAX);
    const markets = Math.max(cells.markets.size, holdings.markets);
    if (!isSame || !isWhole || markets > MARKETS_MAX) return false;
    for (const [window, period] of periods.entries()) {
      if (period !== undefined) cells.queue(window, period, leaving[window] ?? []);
    }
    if (!cells.advance(clock())) return false;
    // The clock of the chain may be ahead.
    const early = stored.find(({ time }) => time > cells.now);
    const end = early === undefined ? newest : { block: early.block - 1, time: place.time };
    const isReached = ({ block }: { readonly block: number }) => block <= end.block;
    const entering = stored.filter(isReached);
    cells.enter(entering.filter((row) => row.isCounted));
    holdings.enter(entering);
    for (const one of resolved.filter(isReached)) holdings.resolve(one);
    for (const one of labels) cells.relabel(one.conditionId, one);
    if (end.block > place.block) to.place = end;
    if (isLabelsDue) to.labelsAtMs = atMs;
    to.followedAtMs = atMs;
    return true;
  }

  return {
    /** The memory as of now; undefined if statements have to answer. */
    async current(): Promise<Memory | undefined> {
      if (bytesMax === 0) return undefined;
      const isNow = advance();
      const ageMs = monotonicNow() - (memory?.followedAtMs ?? 0);
      if (isNow && ageMs < FOLLOW_MS) return memory;
      following ??= follow()
        .catch((error: unknown) => {
          forget();
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
    },
    /** Whether this is still the memory: what was forgotten may be wrong. */
    isValid: (one: Memory | undefined): one is Memory => one !== undefined && one === memory,
    /** Seconds since the epoch. */
    clock,
    /** Traders' cells and holdings in memory and their bytes, estimated, and how often everything was forgotten. */
    size: () => ({ ...(memory?.pool.size ?? { entries: 0, bytes: 0 }), forgotten }),
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
