/** What the user follows: traders with their holdings, markets, and the live tape of these traders. */
import { useEffect } from 'preact/hooks';
import { AlertSwitch } from './alerts.tsx';
import type { Traders } from './answers.ts';
import { fillstream } from './client.ts';
import { Pnl, Usdc } from './figures.tsx';
import { type Followed, followed, Star } from './follow.tsx';
import { count } from './format.ts';
import { CardTable, type Column } from './table.tsx';
import { FIRST_MATCHES, LiveTape } from './tape.tsx';
import { TraderName } from './trader-name.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;

export function Following() {
  const traders = followed.trader.value;
  const markets = followed.market.value;
  useEffect(() => {
    if (traders.length === 0) document.title = 'Following – Fillstream';
  }, [traders.length]);
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
            key={addresses}
            title="Following"
            name={addresses}
            open={(options) =>
              fillstream.value.feed(
                { traders: traders.map(({ id }) => id), finality: true, last: FIRST_MATCHES },
                options,
              )
            }
            controls={<AlertSwitch />}
          />
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
          </div>
          <ul class="card followed-markets">
            {markets.map(({ id, name }) => (
              <li key={id}>
                <a href={`/market/${id}`} data-row>
                  {name === '' ? id : name}
                </a>
                <Star kind="market" id={id} name={name} />
              </li>
            ))}
          </ul>
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
    ...{ title: 'Open positions', class: 'figure' },
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
    </>
  );
}
