/**
 * The live tape: every match that fits the filters, as soon as it is seen. Filters live in the page's URL under the
 * API's parameter names; other filters make another tape.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { FeedQuery } from '../client/index.ts';
import { fillstream } from './client.ts';
import { CopyButton, TypedField } from './controls.tsx';
import { Side } from './figures.tsx';
import { amount, cents, count, exact, shortAddress, span, timeText } from './format.ts';
import { query, setQuery } from './route.ts';
import { viewKeys } from './shortcuts.ts';
import { now } from './status-strip.tsx';
import { TapeList } from './tape-list.tsx';
import { TapePresets } from './tape-presets.tsx';
import { TapeSound } from './tape-sound.ts';
import { type Open, type Row, TapeStore } from './tape-store.ts';
import { Problem } from './use-answer.tsx';

const FILTERS = [
  { name: 'traders', label: 'Traders (addresses, comma-separated)', chip: 'traders', wide: true },
  {
    name: 'markets',
    label: 'Markets (ids or slugs, comma-separated)',
    chip: 'markets',
    wide: true,
  },
  { name: 'tags', label: 'Tags (comma-separated)', chip: 'tags', wide: true },
  { name: 'series', label: 'Series (slugs, comma-separated)', chip: 'series', wide: true },
  { name: 'min_usdc', label: 'Min size, USDC', chip: 'USDC ≥', wide: false },
  { name: 'max_usdc', label: 'Max size, USDC', chip: 'USDC ≤', wide: false },
  { name: 'min_shares', label: 'Min shares', chip: 'shares ≥', wide: false },
  { name: 'max_shares', label: 'Max shares', chip: 'shares ≤', wide: false },
  { name: 'min_price', label: 'Min price, ¢', chip: 'price ≥', wide: false },
  { name: 'max_price', label: 'Max price, ¢', chip: 'price ≤', wide: false },
] as const;

/** What a tape opens with. */
export const FIRST_MATCHES = 200;

export function Tape() {
  const given = query.value;
  const active = FILTERS.filter(({ name }) => (given.get(name) ?? '') !== '');
  const [open, setOpen] = useState(false);
  const asked = Object.fromEntries(active.map(({ name }) => [name, given.get(name)]));
  const name = JSON.stringify(asked);
  // As it was typed: the server says what is wrong with it.
  const filter = { ...(asked as FeedQuery), finality: true, last: FIRST_MATCHES };
  const chips = active.map(({ name, chip }) => ({
    name,
    text: `${chip} ${shortened(given.get(name) ?? '')}`,
  }));
  return (
    <section aria-labelledby="title" class="full">
      <LiveTape
        key={name}
        title="Tape"
        name={name}
        open={(options) => fillstream.value.feed(filter, options)}
        controls={
          <>
            <button
              type="button"
              aria-expanded={open}
              aria-controls="filters"
              onClick={() => setOpen(!open)}
            >
              Filters{active.length === 0 ? '' : ` (${active.length})`}
            </button>
            {chips.map(({ name, text }) => (
              <button
                key={name}
                type="button"
                class="chip"
                title="Remove this filter"
                onClick={() => setQuery({ [name]: '' })}
              >
                {text} <span aria-hidden="true">×</span>
                <span class="hidden">(remove)</span>
              </button>
            ))}
          </>
        }
        below={
          <>
            <TapePresets
              names={FILTERS.map(({ name }) => name)}
              title={chips.map(({ text }) => text).join(', ')}
            />
            <div id="filters" class="filters" hidden={!open}>
              {FILTERS.map(({ name, label, wide }) => (
                <TypedField
                  key={name}
                  name={name}
                  label={label}
                  wide={wide}
                  type={wide ? 'text' : 'number'}
                  value={given.get(name) ?? ''}
                  onValue={(value) => setQuery({ [name]: value.trim() }, { typed: true })}
                />
              ))}
            </div>
          </>
        }
      />
    </section>
  );
}

/** A tape of one event stream. */
export function LiveTape(props: {
  readonly title: string;
  /** Another name is another stream. */
  readonly name: string;
  readonly open: Open;
  readonly controls?: ComponentChildren;
  readonly below?: ComponentChildren;
}) {
  const { title, name, open } = props;
  const store = useMemo(() => new TapeStore(open), [name]);
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState<Row | undefined>(undefined);
  const [finalOnly, setFinalOnly] = useState(false);
  useEffect(() => () => store.close(), [store]);
  useEffect(() => {
    document.title = `${title} – Fillstream`;
    viewKeys.value = { ' ': () => setPaused((last) => !last) };
    return () => {
      viewKeys.value = {};
    };
  }, [title]);
  return (
    <>
      <div class="head">
        <h1 id="title">{title}</h1>
        <Connection store={store} />
      </div>
      <div class="controls">
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? 'Resume' : 'Pause'}
        </button>
        <button type="button" aria-pressed={finalOnly} onClick={() => setFinalOnly(!finalOnly)}>
          Final only
        </button>
        <SoundSwitch store={store} paused={paused} />
        {props.controls}
      </div>
      {props.below}
      <Notice store={store} />
      <TapeList
        store={store}
        paused={paused}
        finalOnly={finalOnly}
        chosen={chosen}
        onChoose={setChosen}
      />
      {chosen === undefined ? null : (
        <TapeDetail
          key={chosen.number}
          row={chosen}
          store={store}
          onClose={() => setChosen(undefined)}
        />
      )}
    </>
  );
}

function SoundSwitch({ store, paused }: { readonly store: TapeStore; readonly paused: boolean }) {
  const [sound, setSound] = useState<TapeSound | undefined>(undefined);
  const heard = useRef(-1);
  useEffect(() => () => sound?.close(), [sound]);
  useEffect(() => {
    const fresh = store.rows.filter(({ number }) => number > heard.current);
    heard.current = store.rows.at(-1)?.number ?? -1;
    if (!paused) sound?.play(fresh);
  }, [store.version.value]);
  return (
    <button
      type="button"
      aria-pressed={sound !== undefined}
      title="A tone for new matches: higher for purchases, louder for larger ones"
      onClick={() => setSound(sound === undefined ? new TapeSound() : undefined)}
    >
      Sound
    </button>
  );
}

function Connection({ store }: { readonly store: TapeStore }) {
  const state = store.state.value;
  return (
    <p class="sub" role="status" data-stream={state.kind}>
      {state.kind === 'live' ? (
        <span class="state ok">
          <b aria-hidden="true">●</b> live
        </span>
      ) : (
        <span class={`state ${state.kind === 'refused' ? 'bad' : 'busy'}`}>
          <b aria-hidden="true">○</b> {stateText(state)}
        </span>
      )}
      <span class="age" aria-live="off">
        <Figures store={store} />
      </span>
    </p>
  );
}

function stateText(state: TapeStore['state']['value']): string {
  switch (state.kind) {
    case 'connecting':
      return 'connecting';
    case 'live':
      return 'live';
    case 'waiting':
      return `${state.why}; retrying in ${span(Math.max(0, state.tryAtMs - now.value))}`;
    case 'refused':
      return 'refused';
  }
}

function Figures({ store }: { readonly store: TapeStore }) {
  void store.version.value;
  return (
    <>
      {store.rate.value.toFixed(1)} events/s · {count(store.rows.length)} rows
      {store.position === '' ? '' : ` · cursor ${store.position}`}
    </>
  );
}

function Notice({ store }: { readonly store: TapeStore }) {
  const state = store.state.value;
  const notice = store.notice.value;
  if (state.kind === 'refused') return <Problem problem={state.problem} />;
  if (notice === undefined) return null;
  return (
    <p class={`told ${notice.kind}`} role="status">
      <span>{notice.text}</span>
      <button
        type="button"
        onClick={() => {
          store.notice.value = undefined;
        }}
      >
        Dismiss
      </button>
    </p>
  );
}

function shortened(value: string): string {
  return value.length > 24 ? `${value.slice(0, 22)}…` : value;
}

/** One match with all its participants, in a drawer beside the tape. */
export function TapeDetail(props: {
  readonly row: Row;
  /** Tells when the row changes. */
  readonly store: TapeStore;
  readonly onClose: () => void;
}) {
  const { row, store, onClose } = props;
  void store.version.value;
  const close = useRef<HTMLButtonElement>(null);
  // As soon as the drawer shows: its keys work only while it has the focus.
  useLayoutEffect(() => {
    // Back to the row for the keyboard; the focus that a mouse left there would hold the tape.
    const before = document.querySelector('.tape :focus-visible');
    close.current?.focus({ preventScroll: true });
    return () => {
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <aside
      class="card detail"
      aria-labelledby="detail-title"
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
      }}
    >
      <div class="section-head">
        <h2 id="detail-title">
          <a href={`/market/${row.market.id}`}>
            {row.market.question === '' ? 'Unlisted market' : row.market.question}
          </a>
        </h2>
        <button type="button" class="push" ref={close} onClick={onClose}>
          Close
        </button>
      </div>
      <p class="sub">
        {row.state === 'void' ? `void: ${row.reason.replaceAll('_', ' ')}` : row.state} · detected{' '}
        {timeText(row.detectedAtMs)} · cursor {row.position}
      </p>
      <p class="sub">
        transaction <code>{shortHash(row.txHash)}</code>
        <CopyButton text={row.txHash} what="the transaction hash" />
      </p>
      <div class="scroll">
        <table class="inner">
          <thead>
            <tr>
              <th scope="col">Role</th>
              <th scope="col">Trader</th>
              <th scope="col">Side</th>
              <th scope="col">Outcome</th>
              <th scope="col" class="figure">
                Price
              </th>
              <th scope="col" class="figure">
                Shares
              </th>
              <th scope="col" class="figure">
                USDC
              </th>
              <th scope="col" class="figure">
                Fee
              </th>
            </tr>
          </thead>
          <tbody>
            {[row.taker, ...row.makers].map((fill, index) => (
              <tr key={index}>
                <td>{index === 0 ? 'taker' : 'maker'}</td>
                <td>
                  <a href={`/trader/${fill.address}`} title={fill.address}>
                    {fill.name === '' ? shortAddress(fill.address) : fill.name}
                  </a>
                </td>
                <td>
                  <Side side={fill.side} />
                </td>
                <td>{fill.outcome}</td>
                <td class="figure">{cents(fill.usdc, fill.shares)}</td>
                <td class="figure">{amount(fill.shares)}</td>
                <td class="figure" title={exact(fill.usdc)}>
                  {amount(fill.usdc)}
                </td>
                <td class="figure">{amount(fill.fee)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </aside>
  );
}

function shortHash(hash: string): string {
  return `${hash.slice(0, 12)}…${hash.slice(-6)}`;
}
