/** One trader: profile and PnL, then positions, activity or performance. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { AlertMe } from './alert-me.tsx';
import type { Trader as Answer, Positions, TraderV2, Window } from './answers.ts';
import { Choice, CopyButton, Skeleton } from './controls.tsx';
import { Ago, Pnl, Roi, Share, Tile, Usdc, WinRate } from './figures.tsx';
import { settingsOf } from './filters.tsx';
import { Star } from './follow.tsx';
import { count, day, nameOf } from './format.ts';
import { InCode } from './in-code.tsx';
import { Picture } from './picture.tsx';
import { remember } from './recent.ts';
import { replacePath } from './route.ts';
import { CardTable, type Column } from './table.tsx';
import { useTitle } from './title.ts';
import { TraderCalendar } from './trader-calendar.tsx';
import { TraderMarkets } from './trader-markets.tsx';
import { TraderMovements } from './trader-movements.tsx';
import { TraderPnl } from './trader-pnl.tsx';
import { POSITIONS_READ, TraderPositions } from './trader-positions.tsx';
import { TraderTrades } from './trader-trades.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const WINDOWS = [
  { name: 't_1h', title: '1 hour' },
  { name: 't_4h', title: '4 hours' },
  { name: 't_1d', title: '1 day' },
  { name: 't_3d', title: '3 days' },
  { name: 't_7d', title: '7 days' },
  { name: 't_30d', title: '30 days' },
] as const;

const TABS = [
  ['positions', 'Positions'],
  ['activity', 'Activity'],
  ['performance', 'Performance'],
] as const;
const settings = settingsOf({ tab: 'positions' });

/** Windows move with the clock, so they are reloaded. */
const REFRESH_MS = 15_000;

const ADDRESS = /^0x[0-9a-f]{40}$/i;

/** By address or by name. */
export function Trader({ id }: { readonly id: string }) {
  return ADDRESS.test(id) ? <TraderOf address={id} /> : <Named name={id.replace(/^@/, '')} />;
}

/** Opens the trader with this name. */
function Named({ name }: { readonly name: string }) {
  const answer = useAnswer<TraderV2>(`/v2/traders/@${encodeURIComponent(name)}`, { subject: name });
  const address = answer.data?.profile.address;
  useTitle(name);
  useEffect(() => {
    if (address !== undefined) replacePath(`/trader/${address.toLowerCase()}`);
  }, [address]);
  return (
    <section>
      <h1 class="hidden">Trader {name}</h1>
      <Problem problem={answer.problem} answer={answer} />
      {answer.problem === undefined ? <Skeleton rows={20} what="the trader" /> : null}
    </section>
  );
}

function TraderOf({ address }: { readonly address: string }) {
  const base = encodeURIComponent(address);
  const refresh = useTicks(REFRESH_MS);
  const first = useAnswer<Answer>(`/v1/traders/${base}`, { refresh, subject: address });
  const second = useAnswer<TraderV2>(`/v2/traders/${base}`, { refresh, subject: address });
  const held = useAnswer<Positions>(`/v2/traders/${base}/positions?limit=${POSITIONS_READ}`, {
    ...{ refresh, subject: address },
  });
  const closed = useAnswer<Positions>(`/v2/traders/${base}/positions?status=all&limit=1`, {
    ...{ refresh, subject: address },
  });
  const tab = settings.get('tab');
  const name = first.data?.profile.name || address;
  useTitle(name);
  useEffect(() => {
    if (first.data !== undefined) {
      const title = nameOf({ ...first.data.profile, address });
      const { profile_image: image } = first.data.profile;
      remember({ kind: 'trader', path: `/trader/${address.toLowerCase()}`, title, image });
    }
  }, [name, first.data === undefined]);
  // Wait for the positions: their number varies, so loading them later would move everything below.
  const isAsked = [held, closed].some((one) => one.data === undefined && one.problem === undefined);
  if (first.data === undefined || isAsked) {
    return (
      <section>
        <h1 class="hidden">Trader {address}</h1>
        <Problem problem={first.problem} answer={first} />
        {first.problem === undefined ? <Skeleton rows={20} what="the trader" /> : null}
      </section>
    );
  }
  const { profile, stats, top_tags } = first.data;
  return (
    <article>
      <header class="who">
        <Picture id={profile.address} image={profile.profile_image} size={44} />
        <div>
          <h1>{nameOf(profile)}</h1>
          <p class="sub">
            <Star kind="trader" id={profile.address} name={profile.name} />
            <TraderAlert address={profile.address.toLowerCase()} name={nameOf(profile)} />
            <a href={`/compare?traders=${profile.address.toLowerCase()}`}>Compare</a>
            <InCode
              request={{ path: `/v2/traders/${base}`, call: `trader(${JSON.stringify(address)})` }}
            />
            <span class="full-address">
              <code>{second.data?.profile.address ?? profile.address}</code>
              <CopyButton
                text={second.data?.profile.address ?? profile.address}
                what="the address"
              />
            </span>
            {profile.x_username === '' ? null : <span>@{profile.x_username}</span>}
            {profile.profile_created_at === '' ? null : (
              <span>Since {day(profile.profile_created_at)}</span>
            )}
            <span>
              Last trade <Ago time={profile.last_trade_at} />
            </span>
          </p>
        </div>
        <Figures trader={second.data} value={held.data?.totals.value} />
      </header>
      {first.problem === undefined ? (
        <Problem problem={second.problem} answer={second} />
      ) : (
        <Problem problem={first.problem} answer={first} />
      )}
      <TraderPnl address={address} refresh={refresh} />
      <Choice
        name="tab"
        legend="About the trader"
        class="tabs"
        choices={TABS}
        chosen={tab}
        onChoose={(chosen) => settings.set({ tab: chosen })}
      />
      {tab === 'activity' ? (
        <>
          <TraderTrades address={address} refresh={refresh} />
          <TraderMovements address={address} refresh={refresh} />
        </>
      ) : tab === 'performance' ? (
        <>
          <div class="section-head">
            <h2>Windows up to now</h2>
            <WinRates window={stats.t_30d} closed={closed.data} />
          </div>
          <Windows stats={stats} />
          <TraderCalendar address={address} refresh={refresh} />
          <Tags tags={top_tags} />
        </>
      ) : (
        <>
          <TraderPositions answer={held} />
          <TraderMarkets address={address} refresh={refresh} />
        </>
      )}
    </article>
  );
}

function TraderAlert({ address, name }: { readonly address: string; readonly name: string }) {
  return (
    <AlertMe
      suggestions={[
        {
          ...{ title: 'Positions', name },
          rule: {
            type: 'position',
            traders: [address],
            events: [...POSITION_EVENTS],
            first: false,
          },
        },
        { title: 'Matches', name, rule: { type: 'match', traders: [address] } },
      ]}
      names={new Map([[address, name]])}
    />
  );
}

const POSITION_EVENTS = ['opened', 'added', 'reduced', 'closed', 'settled'] as const;

/** Shows dashes while figures are loading. */
function Figures(props: {
  readonly trader: TraderV2 | undefined;
  /** Of the open positions, micro-USDC. */
  readonly value: number | undefined;
}) {
  const { trader, value } = props;
  const isKnown = trader !== undefined && value !== undefined;
  return (
    <dl class="tiles">
      <Tile name="Equity, USDC">
        {isKnown ? (
          <span title="pUSD balance plus the value of the open positions">
            <Usdc micro={trader.pusd_balance + value} decimals={2} />
          </span>
        ) : (
          '–'
        )}
      </Tile>
      <Tile name="Taker tier">
        {trader === undefined ? '–' : trader.taker_tier_name || 'not synced'}
      </Tile>
      <Tile name="pUSD balance">
        {trader === undefined ? '–' : <Usdc micro={trader.pusd_balance} decimals={2} />}
      </Tile>
      <Tile name="Weighted volume, 30 d">
        {trader?.weighted_volume.toLocaleString('en-US', { maximumFractionDigits: 2 }) ?? '–'}
      </Tile>
    </dl>
  );
}

/** The win rate of the windows counts open markets, too, so we also show the rate of closed markets. */
function WinRates(props: {
  readonly window: Window | undefined;
  readonly closed: Positions | undefined;
}) {
  const { window, closed } = props;
  const { closed_count = 0, closed_won_count = 0 } = closed?.totals ?? {};
  return (
    <p class="soft totals">
      Win rate of traded markets, 30 days, open ones included:{' '}
      {window === undefined ? '–' : <WinRate of={window} />} · of closed markets, all time:{' '}
      {closed_count === 0 ? (
        '–'
      ) : (
        <Share
          value={(100 * closed_won_count) / closed_count}
          title={`${closed_won_count} of ${closed_count} closed markets, settled or sold, with a realised PnL above 0`}
        />
      )}
    </p>
  );
}

const ROWS: readonly {
  readonly title: string;
  readonly cell: (window: Window) => ComponentChildren;
}[] = [
  { title: 'PnL', cell: ({ pnl }) => <Pnl micro={pnl} /> },
  { title: 'ROI', cell: ({ roi }) => <Roi value={roi} /> },
  { title: 'Win rate', cell: (window) => <WinRate of={window} /> },
  {
    title: 'Markets won',
    cell: (window) => `${count(window.wins_count)} / ${count(window.markets_count)}`,
  },
  { title: 'Volume', cell: ({ volume }) => <Usdc micro={volume} decimals={2} /> },
  { title: 'As maker', cell: ({ maker_volume }) => <Usdc micro={maker_volume} decimals={2} /> },
  { title: 'As taker', cell: ({ taker_volume }) => <Usdc micro={taker_volume} decimals={2} /> },
];

const FIGURE: Column<(typeof ROWS)[number]> = {
  ...{ title: <span class="hidden">Figure</span>, isHead: true },
  cell: ({ title }) => title,
};

function Windows({ stats }: { readonly stats: Answer['stats'] }) {
  const columns = WINDOWS.map(({ name, title }): Column<(typeof ROWS)[number]> => {
    const window = stats[name];
    return {
      ...{ title, class: 'figure' },
      cell: ({ cell }) => (window === undefined ? '–' : cell(window)),
    };
  });
  return (
    <CardTable
      label="Six windows up to now, amounts in USDC"
      class="windows"
      columns={[FIGURE, ...columns]}
      rows={ROWS}
      keyOf={({ title }) => title}
      rowClass={({ title }) => (title === 'PnL' ? 'strong' : title.startsWith('as ') ? 'soft' : '')}
      empty=""
    />
  );
}

const TAGS_SHOWN = 6;

const TAG: readonly Column<Answer['top_tags'][number]>[] = [
  { title: 'Tag', isHead: true, cell: ({ slug }) => slug },
  { title: 'PnL', class: 'figure strong', cell: ({ pnl }) => <Pnl micro={pnl} /> },
  { title: 'ROI', class: 'figure', cell: ({ roi }) => <Roi value={roi} /> },
  { title: 'Win rate', class: 'figure', cell: (tag) => <WinRate of={tag} /> },
  {
    ...{ title: 'Markets won', class: 'figure' },
    cell: ({ wins_count, markets_count }) => `${count(wins_count)} / ${count(markets_count)}`,
  },
  { title: 'Volume', class: 'figure', cell: ({ volume }) => <Usdc micro={volume} /> },
];

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
      <CardTable
        label="Tags"
        columns={TAG}
        rows={tags.slice(0, all ? tags.length : TAGS_SHOWN)}
        keyOf={({ slug }) => slug}
        empty=""
      />
    </section>
  );
}
