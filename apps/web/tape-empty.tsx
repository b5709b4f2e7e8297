/**
 * Says that no match passes the filters of a tape, and which one was the last that did. The feed knows the newest ones;
 * for traders, the analytics also know older ones.
 */
import type { RecentMatches } from '../client/index.ts';
import type { TraderTrades } from './answers.ts';
import { Ago } from './figures.tsx';
import { amount, cents } from './format.ts';
import { useAnswers } from './use-answer.tsx';

const TRADERS_MAX = 5;
/** Filters that the trades of a trader have, too. */
const OF_TRADES = ['traders', 'min_usdc', 'max_usdc'];

type Last = {
  readonly time: string;
  readonly market: { readonly question: string };
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: string | number;
  readonly shares: string | number;
};

export function EmptyTape({ filter }: { readonly filter: URLSearchParams }) {
  const paths = [`/v2/recent_matches?limit=1&${filter}`, ...tradesOf(filter)];
  const { data, problem } = useAnswers<RecentMatches | TraderTrades>(paths);
  // Most tapes get their first rows before.
  if (problem === undefined && data.size < paths.length) return null;
  const last = [...data.values()]
    .map(lastOf)
    .filter((one) => one !== undefined)
    .toSorted((a, b) => b.time.localeCompare(a.time))[0];
  return (
    <p class="empty" role="status">
      {String(filter) === '' ? 'No match yet.' : 'No new match passes these filters yet.'}
      {last === undefined ? null : (
        <>
          <br />
          The last one was <Ago time={last.time} />: {last.side === 'BUY' ? 'bought' : 'sold'}{' '}
          {last.outcome} at {cents(last.usdc, last.shares)} for {amount(last.usdc)} USDC in{' '}
          {last.market.question || 'an unlisted market'}.
        </>
      )}
    </p>
  );
}

function tradesOf(filter: URLSearchParams): readonly string[] {
  const names = [...filter.keys()];
  const traders = (filter.get('traders') ?? '').split(',').map((text) => text.trim());
  const isOfTrades = names.includes('traders') && names.every((name) => OF_TRADES.includes(name));
  if (!isOfTrades || traders.length > TRADERS_MAX) return [];
  const others = new URLSearchParams(filter);
  others.delete('traders');
  return traders.map(
    (trader) => `/v2/traders/${encodeURIComponent(trader)}/trades?limit=1&${others}`,
  );
}

function lastOf(answer: RecentMatches | TraderTrades): Last | undefined {
  if ('trades' in answer) return answer.trades[0];
  const event = answer.events.findLast(({ type }) => type === 'order');
  if (event?.type !== 'order') return undefined;
  const { market, taker_order, timestamp } = event.data;
  return { ...taker_order, market, time: timestamp };
}
