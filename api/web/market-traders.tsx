/** Who holds the outcomes of a market, who won and lost in it, and the other markets of its event. */
import type { ComponentChildren } from 'preact';
import type { Holders, LeaderboardV2, Market, MarketDetail, Markets } from './answers.ts';
import { Scroll, Skeleton } from './controls.tsx';
import { Pnl, Roi, Usdc } from './figures.tsx';
import { count, percent, priceText } from './format.ts';
import { Change, MarketLink, Odds, Shares } from './markets.tsx';
import { TraderName } from './trader-name.tsx';
import { Problem, useAnswer } from './use-answer.tsx';

const HOLDERS_MAX = 10;
/** As many as the demo tier may read. */
const TRADERS_MAX = 20;

export function HoldersBySide({
  market,
  refresh,
}: {
  readonly market: Market;
  readonly refresh: unknown;
}) {
  return (
    <div class="pair">
      <HoldersOf market={market} outcome={0} refresh={refresh} />
      <HoldersOf market={market} outcome={1} refresh={refresh} />
    </div>
  );
}

function HoldersOf(props: {
  readonly market: Market;
  readonly outcome: 0 | 1;
  readonly refresh: unknown;
}) {
  const { market, outcome, refresh } = props;
  const { condition_id: id } = market;
  const answer = useAnswer<Holders>(
    `/v2/markets/${id}/holders?outcome=${outcome}&limit=${HOLDERS_MAX}`,
    { refresh, subject: id },
  );
  const label = labelOf(market, outcome);
  const holders = answer.data?.holders ?? [];
  return (
    <section aria-labelledby={`holders-${outcome}`}>
      <div class="section-head">
        <h2 id={`holders-${outcome}`}>Holders of {label}</h2>
        {answer.data === undefined ? null : (
          <span class="soft">
            {holders.length < answer.data.total_count ? `${holders.length} of ` : ''}
            {count(answer.data.total_count)}
          </span>
        )}
      </div>
      <Problem problem={answer.problem} answer={answer} />
      {answer.data === undefined ? (
        answer.problem === undefined ? (
          <Skeleton rows={6} what={`holders of ${label}`} />
        ) : null
      ) : holders.length === 0 ? (
        <p class="card empty">Nobody holds {label}.</p>
      ) : (
        <Scroll label={`Holders of ${label}`}>
          <table>
            <Head columns={['Shares', 'Of all', 'Average', 'Value', 'Unrealised PnL']} />
            <tbody>
              {holders.map((holder) => (
                <tr key={holder.profile.address}>
                  <th scope="row">
                    <TraderName profile={holder.profile} row />
                  </th>
                  <td class="figure strong">
                    <Shares micro={holder.shares} />
                  </td>
                  <td class="figure">{percent(holder.outcome_share)}</td>
                  <td class="figure">{priceText(holder.average_price)}</td>
                  <td class="figure">
                    <Usdc micro={holder.value} decimals={2} />
                  </td>
                  <td class="figure">
                    <Pnl micro={holder.unrealised_pnl} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

export function labelOf(market: Market, outcome: 0 | 1): string {
  const label = outcome === 0 ? market.outcome_1 : market.outcome_2;
  return label === '' ? `outcome ${outcome + 1}` : label;
}

export function WinnersAndLosers({
  detail,
  refresh,
}: {
  readonly detail: MarketDetail;
  readonly refresh: unknown;
}) {
  const { market, top_earners } = detail;
  const { condition_id: id } = market;
  const board = useAnswer<LeaderboardV2>(
    `/v2/analytics/leaderboard?market=${id}&time_frame=30D&order=asc&limit=${TRADERS_MAX}`,
    { refresh, subject: id },
  );
  const losers = board.data?.traders.filter(({ total_pnl }) => total_pnl < 0) ?? [];
  return (
    <div class="pair">
      <section aria-labelledby="earners-title">
        <div class="section-head">
          <h2 id="earners-title">Winners</h2>
          <span class="soft">realised, of all time</span>
        </div>
        {top_earners.length === 0 ? (
          <p class="card empty">No realised gains yet.</p>
        ) : (
          <Traders
            label="Winners"
            traders={top_earners.map((earner) => ({
              ...earner,
              total_pnl: earner.pnl,
              total_volume: earner.volume,
            }))}
          />
        )}
      </section>
      <section aria-labelledby="losers-title">
        <div class="section-head">
          <h2 id="losers-title">Losers</h2>
          <span class="soft">realised, last 30 days</span>
        </div>
        <Problem problem={board.problem} answer={board} />
        {board.data === undefined ? (
          board.problem === undefined ? (
            <Skeleton rows={6} what="losers" />
          ) : null
        ) : losers.length === 0 ? (
          <p class="card empty">No realised losses in 30 days.</p>
        ) : (
          <Traders label="Losers" traders={losers} />
        )}
      </section>
    </div>
  );
}

type Trader = Pick<
  LeaderboardV2['traders'][number],
  'profile' | 'total_pnl' | 'total_volume' | 'roi'
>;

function Traders({
  label,
  traders,
}: {
  readonly label: string;
  readonly traders: readonly Trader[];
}) {
  return (
    <Scroll label={label}>
      <table>
        <Head columns={['PnL', 'ROI', 'Volume']} />
        <tbody>
          {traders.map(({ profile, total_pnl, total_volume, roi }) => (
            <tr key={profile.address}>
              <th scope="row">
                <TraderName profile={profile} row />
              </th>
              <td class="figure strong">
                <Pnl micro={total_pnl} />
              </td>
              <td class="figure">
                <Roi value={roi} />
              </td>
              <td class="figure">
                <Usdc micro={total_volume} decimals={2} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Head({ columns }: { readonly columns: readonly ComponentChildren[] }) {
  return (
    <thead>
      <tr>
        <th scope="col">Trader</th>
        {columns.map((column, index) => (
          <th key={index} scope="col" class="figure">
            {column}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Nothing where the market is alone. */
export function Siblings({
  market,
  refresh,
}: {
  readonly market: Market;
  readonly refresh: unknown;
}) {
  const { event_slug: slug, condition_id: id } = market;
  const answer = useAnswer<Markets>(
    slug === ''
      ? null
      : `/v2/markets?event=${encodeURIComponent(slug)}&status=all&sort_by=volume&limit=100`,
    { refresh, subject: slug },
  );
  const others = answer.data?.markets.filter(({ market }) => market.condition_id !== id) ?? [];
  if (others.length === 0) return <Problem problem={answer.problem} answer={answer} />;
  return (
    <section aria-labelledby="siblings-title">
      <div class="section-head">
        <h2 id="siblings-title">Other markets of the event</h2>
        <a
          class="more"
          href={`/markets?event=${encodeURIComponent(slug)}&status=all&sort_by=volume`}
        >
          All {count(others.length + 1)}
        </a>
      </div>
      <Problem problem={answer.problem} answer={answer} />
      <Scroll label="Other markets of the event">
        <table class="market-table">
          <thead>
            <tr>
              <th scope="col">Market</th>
              <th scope="col" class="figure">
                Price
              </th>
              <th scope="col" class="figure">
                Change, 24 h
              </th>
              <th scope="col" class="figure">
                Volume
              </th>
              <th scope="col">Status</th>
            </tr>
          </thead>
          <tbody>
            {others.map((entry) => (
              <tr key={entry.market.condition_id}>
                <th scope="row" class="question">
                  <MarketLink market={entry.market} />
                </th>
                <td class="figure">
                  <Odds entry={entry} />
                </td>
                <td class="figure">
                  <Change micro={entry.change_24h} />
                </td>
                <td class="figure">
                  <Usdc micro={entry.volume} />
                </td>
                <td class="soft">{entry.status}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
