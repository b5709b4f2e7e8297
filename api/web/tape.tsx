/**
 * The live tape: every match that fits the filters, when it is first seen. Filters stand in the
 * address of the page under the names of the API; with other filters it is another tape.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { count, span } from './format.ts';
import { Problem } from './problem.tsx';
import { query, setQuery } from './route.ts';
import { viewKeys } from './shortcuts.ts';
import { now } from './status-strip.tsx';
import { TapeDetail } from './tape-detail.tsx';
import { TapeList } from './tape-list.tsx';
import type { Row } from './tape-row.ts';
import { TapeStore } from './tape-store.ts';
import { TypedField } from './typed-field.tsx';

const FILTERS = [
  { name: 'traders', label: 'Traders (addresses, by comma)', chip: 'traders', wide: true },
  { name: 'tags', label: 'Tags (by comma)', chip: 'tags', wide: true },
  { name: 'series', label: 'Series (slugs, by comma)', chip: 'series', wide: true },
  { name: 'min_usdc', label: 'USDC from', chip: 'USDC ≥', wide: false },
  { name: 'max_usdc', label: 'USDC to', chip: 'USDC ≤', wide: false },
  { name: 'min_shares', label: 'Shares from', chip: 'shares ≥', wide: false },
  { name: 'max_shares', label: 'Shares to', chip: 'shares ≤', wide: false },
  { name: 'min_price', label: 'Price from, ¢', chip: 'price ≥', wide: false },
  { name: 'max_price', label: 'Price to, ¢', chip: 'price ≤', wide: false },
] as const;

export function Tape() {
  const given = query.value;
  const active = FILTERS.filter(({ name }) => given.has(name));
  const [open, setOpen] = useState(false);
  const asked = new URLSearchParams({ format: 'json' });
  for (const { name } of active) asked.set(name, given.get(name) ?? '');
  return (
    <section aria-labelledby="title" class="full">
      <LiveTape
        key={asked.toString()}
        title="Tape"
        path={`/v1/stream/orders?${asked}`}
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
            {active.map(({ name, chip }) => (
              <button
                key={name}
                type="button"
                class="chip"
                title="Remove this filter"
                onClick={() => setQuery({ [name]: '' })}
              >
                {chip} {shortened(given.get(name) ?? '')} <span aria-hidden="true">×</span>
                <span class="hidden">(remove)</span>
              </button>
            ))}
          </>
        }
        below={
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
        }
      />
    </section>
  );
}

/** A tape of one stream, with its own state. */
export function LiveTape(props: {
  readonly title: string;
  readonly path: string;
  readonly controls?: ComponentChildren;
  readonly below?: ComponentChildren;
}) {
  const { title, path } = props;
  const store = useMemo(() => new TapeStore(path), [path]);
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState<Row | undefined>(undefined);
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
          {paused ? 'Go on' : 'Pause'}
        </button>
        {props.controls}
      </div>
      {props.below}
      <Told store={store} />
      {chosen === undefined ? null : (
        <TapeDetail row={chosen} onClose={() => setChosen(undefined)} />
      )}
      <TapeList store={store} paused={paused} chosen={chosen} onChoose={setChosen} />
    </>
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
      return `${state.why}; trying again in ${span(Math.max(0, state.tryAtMs - now.value))}`;
    case 'refused':
      return 'refused';
  }
}

function Figures({ store }: { readonly store: TapeStore }) {
  void store.version.value;
  return (
    <>
      {store.rate.value.toFixed(1)} events/s · {count(store.rows.length)} rows
      {store.position === '' ? '' : ` · position ${store.position}`}
    </>
  );
}

function Told({ store }: { readonly store: TapeStore }) {
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
        Understood
      </button>
    </p>
  );
}

function shortened(value: string): string {
  return value.length > 24 ? `${value.slice(0, 22)}…` : value;
}
