/** Compares up to five traders: their PnL on one chart, and their figures in one table. */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { PnlPoints, Traders } from './answers.ts';
import { Chart } from './chart.tsx';
import { Skeleton } from './controls.tsx';
import { Ago, Pnl, Roi, Usdc, WinRate } from './figures.tsx';
import { followed } from './follow.tsx';
import { count, nameOf, short, shortAddress, signed, timeMs, units } from './format.ts';
import { Picture } from './picture.tsx';
import { query, setQuery } from './route.ts';
import { CardTable, type Column } from './table.tsx';
import { TraderName } from './trader-name.tsx';
import { pnlPath, RANGES, type Range, RangeChoice } from './trader-pnl.tsx';
import { Loaded, Problem, useAnswer, useAnswers, useSearch, useTicks } from './use-answer.tsx';

/** The number of colours. */
const TRADERS_MAX = 5;
const REFRESH_MS = 15_000;
const HITS_MAX = 6;
/** The height of the chart's card. */
const CARD_PIXELS = 362;
type Row = {
  /** In lower case. */
  readonly address: string;
  /** Undefined if the address never traded and has no profile. */
  readonly trader: Traders['traders'][number] | undefined;
};

const colourOf = (index: number) => `line-${index + 1}`;

/** The addresses in the URL, in lower case. */
function chosen(): readonly string[] {
  const given = (query.value.get('traders') ?? '').toLowerCase().split(',');
  const valid = given.filter((one) => /^0x[0-9a-f]{40}$/.test(one));
  return [...new Set(valid)].slice(0, TRADERS_MAX);
}

function choose(addresses: readonly string[]): void {
  setQuery({ traders: addresses.join(',') });
}

export function Compare() {
  const addresses = chosen();
  const refresh = useTicks(REFRESH_MS);
  const body = JSON.stringify({ addresses });
  const path = addresses.length === 0 ? null : '/v2/traders/batch';
  const answer = useAnswer<Traders>(path, { refresh, subject: body, body });
  const rows = addresses.map((address) => ({
    address,
    trader: answer.data?.traders.find(({ profile }) => profile.address.toLowerCase() === address),
  }));
  return (
    <article class="compare">
      <div class="head">
        <h1>Compare traders</h1>
        <p class="sub">Up to {TRADERS_MAX}; amounts in USDC</p>
      </div>
      {addresses.length < TRADERS_MAX ? <Adder addresses={addresses} /> : null}
      {addresses.length === 0 ? (
        <p class="card empty">
          No traders yet. Add them above, or with “Compare” on a trader’s page.
        </p>
      ) : (
        <>
          <Loaded answer={answer} rows={addresses.length + 1} what="the traders">
            {() => (
              <CardTable
                label="Figures of the traders"
                columns={columnsOf(addresses)}
                rows={rows}
                keyOf={({ address }) => address}
                empty=""
              />
            )}
          </Loaded>
          <Lines rows={rows} refresh={refresh} />
        </>
      )}
    </article>
  );
}

/** Searches for a trader as the user types, and suggests those that the user follows. */
function Adder({ addresses }: { readonly addresses: readonly string[] }) {
  const [typed, setTyped] = useState('');
  const { wanted, asked, ask, answer, isCurrent } = useSearch(typed, HITS_MAX);
  /** Enter was pressed before its answer was there. */
  const [isAwaited, setAwaited] = useState(false);
  const found = (answer.data?.traders ?? []).map(({ profile }) => ({
    ...{ id: profile.address.toLowerCase(), name: profile.name, image: profile.profile_image },
  }));
  const followedNow = followed.trader.value.map((one) => ({ ...one, image: '' }));
  const offers = (asked === '' ? followedNow : found)
    .filter(({ id }) => !addresses.includes(id))
    .slice(0, HITS_MAX);
  function add(address: string): void {
    setTyped('');
    ask('');
    choose([...addresses, address]);
  }
  function enter(): void {
    const address = wanted.toLowerCase();
    if (/^0x[0-9a-f]{40}$/.test(address)) add(address);
    else if (!isCurrent) {
      ask(wanted);
      setAwaited(true);
    } else if (offers[0] !== undefined) add(offers[0].id);
  }
  useEffect(() => {
    if (!isAwaited || !isCurrent) return;
    setAwaited(false);
    if (wanted !== '' && offers[0] !== undefined) add(offers[0].id);
  }, [isAwaited, isCurrent]);
  return (
    <form
      class="adder"
      onSubmit={(event) => {
        event.preventDefault();
        enter();
      }}
    >
      <label class="field">
        <span>Add a trader</span>
        <input
          type="search"
          placeholder="Name or address"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setAwaited(false);
          }}
        />
      </label>
      <Problem problem={answer.problem} answer={answer} />
      <div class="offers" role="status">
        {offers.map(({ id, name, image }) => (
          <button key={id} type="button" onClick={() => add(id)}>
            <Picture id={id} image={image} /> {nameOf({ name, address: id })}
          </button>
        ))}
        {asked === '' || !isCurrent || offers.length > 0
          ? ''
          : found.length > 0
            ? 'Already compared.'
            : 'No trader found.'}
      </div>
    </form>
  );
}

/** A column of figures, empty for a trader without trades. */
function figure(
  title: string,
  cell: (trader: NonNullable<Row['trader']>) => ComponentChildren,
  more = '',
): Column<Row> {
  return {
    ...{ title, class: `figure ${more}` },
    cell: ({ trader }) => (trader === undefined ? null : cell(trader)),
  };
}

const FIGURES: readonly Column<Row>[] = [
  figure('Open', ({ positions }) => count(positions.open_count)),
  figure('Worth', ({ positions }) => <Usdc micro={positions.value} />),
  figure('Unrealised', ({ positions }) => <Pnl micro={positions.unrealised_pnl} decimals={0} />),
  figure('PnL, 1 d', ({ windows }) => <Pnl micro={windows.t_1d.pnl} decimals={0} />),
  figure('PnL, 7 d', ({ windows }) => <Pnl micro={windows.t_7d.pnl} decimals={0} />),
  figure('PnL, 30 d', ({ windows }) => <Pnl micro={windows.t_30d.pnl} decimals={0} />, 'strong'),
  figure('ROI, 30 d', ({ windows }) => <Roi value={windows.t_30d.roi} />),
  figure('Win rate, 30 d', ({ windows }) => <WinRate of={windows.t_30d} />),
  figure('Volume, 30 d', ({ windows }) => <Usdc micro={windows.t_30d.volume} />),
  figure('Last trade', ({ last_trade_at }) => <Ago time={last_trade_at} />, 'soft'),
];

function columnsOf(addresses: readonly string[]): readonly Column<Row>[] {
  return [
    {
      ...{ title: 'Trader', isHead: true },
      cell: ({ address, trader }) => (
        <span class="compared">
          <i class="dot" style={{ background: `var(--${colourOf(addresses.indexOf(address))})` }} />
          <TraderName profile={trader?.profile ?? { address, name: '' }} row />
          {trader === undefined ? <span class="soft">Never traded</span> : null}
        </span>
      ),
    },
    ...FIGURES,
    {
      ...{ title: <span class="hidden">Remove</span>, class: 'figure' },
      cell: ({ address, trader }) => (
        <button
          type="button"
          class="quiet"
          aria-label={`Remove ${trader?.profile.name || shortAddress(address)}`}
          onClick={() => choose(addresses.filter((one) => one !== address))}
        >
          ✕
        </button>
      ),
    },
  ];
}

function Lines({ rows, refresh }: { readonly rows: readonly Row[]; readonly refresh: unknown }) {
  const [range, setRange] = useState<Range>(RANGES[0]);
  const paths = rows.map(({ address }) => pnlPath(address, range));
  const answers = useAnswers<PnlPoints>(paths, { refresh });
  const { data, problem } = answers;
  const isLoading = problem === undefined && !paths.some((path) => data.has(path));
  const drawn = useMemo(() => linesOf(paths.map((path) => data.get(path))), [data, paths.join()]);
  return (
    <section aria-labelledby="lines-title">
      <div class="section-head">
        <h2 id="lines-title">Total PnL</h2>
        <p class="soft totals">Realised and unrealised, each from 0 at the start</p>
        <RangeChoice class="push" chosen={range} onChoose={setRange} />
      </div>
      <Problem problem={problem} answer={answers} />
      {isLoading ? (
        <Skeleton rows={1} pixels={CARD_PIXELS} what="the lines" />
      ) : (
        <div class="card charts">
          <Chart
            label="PnL of the traders, USDC"
            height={320}
            times={drawn.times}
            series={{ kind: 'lines', lines: drawn.lines }}
            tick={short}
            describe={(index) =>
              rows
                .map(({ address, trader }, row) => {
                  const gain = drawn.gains[row];
                  const text = gain === undefined ? '–' : signed(gain[index] ?? 0);
                  return `${nameOf(trader?.profile ?? { address, name: '' })} ${text}`;
                })
                .join(' · ')
            }
            group="compare"
          />
        </div>
      )}
    </section>
  );
}

/** The gain of each trader since the first point, so that all lines begin at zero. */
function linesOf(answers: readonly (PnlPoints | undefined)[]) {
  const longest = answers.reduce<PnlPoints['points']>(
    (most, answer) => ((answer?.points.length ?? 0) > most.length ? (answer?.points ?? []) : most),
    [],
  );
  const gains = answers.map((answer) => {
    const first = answer?.points[0]?.pnl ?? 0;
    return answer?.points.map(({ pnl }) => pnl - first);
  });
  return {
    gains,
    times: longest.map(({ time }) => (timeMs(time) ?? 0) / 1_000),
    lines: gains.map((gain, index) => ({
      colour: colourOf(index),
      values: longest.map((_, at) => {
        const value = gain?.[at];
        return value === undefined ? null : units(value);
      }),
    })),
  };
}
