/** One trader: profile, open positions, equity, windows, PnL charts, tags and markets. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Trader as Answer, TraderV2, Window } from './answers.ts';
import { CopyButton, Scroll } from './controls.tsx';
import { Ago, Pnl, Roi, Share, Usdc } from './figures.tsx';
import { Star } from './follow.tsx';
import { count, day, shortAddress } from './format.ts';
import { Picture } from './picture.tsx';
import { TraderCharts } from './trader-charts.tsx';
import { TraderEquity } from './trader-equity.tsx';
import { TraderMarkets } from './trader-markets.tsx';
import { TraderPositions } from './trader-positions.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const WINDOWS = [
  { name: 't_1h', title: '1 hour' },
  { name: 't_4h', title: '4 hours' },
  { name: 't_1d', title: '1 day' },
  { name: 't_3d', title: '3 days' },
  { name: 't_7d', title: '7 days' },
  { name: 't_30d', title: '30 days' },
] as const;

/** Windows move with the clock, so they are reloaded. */
const REFRESH_MS = 15_000;

export function Trader({ address }: { readonly address: string }) {
  const base = encodeURIComponent(address);
  const refresh = useTicks(REFRESH_MS);
  const first = useAnswer<Answer>(`/v1/traders/${base}`, { refresh, subject: address });
  const second = useAnswer<TraderV2>(`/v2/traders/${base}`, { refresh, subject: address });
  const name = first.data?.profile.name || address;
  useEffect(() => {
    document.title = `${name} – Fillstream`;
  }, [name]);
  if (first.data === undefined) {
    return (
      <section>
        <h1 class="hidden">Trader {address}</h1>
        <Problem problem={first.problem} />
        {first.busy ? (
          <div class="card loading" role="status">
            Loading…
          </div>
        ) : null}
      </section>
    );
  }
  const { profile, stats, top_tags } = first.data;
  return (
    <article>
      <header class="who">
        <Picture id={profile.address} image={profile.profile_image} size={44} />
        <div>
          <h1>{profile.name === '' ? shortAddress(profile.address) : profile.name}</h1>
          <p class="sub">
            <Star kind="trader" id={profile.address} name={profile.name} />
            <code class="full-address">{second.data?.profile.address ?? profile.address}</code>
            <CopyButton text={second.data?.profile.address ?? profile.address} what="the address" />
            {profile.x_username === '' ? null : <span>@{profile.x_username}</span>}
            {profile.profile_created_at === '' ? null : (
              <span>since {day(profile.profile_created_at)}</span>
            )}
            <span>
              last trade <Ago time={profile.last_trade_at} />
            </span>
          </p>
        </div>
        {second.data === undefined ? null : <Figures trader={second.data} />}
      </header>
      <Problem problem={first.problem ?? second.problem} />
      <TraderPositions address={address} refresh={refresh} />
      <TraderEquity address={address} refresh={refresh} />
      <div class="section-head">
        <h2>Windows up to now</h2>
      </div>
      <Windows stats={stats} />
      <TraderCharts address={address} tags={top_tags.map(({ slug }) => slug)} refresh={refresh} />
      <Tags tags={top_tags} />
      <TraderMarkets address={address} refresh={refresh} />
    </article>
  );
}

function Figures({ trader }: { readonly trader: TraderV2 }) {
  return (
    <dl class="tiles">
      <div>
        <dt>Taker tier</dt>
        <dd>{trader.taker_tier_name === '' ? 'not synced' : trader.taker_tier_name}</dd>
      </div>
      <div>
        <dt>pUSD balance</dt>
        <dd>
          <Usdc micro={trader.pusd_balance} decimals={2} />
        </dd>
      </div>
      <div>
        <dt>Weighted volume, 30 d</dt>
        <dd>{trader.weighted_volume.toLocaleString('en-US', { maximumFractionDigits: 2 })}</dd>
      </div>
    </dl>
  );
}

const ROWS: readonly {
  readonly title: string;
  readonly cell: (window: Window) => ComponentChildren;
}[] = [
  { title: 'PnL', cell: ({ pnl }) => <Pnl micro={pnl} /> },
  { title: 'ROI', cell: ({ roi }) => <Roi value={roi} /> },
  {
    title: 'Win rate',
    cell: (window) => (
      <Share
        value={window.win_rate}
        title={`${window.wins_count} of ${window.markets_count} markets won`}
      />
    ),
  },
  {
    title: 'Markets won',
    cell: (window) => `${count(window.wins_count)} / ${count(window.markets_count)}`,
  },
  { title: 'Volume', cell: ({ volume }) => <Usdc micro={volume} decimals={2} /> },
  { title: 'as maker', cell: ({ maker_volume }) => <Usdc micro={maker_volume} decimals={2} /> },
  { title: 'as taker', cell: ({ taker_volume }) => <Usdc micro={taker_volume} decimals={2} /> },
];

function Windows({ stats }: { readonly stats: Answer['stats'] }) {
  return (
    <Scroll label="Windows">
      <table class="windows">
        <caption class="hidden">Six windows up to now, amounts in USDC</caption>
        <thead>
          <tr>
            <td />
            {WINDOWS.map(({ name, title }) => (
              <th key={name} scope="col" class="figure">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {ROWS.map(({ title, cell }, index) => (
            <tr key={title} class={index === 0 ? 'strong' : title.startsWith('as ') ? 'soft' : ''}>
              <th scope="row">{title}</th>
              {WINDOWS.map(({ name }) => {
                const window = stats[name];
                return (
                  <td key={name} class="figure">
                    {window === undefined ? '–' : cell(window)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

const TAGS_SHOWN = 6;

function Tags({ tags }: { readonly tags: Answer['top_tags'] }) {
  const [all, setAll] = useState(false);
  if (tags.length === 0) return null;
  return (
    <section aria-labelledby="tags-title">
      <div class="section-head">
        <h2 id="tags-title">Top tags of the last 30 days</h2>
        {tags.length <= TAGS_SHOWN ? null : (
          <button type="button" class="push" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? 'Show fewer' : `Show all ${tags.length}`}
          </button>
        )}
      </div>
      <Scroll label="Tags">
        <table>
          <thead>
            <tr>
              <th scope="col">Tag</th>
              <th scope="col" class="figure">
                PnL
              </th>
              <th scope="col" class="figure">
                ROI
              </th>
              <th scope="col" class="figure">
                Win rate
              </th>
              <th scope="col" class="figure">
                Markets won
              </th>
              <th scope="col" class="figure">
                Volume
              </th>
            </tr>
          </thead>
          <tbody>
            {tags.slice(0, all ? tags.length : TAGS_SHOWN).map((tag) => (
              <tr key={tag.slug}>
                <th scope="row">{tag.slug}</th>
                <td class="figure strong">
                  <Pnl micro={tag.pnl} />
                </td>
                <td class="figure">
                  <Roi value={tag.roi} />
                </td>
                <td class="figure">
                  <Share
                    value={tag.win_rate}
                    title={`${tag.wins_count} of ${tag.markets_count} markets won`}
                  />
                </td>
                <td class="figure">
                  {count(tag.wins_count)} / {count(tag.markets_count)}
                </td>
                <td class="figure">
                  <Usdc micro={tag.volume} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
