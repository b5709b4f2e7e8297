/** The matches of a market, newest first: those just received from the feed, then the final ones from the API. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Market, MarketTrades, Traders } from './answers.ts';
import { Skeleton } from './controls.tsx';
import { Side, TransactionLink, Usdc } from './figures.tsx';
import { capital, cents, clock, count, nameOf, timeMs, timeText } from './format.ts';
import { CsvButton } from './in-code.tsx';
import { sharedFeed } from './shared-feed.ts';
import { type Column, Table } from './table.tsx';
import { heldText, SIGNS, useHeld } from './tape-list.tsx';
import { type Row, type RowState, TapeStore } from './tape-store.ts';
import { Problem, useAnswer } from './use-answer.tsx';

const ROWS_MAX = 50;

type Match = {
  readonly id: string;
  /** Of its row in the store; -1 for a match of the API. */
  readonly number: number;
  readonly state: RowState;
  readonly atMs: number;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: string | number;
  readonly shares: string | number;
  readonly taker: { readonly address: string; readonly name: string };
  readonly txHash: string;
};

export function MarketTape({
  market,
  refresh,
}: {
  readonly market: Market;
  readonly refresh: unknown;
}) {
  const { condition_id: id, resolved_at } = market;
  const isOver = resolved_at !== '';
  const answer = useAnswer<MarketTrades>(`/v2/markets/${id}/trades?limit=${ROWS_MAX}`, {
    refresh,
    subject: id,
  });
  const [tries, setTries] = useState(0);
  const store = useMemo(() => {
    if (isOver) return undefined;
    return new TapeStore((options) => sharedFeed({ markets: id }, options));
  }, [id, isOver, tries]);
  useEffect(() => () => store?.close(), [store]);
  void store?.version.value;
  const rows = store?.rows ?? [];
  const heard = rows.slice(-ROWS_MAX).toReversed().map(heardMatch);
  const known = new Set(heard.map((match) => match.id));
  const read = (answer.data?.trades ?? []).filter((trade) => !known.has(trade.match_id));
  const newest = [...heard, ...read.map(readMatch)].slice(0, ROWS_MAX);
  const held = useHeld();
  const matches = useHeldMatches(newest, rows, held.is !== undefined);
  const names = useNames((answer.data?.trades ?? []).map(({ taker }) => taker));
  const waiting = waitingOf(rows, newest, matches);
  const state = store?.state.value;
  return (
    <section class="market-tape" aria-labelledby="tape-title">
      <div class="section-head">
        <h2 id="tape-title">Matches</h2>
        {held.is !== undefined && matches.length > 0 ? (
          <span class="state soft" role="status" title={heldText(held.is)}>
            <b aria-hidden="true">❚❚</b> Paused
            <span aria-live="off">{waiting === 0 ? '' : ` · ${count(waiting)} new`}</span>
          </span>
        ) : store === undefined ? null : (
          <Liveness store={store} />
        )}
        <CsvButton name="matches" path={`/v2/markets/${id}/trades?limit=1000`} />
        <a class="more" href={`/tape?markets=${id}`}>
          Tape
        </a>
      </div>
      <Problem problem={answer.problem} answer={answer} />
      {state?.kind === 'refused' ? (
        <Problem problem={state.problem} onRetry={() => setTries(tries + 1)} />
      ) : null}
      {matches.length > 0 ? (
        <section
          class="card match-scroll"
          {...held.handlers}
          aria-label="Matches, newest first"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
          tabIndex={0}
        >
          <Table
            label="Matches"
            class="fills matches"
            columns={COLUMNS}
            rows={matches.map((match) => {
              const { address, name } = match.taker;
              const known = name || names.get(address.toLowerCase()) || '';
              return { ...match, taker: { address, name: known } };
            })}
            keyOf={({ id }) => id}
            rowClass={({ state }) => state}
            rowName={({ id }) => id}
          />
        </section>
      ) : answer.data === undefined && answer.problem === undefined ? (
        <Skeleton rows={12} what="matches" />
      ) : answer.data === undefined ? null : (
        <p class="card empty">No matches yet.</p>
      )}
    </section>
  );
}

/**
 * How many matches are newer than those shown, counted in the stream, or in the API's newest matches if there is no
 * stream.
 */
function waitingOf(
  rows: readonly Row[],
  newest: readonly Match[],
  shown: readonly Match[],
): number {
  const heard = (rows.at(-1)?.number ?? -1) - Math.max(-1, ...shown.map(({ number }) => number));
  const ids = new Set(shown.map(({ id }) => id));
  const first = newest.findIndex(({ id }) => ids.has(id));
  const read = newest.slice(0, first < 0 ? undefined : first).filter(({ number }) => number < 0);
  return heard + read.length;
}

/** While the list is held, its matches keep their places, and only their states change. */
function useHeldMatches(
  newest: readonly Match[],
  rows: readonly Row[],
  isHeld: boolean,
): readonly Match[] {
  const frozen = useRef<readonly Match[] | undefined>(undefined);
  // An empty list cannot be held.
  if (!isHeld || frozen.current?.length === 0) frozen.current = undefined;
  else frozen.current ??= newest;
  if (frozen.current === undefined) return newest;
  const states = new Map(newest.map(({ id, state }) => [id, state]));
  // The held matches may no longer be among the newest.
  for (const { matchId, state } of rows) states.set(matchId, state);
  return frozen.current.map((match) => ({ ...match, state: states.get(match.id) ?? match.state }));
}

function Liveness({ store }: { readonly store: TapeStore }) {
  const { kind } = store.state.value;
  return (
    <span class={`state ${kind === 'live' ? 'ok' : 'busy'}`} role="status" data-stream={kind}>
      <b aria-hidden="true">{kind === 'live' ? '●' : '○'}</b>{' '}
      {kind === 'waiting' ? 'Cut' : capital(kind)}
    </span>
  );
}

const COLUMNS: readonly Column<Match>[] = [
  {
    ...{ title: 'Time, UTC', class: 'f-time' },
    cell: ({ state, atMs }) => (
      <span title={`${capital(state)}, ${timeText(atMs)}`}>
        <span class="c-state" aria-hidden="true">
          {SIGNS[state]}
        </span>{' '}
        {clock(atMs)}
        <span class="hidden"> {state}</span>
      </span>
    ),
  },
  { title: 'Side', class: 'f-side', cell: ({ side }) => <Side side={side} /> },
  { title: 'Outcome', class: 'f-outcome', cell: ({ outcome }) => outcome },
  { title: 'Price', class: 'f-price figure', cell: ({ usdc, shares }) => cents(usdc, shares) },
  {
    ...{ title: 'USDC', class: 'f-usdc figure' },
    cell: ({ usdc }) => <Usdc micro={usdc} decimals={2} />,
  },
  {
    ...{ title: 'Taker', class: 'f-who' },
    cell: ({ taker }) => (
      <a href={`/trader/${taker.address.toLowerCase()}`} title={taker.address}>
        {nameOf(taker)}
      </a>
    ),
  },
  {
    ...{ title: <span class="hidden">Transaction</span>, class: 'match-link' },
    cell: ({ txHash }) => <TransactionLink hash={txHash} />,
  },
];

/** The names of takers, which the API's trades do not have. */
function useNames(addresses: readonly string[]): ReadonlyMap<string, string> {
  const asked = [...new Set(addresses.map((one) => one.toLowerCase()))].sort();
  const body = JSON.stringify({ addresses: asked });
  const answer = useAnswer<Traders>(asked.length === 0 ? null : '/v2/traders/batch', { body });
  const traders = answer.data?.traders ?? [];
  return new Map(traders.map(({ profile }) => [profile.address.toLowerCase(), profile.name]));
}

function heardMatch(row: Row): Match {
  const { matchId, number, state, detectedAtMs, taker, txHash } = row;
  return { ...taker, id: matchId, number, state, atMs: detectedAtMs, taker, txHash };
}

function readMatch(trade: MarketTrades['trades'][number]): Match {
  const { match_id, time, taker: address, tx_hash } = trade;
  const of = { id: match_id, number: -1, state: 'final', txHash: tx_hash } as const;
  return { ...trade, ...of, atMs: timeMs(time) ?? 0, taker: { address, name: '' } };
}
