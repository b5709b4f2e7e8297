/** Trades of the followed traders in a market, to be marked in its price chart. */
import { useMemo } from 'preact/hooks';
import type { Market, TraderTrades } from './answers.ts';
import { followed } from './follow.tsx';
import { cents, nameOf, timeMs } from './format.ts';
import { useAnswers } from './use-answer.tsx';

/** Only this many traders, followed most recently; more marks could not be distinguished. */
export const TRADERS_MAX = 5;
/** Newest trades read for each trader. */
export const TRADES_MAX = 200;
const DAY = 86_400;

export type FollowedTrade = {
  readonly trader: string;
  readonly seconds: number;
  /** Price of outcome 0, cents. */
  readonly cents: number;
  /** Whether the trader bought outcome 0, or sold the other one. */
  readonly isFor: boolean;
  readonly text: string;
};

export type FollowedTrades = {
  readonly trades: readonly FollowedTrade[];
  /** How much of it could be read. */
  readonly state: 'loading' | 'failed' | 'loaded';
  /** Whether a trader has older trades in this time than were read. */
  readonly isCut: boolean;
};

/** Trades since `from` (Unix seconds), newest first. Reads again when `refresh` changes. */
export function useFollowedTrades(
  market: Market,
  { from, refresh }: { readonly from: number; readonly refresh: unknown },
): FollowedTrades {
  const all = followed.trader.value;
  // Rounded, so that the path stays the same for a while.
  const day = Math.floor(from / DAY) * DAY;
  const traders = useMemo(() => {
    const of = `market=${market.condition_id}&from=${day}&limit=${TRADES_MAX}`;
    return all.slice(-TRADERS_MAX).map(({ id, name }) => ({
      name: nameOf({ name, address: id }),
      path: `/v2/traders/${id}/trades?${of}`,
    }));
  }, [all, market.condition_id, day]);
  const { data, problem } = useAnswers<TraderTrades>(
    traders.map(({ path }) => path),
    { refresh },
  );
  const trades = useMemo(
    () =>
      traders
        .flatMap(({ name, path }) =>
          (data.get(path)?.trades ?? []).map((trade) => followedTrade(name, trade)),
        )
        .filter(({ seconds }) => seconds >= from)
        .toSorted((a, b) => b.seconds - a.seconds),
    [data, traders, from],
  );
  const isLoaded = traders.every(({ path }) => data.has(path));
  return {
    trades,
    state: isLoaded ? 'loaded' : problem === undefined ? 'loading' : 'failed',
    isCut: traders.some(({ path }) => {
      const { next_cursor = '', trades: read = [] } = data.get(path) ?? {};
      return next_cursor !== '' && (timeMs(read.at(-1)?.time ?? '') ?? 0) / 1_000 >= from;
    }),
  };
}

function followedTrade(trader: string, trade: TraderTrades['trades'][number]): FollowedTrade {
  const { outcome, outcome_index: index, price, shares, side, time, usdc } = trade;
  return {
    trader,
    seconds: (timeMs(time) ?? 0) / 1_000,
    cents: (index === 0 ? price : 1e6 - price) / 10_000,
    isFor: (side === 'BUY') === (index === 0),
    text: `${trader} ${side === 'BUY' ? 'bought' : 'sold'} ${outcome} at ${cents(usdc, shares)}`,
  };
}
