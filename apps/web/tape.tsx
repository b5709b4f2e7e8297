/**
 * The live tape: every match that passes the filters, as soon as it is seen. Filters are stored in the page's URL under
 * the API's parameter names; a change of filters starts a new tape.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { traderAddress } from '../client/index.ts';
import { AlertMe } from './alert-me.tsx';
import { matchRule } from './alert-rule.tsx';
import { fillstream } from './client.ts';
import { CopyButton } from './controls.tsx';
import type { FeedFilter } from './feed-filter.ts';
import { FILL } from './fills.tsx';
import {
  chipsOf,
  type Filter,
  FilterChips,
  FilterFields,
  parametersOf,
  settingsOf,
} from './filters.tsx';
import { capital, count, nameOf, shortAddress, span, timeText } from './format.ts';
import { InCode } from './in-code.tsx';
import { sharedFeed } from './shared-feed.ts';
import { useViewKeys } from './shortcuts.ts';
import { now } from './status-strip.tsx';
import { type Column, Table } from './table.tsx';
import { EmptyTape } from './tape-empty.tsx';
import { TapeList, TapeMarket } from './tape-list.tsx';
import { TapePresets } from './tape-presets.tsx';
import { TapeSound } from './tape-sound.ts';
import { type Open, type Participant, type Row, TapeStore } from './tape-store.ts';
import { useTitle } from './title.ts';
import { Problem } from './use-answer.tsx';

const FILTERS: readonly Filter[] = [
  ...(
    [
      ['traders', 'Traders (addresses or names, comma-separated)'],
      ['markets', 'Markets (ids or slugs, comma-separated)'],
      ['tags', 'Tags (comma-separated)'],
      ['series', 'Series (slugs, comma-separated)'],
    ] as const
  ).map(([name, label]) => ({
    ...{ name, label, chip: `${name} #`, type: 'text' as const, wide: true },
  })),
  ...(
    [
      ['min_usdc', 'Min size, USDC', 'USDC ≥ #'],
      ['max_usdc', 'Max size, USDC', 'USDC ≤ #'],
      ['min_shares', 'Min shares', 'shares ≥ #'],
      ['max_shares', 'Max shares', 'shares ≤ #'],
      ['min_price', 'Min price, ¢', 'price ≥ #'],
      ['max_price', 'Max price, ¢', 'price ≤ #'],
    ] as const
  ).map(([name, label, chip]) => ({ name, label, chip, type: 'number' as const })),
];
const settings = settingsOf({});

/** How many past matches a tape opens with, at most 200. */
export const FIRST_MATCHES = 200;

export function Tape() {
  const [isOpen, setOpen] = useState(false);
  const asked = parametersOf(
    settings,
    FILTERS.map(({ name }) => name),
  );
  const name = String(asked);
  // Sent as typed; the server reports what is wrong.
  const filter: FeedFilter = Object.fromEntries(asked);
  const followed = (asked.get('traders') ?? '').split(',').map((text) => text.trim());
  const title = chipsOf(settings, FILTERS)
    .map(({ text }) => text)
    .join(', ');
  return (
    <section aria-labelledby="title" class="full">
      <LiveTape
        title="Tape"
        name={name}
        open={(options) => feedOf(filter, options)}
        followed={followed}
        empty={<EmptyTape filter={asked} />}
        controls={
          <>
            <FilterChips settings={settings} filters={FILTERS} isOpen={isOpen} onOpen={setOpen} />
            <AlertMe
              suggestions={[{ title: 'Matches', name: title, rule: matchRule(filter) }]}
              refusal={alertRefusal(filter)}
            />
            <InCode request={{ feed: filter }} />
          </>
        }
        below={
          <>
            <TapePresets names={FILTERS.map(({ name }) => name)} title={title} />
            <FilterFields settings={settings} filters={FILTERS} isOpen={isOpen} />
          </>
        }
      />
    </section>
  );
}

/** Why there can be no alert with these filters; undefined if there can. */
function alertRefusal(filter: FeedFilter): string | undefined {
  if (filter.min_shares !== undefined || filter.max_shares !== undefined) {
    return 'Alerts cannot filter by shares';
  }
  return Object.keys(filter).length === 0 ? 'Choose a filter first' : undefined;
}

/** The feed of a filter. Names of traders become addresses in the URL, which starts a new tape. */
async function* feedOf(filter: FeedFilter, options: Parameters<Open>[0]) {
  const given = (filter.traders ?? '').split(',').filter((text) => text.trim() !== '');
  const addresses = await Promise.all(
    given.map((text) => traderAddress(fillstream.value, text, { signal: options.signal })),
  );
  const isNamed = addresses.some((address, at) => address !== given[at]?.trim());
  if (isNamed) settings.set({ traders: addresses.join(',').toLowerCase() }, { typed: true });
  else yield* sharedFeed(filter, { ...options, last: FIRST_MATCHES });
}

/** A tape of one event stream. */
export function LiveTape(props: {
  readonly title: string;
  /** Identifies the stream; a new name starts a new one. */
  readonly name: string;
  readonly open: Open;
  /** Traders, by address, whose fills the rows show in place of the takers'. */
  readonly followed?: readonly string[];
  readonly controls?: ComponentChildren;
  readonly below?: ComponentChildren;
  /** Shown in place of rows while there are none. */
  readonly empty?: ComponentChildren;
}) {
  const { title, name, open, followed } = props;
  const [tries, setTries] = useState(0);
  const store = useMemo(() => new TapeStore(open, followed), [name, tries]);
  const [paused, setPaused] = useState(false);
  const [choice, setChoice] = useState<{ readonly row: Row; readonly of: TapeStore } | undefined>();
  const [finalOnly, setFinalOnly] = useState(false);
  // A row of an earlier stream is not in this list.
  const chosen = choice?.of === store ? choice.row : undefined;
  useEffect(() => () => store.close(), [store]);
  useTitle(title);
  useViewKeys({ ' ': () => setPaused((last) => !last) });
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
      <Notice store={store} onRetry={() => setTries(tries + 1)} />
      {/* Only the list starts again: the controls, one of which may have the focus, stay. */}
      <TapeList
        key={`${name} ${tries}`}
        store={store}
        paused={paused}
        finalOnly={finalOnly}
        chosen={chosen}
        empty={props.empty}
        onChoose={(row) => setChoice({ row, of: store })}
      />
      {chosen === undefined ? null : (
        <TapeDetail
          key={chosen.number}
          row={chosen}
          store={store}
          onClose={() => setChoice(undefined)}
        />
      )}
    </>
  );
}

function SoundSwitch({ store, paused }: { readonly store: TapeStore; readonly paused: boolean }) {
  const [sound, setSound] = useState<TapeSound | undefined>(undefined);
  const seen = useRef(-1);
  const seenOf = useRef(store);
  useEffect(() => () => sound?.close(), [sound]);
  useEffect(() => {
    const fresh = store.rows.filter(({ number }) => number > seen.current);
    seen.current = store.rows.at(-1)?.number ?? -1;
    // The rows that a stream opens with are not new.
    if (seenOf.current !== store) {
      if (store.rows.length > 0) seenOf.current = store;
      return;
    }
    if (!paused) sound?.play(fresh);
  }, [store, store.version.value]);
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
          <b aria-hidden="true">●</b> Live
        </span>
      ) : (
        <span class={`state ${state.kind === 'refused' ? 'bad' : 'busy'}`}>
          <b aria-hidden="true">○</b> {stateText(state)}
          {state.kind === 'waiting' ? (
            <span aria-live="off">
              ; retrying in {span(Math.max(0, state.tryAtMs - now.value))}
            </span>
          ) : null}
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
      return 'Connecting';
    case 'live':
      return 'Live';
    case 'waiting':
      return capital(state.why);
    case 'refused':
      return 'Refused';
  }
}

function Figures({ store }: { readonly store: TapeStore }) {
  void store.version.value;
  return (
    <>
      {store.rate.value.toFixed(1)} events/s · {count(store.rows.length)} rows
      {store.cursor === '' ? null : <span class="wide-only"> · cursor {store.cursor}</span>}
    </>
  );
}

function Notice({ store, onRetry }: { readonly store: TapeStore; readonly onRetry: () => void }) {
  const state = store.state.value;
  const notice = store.notice.value;
  if (state.kind === 'refused') return <Problem problem={state.problem} onRetry={onRetry} />;
  if (notice === undefined) return null;
  return (
    <p class={`stream-notice ${notice.kind}`} role="status">
      <span>{notice.text}</span>
      <button type="button" onClick={() => store.dismissNotice()}>
        Dismiss
      </button>
    </p>
  );
}

const PARTICIPANT: readonly Column<Participant & { readonly index: number }>[] = [
  { title: 'Role', class: 'f-time', cell: ({ index }) => (index === 0 ? 'Taker' : 'Maker') },
  {
    ...{ title: 'Trader', class: 'f-who' },
    cell: ({ address, name }) => (
      <a href={`/trader/${address}`} title={address}>
        {nameOf({ name, address })}
      </a>
    ),
  },
  ...FILL,
];

/** One match with all its participants, in a drawer next to the tape. */
function TapeDetail(props: {
  readonly row: Row;
  /** Notifies of changes to the row. */
  readonly store: TapeStore;
  readonly onClose: () => void;
}) {
  const { row, store, onClose } = props;
  void store.version.value;
  const close = useRef<HTMLButtonElement>(null);
  // At once, because the drawer's keys work only while it has the focus.
  useLayoutEffect(() => {
    // Keyboard users return to the row. After a mouse click, focus there would hold the tape.
    const before = document.querySelector('.tape :focus-visible');
    close.current?.focus({ preventScroll: true });
    return () => {
      if (before === null) return;
      // The row may have moved out of view.
      const next = before.isConnected ? before : document.querySelector('.tape-scroll');
      if (next instanceof HTMLElement) next.focus({ preventScroll: true });
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
          <TapeMarket market={row.market} />
        </h2>
        <button type="button" class="push" ref={close} onClick={onClose}>
          Close
        </button>
      </div>
      <p class="sub">
        {row.state === 'void' ? `Void: ${row.reason.replaceAll('_', ' ')}` : capital(row.state)} ·
        detected {timeText(row.detectedAtMs)} · cursor {row.cursor}
      </p>
      <p class="sub">
        Transaction <code>{shortAddress(row.txHash)}</code>
        <CopyButton text={row.txHash} what="the transaction hash" />
      </p>
      <div class="scroll">
        <Table
          label="Participants"
          class="fills inner"
          columns={PARTICIPANT}
          rows={[row.taker, ...row.makers].map((fill, index) => ({ ...fill, index }))}
          keyOf={({ index }) => index}
        />
      </div>
    </aside>
  );
}
