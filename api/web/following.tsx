/** What the user follows: traders with their holdings, markets, and the live tape of these traders. */
import { useEffect } from 'preact/hooks';
import { AlertSwitch } from './alerts.tsx';
import type { Positions } from './answers.ts';
import { fillstream } from './client.ts';
import { Scroll } from './controls.tsx';
import { Pnl, Usdc } from './figures.tsx';
import { type Followed, followed, Star } from './follow.tsx';
import { count } from './format.ts';
import { FIRST_MATCHES, LiveTape } from './tape.tsx';
import { TraderName } from './trader-name.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;

export function Following() {
  const traders = followed.trader.value;
  const markets = followed.market.value;
  const refresh = useTicks(REFRESH_MS);
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
          <Scroll label="Traders that you follow">
            <table class="followed">
              <thead>
                <tr>
                  <th scope="col">Trader</th>
                  <th scope="col" class="figure">
                    Open positions
                  </th>
                  <th scope="col" class="figure">
                    Worth
                  </th>
                  <th scope="col" class="figure">
                    Unrealised
                  </th>
                  <th scope="col" class="figure">
                    <span class="hidden">Follow</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {traders.map((one) => (
                  <TraderRow key={one.id} trader={one} refresh={refresh} />
                ))}
              </tbody>
            </table>
          </Scroll>
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

function TraderRow({ trader, refresh }: { readonly trader: Followed; readonly refresh: unknown }) {
  const { id, name } = trader;
  const path = `/v2/traders/${encodeURIComponent(id)}/positions?limit=1`;
  const { data, problem } = useAnswer<Positions>(path, { refresh, subject: id });
  return (
    <tr>
      <th scope="row">
        <TraderName profile={{ address: id, name }} row />
        <Problem problem={problem} />
      </th>
      <td class="figure">{data === undefined ? '' : count(data.total_count)}</td>
      <td class="figure strong">
        {data === undefined ? null : <Usdc micro={data.totals.value} decimals={2} />}
      </td>
      <td class="figure">
        {data === undefined ? null : <Pnl micro={data.totals.unrealised_pnl} />}
      </td>
      <td class="figure">
        <Star kind="trader" id={id} name={name} />
      </td>
    </tr>
  );
}
