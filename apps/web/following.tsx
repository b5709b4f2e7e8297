/** What the user follows: traders with their holdings, markets, and the live tape of these traders. */
import { AlertSwitch } from './alerts.tsx';
import type { Candles, MarketDetail, Position, Positions, Traders } from './answers.ts';
import { Skeleton } from './controls.tsx';
import { Pnl, Usdc } from './figures.tsx';
import { type Followed, followed, Star } from './follow.tsx';
import { count } from './format.ts';
import { Change, MARKET_OF, MarketLink, Odds } from './markets.tsx';
import { Picture } from './picture.tsx';
import { PositionEvents } from './position-events.tsx';
import { sharedFeed } from './shared-feed.ts';
import { CardTable, type Column } from './table.tsx';
import { FIRST_MATCHES, LiveTape } from './tape.tsx';
import { EmptyTape } from './tape-empty.tsx';
import { TraderName } from './trader-name.tsx';
import { POSITION } from './trader-positions.tsx';
import { Problem, useAnswer, useAnswers, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
/** Positions take a request for each trader, so only those of the traders with the most at stake are read. */
const HOLDERS_MAX = 5;
const POSITIONS_EACH = 3;
/** Prices take two requests for each market. */
const PRICED_MAX = 10;
const QUARTER_HOUR = 900;
const DAY = 86_400;

export function Following() {
  const traders = followed.trader.value;
  const markets = followed.market.value;
  const refresh = useTicks(REFRESH_MS);
  if (traders.length === 0 && markets.length === 0) {
    return (
      <section class="nothing">
        <h1>Following</h1>
        <p>
          Nothing yet. To follow a <a href="/leaderboard">trader</a> or a{' '}
          <a href="/markets">market</a>, use the star on its page. The list stays in this browser.
        </p>
      </section>
    );
  }
  const addresses = traders.map(({ id }) => id).join(',');
  return (
    <article class="following">
      {traders.length === 0 ? (
        <h1>Following</h1>
      ) : (
        <>
          <LiveTape
            title="Following"
            name={addresses}
            followed={traders.map(({ id }) => id)}
            open={(options) =>
              sharedFeed({ traders: addresses }, { ...options, last: FIRST_MATCHES })
            }
            empty={<EmptyTape filter={new URLSearchParams({ traders: addresses })} />}
            controls={<AlertSwitch />}
          />
          <PositionEvents traders={traders.map(({ id }) => id)} refresh={refresh} />
          <div class="section-head">
            <h2>Traders</h2>
            <a class="more" href={`/compare?traders=${addresses}`}>
              Compare
            </a>
            <a
              class="more"
              href={`/manage/streams?addresses=${addresses}`}
              title="A managed stream of their matches, for programs"
            >
              As a stream
            </a>
          </div>
          <FollowedTraders traders={traders} />
        </>
      )}
      {markets.length === 0 ? null : (
        <>
          <div class="section-head">
            <h2>Markets</h2>
            {markets.length > PRICED_MAX ? (
              <p class="soft">Prices of the {PRICED_MAX} you followed last</p>
            ) : null}
          </div>
          <FollowedMarkets markets={markets} />
        </>
      )}
    </article>
  );
}

type Row = Followed & {
  /** Undefined while it loads, and for an address that never traded. */
  readonly answer: Traders['traders'][number] | undefined;
};

const COLUMNS: readonly Column<Row>[] = [
  {
    ...{ title: 'Trader', isHead: true },
    cell: ({ id, name, answer }) => (
      <TraderName profile={answer?.profile ?? { address: id, name }} row />
    ),
  },
  {
    ...{ title: 'Open positions', class: 'figure wide-only' },
    cell: ({ answer }) => (answer === undefined ? '' : count(answer.positions.open_count)),
  },
  {
    ...{ title: 'Worth', class: 'figure strong' },
    cell: ({ answer }) =>
      answer === undefined ? null : <Usdc micro={answer.positions.value} decimals={2} />,
  },
  {
    ...{ title: 'Unrealised', class: 'figure' },
    cell: ({ answer }) =>
      answer === undefined ? null : <Pnl micro={answer.positions.unrealised_pnl} />,
  },
  {
    ...{ title: <span class="hidden">Follow</span>, class: 'figure' },
    cell: ({ id, name }) => <Star kind="trader" id={id} name={name} />,
  },
];

function FollowedTraders({ traders }: { readonly traders: readonly Followed[] }) {
  const body = JSON.stringify({ addresses: traders.map(({ id }) => id) });
  const refresh = useTicks(REFRESH_MS);
  const answer = useAnswer<Traders>('/v2/traders/batch', { refresh, body });
  const answers = new Map(
    answer.data?.traders.map((one) => [one.profile.address.toLowerCase(), one]),
  );
  return (
    <>
      <Problem problem={answer.problem} answer={answer} />
      <CardTable
        label="Traders that you follow"
        class="followed"
        columns={COLUMNS}
        rows={traders.map((one) => ({ ...one, answer: answers.get(one.id) }))}
        keyOf={({ id }) => id}
        empty=""
      />
      <LargestPositions traders={answer.data?.traders ?? []} refresh={refresh} />
    </>
  );
}

type Held = Position & { readonly profile: Traders['traders'][number]['profile'] };

const HELD: readonly Column<Held>[] = [
  { title: 'Trader', cell: ({ profile }) => <TraderName profile={profile} /> },
  ...[MARKET_OF, POSITION.outcome, POSITION.shares, POSITION.value, POSITION.unrealised],
];

function LargestPositions(props: {
  readonly traders: Traders['traders'];
  readonly refresh: unknown;
}) {
  const holders = props.traders
    .filter(({ positions }) => positions.open_count > 0)
    .toSorted((a, b) => b.positions.value - a.positions.value);
  const read = holders.slice(0, HOLDERS_MAX).map(({ profile }) => ({
    profile,
    path: `/v2/traders/${profile.address.toLowerCase()}/positions?limit=${POSITIONS_EACH}`,
  }));
  const answers = useAnswers<Positions>(
    read.map(({ path }) => path),
    { refresh: props.refresh },
  );
  const { data, problem } = answers;
  if (read.length === 0) return null;
  const rows = read.flatMap(({ profile, path }) =>
    (data.get(path)?.positions ?? []).map((position) => ({ ...position, profile })),
  );
  const of = holders.length > HOLDERS_MAX ? `the ${HOLDERS_MAX} with the most at stake` : 'each';
  return (
    <section aria-labelledby="held-title">
      <div class="section-head">
        <h2 id="held-title">Their open positions</h2>
        <p class="soft">
          The {POSITIONS_EACH} largest of {of}
        </p>
      </div>
      <Problem problem={problem} answer={answers} />
      {rows.length === 0 && read.some(({ path }) => !data.has(path)) ? (
        problem === undefined ? (
          <Skeleton rows={4} what="their open positions" />
        ) : null
      ) : (
        <CardTable
          label="Open positions of traders that you follow"
          class="positions two-line"
          columns={HELD}
          rows={rows}
          keyOf={({ profile, market }) => `${profile.address} ${market.condition_id}`}
          empty="No open positions."
        />
      )}
    </section>
  );
}

type Priced = Followed & {
  /** Undefined while it loads, and for a market whose price is not read. */
  readonly detail: MarketDetail | undefined;
  readonly candles: Candles['candles'];
};

const MARKETS: readonly Column<Priced>[] = [
  {
    ...{ title: 'Market', class: 'question', isHead: true },
    cell: ({ id, name, detail }) =>
      detail === undefined ? (
        <a href={`/market/${id}`} data-row>
          {name === '' ? id : name}
        </a>
      ) : (
        <span class="market">
          <Picture id={detail.market.condition_id} image={detail.market.icon} />
          <MarketLink market={detail.market} />
        </span>
      ),
  },
  {
    ...{ title: 'Price', class: 'figure' },
    cell: ({ detail }) => (detail === undefined ? '–' : <Odds entry={detail} />),
  },
  {
    ...{ title: 'Change, 24\u00a0h', class: 'figure' },
    cell: ({ candles: [first], detail }) => {
      // Of a market that was resolved, the last close is not the price.
      const price = detail?.mark.price_1 ?? null;
      return first === undefined || price === null ? '–' : <Change micro={price - first.open} />;
    },
  },
  {
    ...{ title: <span class="hidden">Follow</span>, class: 'figure' },
    cell: ({ id, name }) => <Star kind="market" id={id} name={name} />,
  },
];

function FollowedMarkets({ markets }: { readonly markets: readonly Followed[] }) {
  const refresh = useTicks(REFRESH_MS);
  const now = Math.floor(Date.now() / 1_000);
  const from = now - (now % QUARTER_HOUR) - DAY;
  const priced = markets.slice(-PRICED_MAX).map(({ id }) => `/v2/markets/${id}`);
  const candlesOf = (path: string) => `${path}/candles?interval=15m&from=${from}`;
  const details = useAnswers<MarketDetail>(priced, { refresh });
  const candles = useAnswers<Candles>(priced.map(candlesOf), { refresh });
  return (
    <>
      <Problem
        problem={details.problem ?? candles.problem}
        answer={details.problem === undefined ? candles : details}
        onRetry={() => {
          details.retry();
          candles.retry();
        }}
      />
      <CardTable
        label="Markets that you follow"
        class="market-table two-line"
        columns={MARKETS}
        rows={markets.map((one) => {
          const path = `/v2/markets/${one.id}`;
          return {
            ...{ ...one, detail: details.data.get(path) },
            candles: candles.data.get(candlesOf(path))?.candles ?? [],
          };
        })}
        keyOf={({ id }) => id}
        empty=""
      />
    </>
  );
}
