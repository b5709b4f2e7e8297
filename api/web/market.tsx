/** One market: its state, totals, price line and top earners. */
import { useEffect, useMemo } from 'preact/hooks';
import type { MarketDetail, Market as MarketObject, Prices } from './answers.ts';
import { Chart } from './chart.tsx';
import { CopyButton, Scroll } from './controls.tsx';
import { Pnl, Roi, Usdc } from './figures.tsx';
import { count, paid, short, span, timeMs, timeText, units } from './format.ts';
import { TraderName } from './trader-name.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;

export function Market({ id }: { readonly id: string }) {
  const refresh = useTicks(REFRESH_MS);
  const base = `/v2/markets/${encodeURIComponent(id)}`;
  const detail = useAnswer<MarketDetail>(base, { refresh, subject: id });
  const question = detail.data?.market.question || `Market ${id}`;
  useEffect(() => {
    document.title = `${question} – Fillstream`;
  }, [question]);
  if (detail.data === undefined) {
    return (
      <section>
        <h1 class="hidden">Market {id}</h1>
        <Problem problem={detail.problem} />
        {detail.busy ? (
          <div class="card loading" role="status">
            Loading…
          </div>
        ) : null}
      </section>
    );
  }
  const { market, top_earners } = detail.data;
  return (
    <article>
      <header class="who">
        <div>
          {market.event_title === '' || market.event_title === market.question ? null : (
            <p class="soft">{market.event_title}</p>
          )}
          <h1>{market.question === '' ? 'Unlisted market' : market.question}</h1>
          <p class="sub">
            <State market={market} />
            {market.id === 0 ? null : <span>id {market.id}</span>}
            {market.start_date === '' ? null : <span>{period(market)}</span>}
            {market.neg_risk ? <span>negative risk</span> : null}
          </p>
          <p class="tags">
            {market.series_slug === '' ? null : (
              <a class="tag" href={`/tape?series=${encodeURIComponent(market.series_slug)}`}>
                {market.series_slug}
              </a>
            )}
            {market.tags.map((tag) => (
              <a key={tag} class="tag" href={`/tape?tags=${encodeURIComponent(tag)}`}>
                {tag}
              </a>
            ))}
          </p>
        </div>
        <Totals detail={detail.data} />
      </header>
      <Problem problem={detail.problem} />
      <Outcomes market={market} />
      <PriceLine base={base} id={id} market={market} refresh={refresh} />
      <section aria-labelledby="earners-title">
        <div class="section-head">
          <h2 id="earners-title">Top earners</h2>
        </div>
        {top_earners.length === 0 ? (
          <p class="card empty">No realised gains yet.</p>
        ) : (
          <Scroll label="Top earners">
            <table class="board-table">
              <thead>
                <tr>
                  <th scope="col" class="figure">
                    #
                  </th>
                  <th scope="col">Trader</th>
                  <th scope="col" class="figure">
                    PnL
                  </th>
                  <th scope="col" class="figure">
                    ROI
                  </th>
                  <th scope="col" class="figure">
                    Volume
                  </th>
                </tr>
              </thead>
              <tbody>
                {top_earners.map((earner) => (
                  <tr key={earner.profile.address}>
                    <td class={earner.rank <= 3 ? 'figure rank leader' : 'figure rank'}>
                      {earner.rank}
                    </td>
                    <th scope="row">
                      <TraderName profile={earner.profile} row />
                    </th>
                    <td class="figure strong">
                      <Pnl micro={earner.pnl} />
                    </td>
                    <td class="figure">
                      <Roi value={earner.roi} />
                    </td>
                    <td class="figure">
                      <Usdc micro={earner.volume} decimals={2} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </section>
      <p class="ids">
        condition <code>{market.condition_id}</code>
        <CopyButton text={market.condition_id} what="the condition id" />
      </p>
    </article>
  );
}

function Totals({ detail }: { readonly detail: MarketDetail }) {
  return (
    <dl class="tiles">
      <div>
        <dt>Volume, both sides</dt>
        <dd>
          <Usdc micro={detail.total_volume} />
        </dd>
      </div>
      <div>
        <dt>Traders</dt>
        <dd>{count(detail.total_traders)}</dd>
      </div>
      <div>
        <dt>Winners</dt>
        <dd>{count(detail.total_winners)}</dd>
      </div>
      <div>
        <dt>Gains realised</dt>
        <dd>
          <Usdc micro={detail.total_pnl_distributed} />
        </dd>
      </div>
    </dl>
  );
}

function State({ market }: { readonly market: MarketObject }) {
  if (market.resolved_at === '') return <span class="badge open">open</span>;
  return (
    <span class="badge" title={`resolved ${timeText(timeMs(market.resolved_at) ?? 0)}`}>
      resolved {timeText(timeMs(market.resolved_at) ?? 0).slice(0, 16)}
    </span>
  );
}

/** What each outcome pays, if known. */
function Outcomes({ market }: { readonly market: MarketObject }) {
  const cents = market.result < 0 ? undefined : [market.result, 100 - market.result];
  return (
    <ul class="outcomes">
      {[market.outcome_1, market.outcome_2].map((outcome, index) => (
        <li key={index} class={(cents?.[index] ?? 0) >= 50 ? 'won' : ''}>
          <b>{outcome === '' ? `Outcome ${index + 1}` : outcome}</b>
          <span>
            {cents === undefined
              ? market.result === -1
                ? 'void: pays nothing'
                : 'undecided'
              : paid(cents[index] ?? 0)}
          </span>
        </li>
      ))}
    </ul>
  );
}

function PriceLine(props: {
  readonly base: string;
  readonly id: string;
  readonly market: MarketObject;
  readonly refresh: unknown;
}) {
  const line = useAnswer<Prices>(`${props.base}/prices`, {
    refresh: props.refresh,
    subject: props.id,
  });
  const prices = line.data?.prices;
  const drawn = useMemo(
    () => ({
      times: (prices ?? []).map(({ time }) => (timeMs(time) ?? 0) / 1_000),
      values: (prices ?? []).map(({ average }) => units(average) * 100),
    }),
    [prices],
  );
  const outcome = props.market.outcome_1 === '' ? 'outcome 1' : props.market.outcome_1;
  return (
    <section aria-labelledby="price-title">
      <div class="section-head">
        <h2 id="price-title">Price of “{outcome}”, from fills</h2>
        {line.data === undefined ? null : (
          <span class="soft">average of each {span(line.data.interval_seconds * 1_000)}</span>
        )}
      </div>
      <Problem problem={line.problem} />
      {prices === undefined ? null : prices.length === 0 ? (
        <p class="card empty">No trades yet.</p>
      ) : (
        <div class="card charts">
          <Chart
            label={`Price of ${outcome}, cents`}
            height={240}
            times={drawn.times}
            series={{ kind: 'line', values: drawn.values, above: 'accent' }}
            tick={(value) => `${short(value)}¢`}
            tell={(index) => {
              const price = prices[index];
              if (price === undefined) return '';
              return `${(price.average / 10_000).toFixed(1)}¢ on average, ${(price.last / 10_000).toFixed(1)}¢ last, ${short(units(price.shares))} shares`;
            }}
            group="market"
            range={[0, 100]}
          />
        </div>
      )}
    </section>
  );
}

function period(market: MarketObject): string {
  const [start, end] = [market.start_date.slice(0, 10), market.end_date.slice(0, 10)];
  return end === '' ? `from ${start}` : start === end ? start : `${start} to ${end}`;
}
