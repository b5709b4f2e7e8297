/**
 * Figures of a trader that are live for the traders who are asked for: the first request reads them, later ones get them
 * from memory (live-memory.ts). Where there is no memory, statements answer. Statements that serve only one request are
 * those of its `own` reading, and end with it. All functions throw Problem 503 if ClickHouse is unavailable.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { type Holding, readHoldings } from './holdings.ts';
import type { Live } from './live-cells.ts';
import { isAsOf, type LiveHolder, type LiveMark } from './live-holdings.ts';
import { followMemory, type LiveOptions, type Memory } from './live-memory.ts';
import { type Mark, type Marked, readMarkedOf, readMarks } from './marks.ts';
import type { PackedHoldings } from './packed-holdings.ts';
import { type Reading, read } from './query.ts';
import { rowOf, seconds } from './rows.ts';
import { type Market, type Markets, readCells, type TagSums } from './trader-cells.ts';
import { readSums } from './trader-sums.ts';

export type Recent = {
  /** For each window, shortest first, sums over the markets with equal tags. Windows end now. */
  readonly windows: readonly (readonly TagSums[])[];
  /** Time of the newest fill of all, seconds since the epoch; 0 without one. */
  readonly lastTradeAt: number;
};

export type Holdings<All> = {
  readonly holdings: All;
  /** Whether these are as of the block that the memory follows. Otherwise, they are newer. */
  readonly isLive: boolean;
};

export type LiveTraders = ReturnType<typeof createLiveTraders>;
export type LiveFigures = ReturnType<LiveTraders['figures']>;

export function createLiveTraders(
  options: Omit<LiveOptions, 'reading'> & { readonly reading: Omit<Reading, 'signal'> },
) {
  // Other requests wait for the same rows, so a client that disconnects must not abort the read.
  const reading = { ...options.reading, signal: null };
  const { current, isValid, clock, size } = followMemory({ ...options, reading });
  const answered = { memory: 0, statements: 0 };

  async function cellsOf({ cells, place }: Memory, trader: string): Promise<Live> {
    const known = cells.find(trader);
    if (known !== undefined) return await loaded(known);
    const live = cells.begin(trader);
    load([live], {
      found: readRecent(reading, { trader, now: cells.now, block: place.block }, cells.markets),
      fill: (recent) => cells.fill(live, recent),
      drop: () => cells.drop(live),
    });
    return await loaded(live);
  }

  async function holderOf({ holdings }: Memory, trader: string): Promise<LiveHolder> {
    const known = holdings.find(trader);
    if (known !== undefined) return await loaded(known);
    const holder = holdings.begin(trader);
    load([holder], {
      found: readHoldings(reading, trader, { isOpen: false }),
      fill: (rows) => holdings.fill(holder, rows),
      drop: () => holdings.drop(holder),
    });
    return await loaded(holder);
  }

  async function marksOf({ holdings }: Memory, conditionIds: readonly string[], trader: string) {
    const missing = conditionIds.filter((id) => holdings.findMark(id) === undefined);
    if (missing.length > 0) {
      const begun = new Map(missing.map((id) => [id, holdings.beginMark(id)] as const));
      load([...begun.values()], {
        found: readMarkedOf(reading, missing, trader),
        fill(found) {
          for (const [id, entry] of begun) holdings.fillMark(entry, found.get(id) ?? NO_MARK);
        },
        drop() {
          for (const [id, entry] of begun) holdings.dropMark(id, entry);
        },
      });
    }
    const entries = new Map<string, LiveMark>();
    for (const id of conditionIds) {
      const entry = holdings.findMark(id);
      if (entry !== undefined) entries.set(id, await loaded(entry));
    }
    return entries;
  }

  return {
    /** Size of the memory, and how many profiles and lists of positions it answered; statements answered the others. */
    figures: () => ({ ...size(), answered }),

    /** The sums of a trader, only over the markets of a series if there is one. */
    async recent(own: Reading, trader: string, series?: string): Promise<Recent> {
      const memory = await current();
      const live = memory && (await cellsOf(memory, trader));
      if (live !== undefined && isValid(memory) && memory.cells.has(live)) {
        answered.memory += 1;
        const isOfSeries = (market: Market) => market.series.toLowerCase() === series;
        const { cells, lastTradeAt } = live;
        const windows =
          series === undefined ? memory.cells.windows(live) : cells.windows(isOfSeries);
        return { windows, lastTradeAt };
      }
      answered.statements += 1;
      const { windows, newestFill } = await readSums(own, { trader, now: clock(), series });
      // The newest fill may be in another series.
      const isNewest = newestFill > 0 && series === undefined;
      return { windows, lastTradeAt: isNewest ? newestFill : await readNewest(own, trader) };
    },

    /** What a trader holds and held, to be read before anything is awaited; undefined without memory. */
    async holdings(trader: string): Promise<Holdings<PackedHoldings> | undefined> {
      const memory = await current();
      const holder = memory && (await holderOf(memory, trader));
      if (holder === undefined || !isValid(memory) || !memory.holdings.has(holder))
        return undefined;
      const holdings = holder.value;
      return { holdings, isLive: isAsOf(memory.place.block, [holdings]) };
    },

    /** The same, or only what is held now, with the marks of the markets in which shares are held, which are not older. */
    async positions(
      own: Reading,
      trader: string,
      which: { readonly isOpen: boolean },
    ): Promise<Holdings<readonly Holding[]> & { readonly marks: Marks }> {
      const memory = await current();
      const holder = memory && (await holderOf(memory, trader));
      if (holder !== undefined && isValid(memory)) {
        const entries = await marksOf(memory, holder.value.openIds(), trader);
        // From here on, nothing changes until the end.
        const marked = holder.value.openIds().map((id) => [id, entries.get(id)?.value] as const);
        const versions = marked.map(([, one]) => one ?? UNKNOWN);
        const isFollowed = memory.holdings.has(holder) && memory.holdings.hasMarks(entries);
        const isSame = isValid(memory) && isFollowed;
        if (isSame && isAsOf(memory.place.block, [holder.value, ...versions])) {
          const marks = marked.flatMap(([id, one]) => (one?.mark ? [[id, one.mark] as const] : []));
          answered.memory += 1;
          const holdings = which.isOpen ? holder.value.open() : holder.value.all();
          return { holdings, marks: new Map(marks), isLive: true };
        }
      }
      answered.statements += 1;
      const holdings = await readHoldings(own, trader, which);
      const marks = await readMarkedOf(own, heldIn(holdings), trader);
      return { holdings, marks: marksIn(marks), isLive: false };
    },

    /** The marks of some markets of a trader; of what was read before, if that was live. */
    async marks(
      own: Reading,
      conditionIds: readonly string[],
      { trader, isLive }: { readonly trader: string; readonly isLive: boolean },
    ): Promise<Marks> {
      const memory = isLive ? await current() : undefined;
      const entries = memory && (await marksOf(memory, conditionIds, trader));
      const isWhole = entries !== undefined && entries.size === conditionIds.length;
      return isWhole && isValid(memory) && memory.holdings.hasMarks(entries)
        ? marksIn([...entries].map(([id, { value }]) => [id, value] as const))
        : await readMarks(own, conditionIds);
    },
  };
}

/** Fills entries with what is found, for all who wait for them, or drops them if that fails. */
function load<Found>(
  entries: readonly { loaded: Promise<void> | undefined }[],
  {
    found,
    fill,
    drop,
  }: {
    readonly found: Promise<Found>;
    readonly fill: (found: Found) => void;
    readonly drop: () => void;
  },
): void {
  const loading = found.then(fill).then(
    () => {
      for (const entry of entries) entry.loaded = undefined;
    },
    (error: unknown) => {
      drop();
      throw error;
    },
  );
  for (const entry of entries) entry.loaded = loading;
}

/** Resolves when the entry is complete. */
async function loaded<Entry extends { readonly loaded: Promise<void> | undefined }>(
  entry: Entry,
): Promise<Entry> {
  await entry.loaded;
  return entry;
}

type Marks = ReadonlyMap<string, Mark>;

const NO_MARK = { mark: undefined, version: 0 };
/** Newer than every block. */
const UNKNOWN = { version: Number.MAX_SAFE_INTEGER };

function marksIn(marked: Iterable<readonly [string, Marked]>): Marks {
  return new Map([...marked].flatMap(([id, { mark }]) => (mark ? [[id, mark] as const] : [])));
}

function heldIn(holdings: readonly Holding[]): string[] {
  return holdings.filter(({ shares }) => shares > 0n).map(({ conditionId }) => conditionId);
}

async function readRecent(own: Reading, wanted: Parameters<typeof readCells>[1], markets: Markets) {
  const { cells, newestFill } = await readCells(own, wanted, markets);
  return { cells, lastTradeAt: newestFill || (await readNewest(own, wanted.trader)) };
}

const ActivityRow = rowOf({ newest: seconds('max(last_trade_at)') });

const ACTIVITY_SQL = `
SELECT ${ActivityRow.columns}
FROM trader_activity
WHERE trader = {trader:FixedString(20)}`;

/** Time of a trader's newest fill, seconds since the epoch; 0 without a fill. */
async function readNewest(own: Reading, trader: string): Promise<number> {
  const parameters = { trader: new Bytes(trader) };
  const [activity] = await read(own, { sql: ACTIVITY_SQL, parameters, row: ActivityRow });
  return activity?.newest ?? 0;
}
