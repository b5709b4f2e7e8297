/**
 * The rows of a tape, newest first, as a virtual list: only visible rows are rendered. At the top, it follows the
 * stream. While it is paused, scrolled away, hovered or focused, it holds still and counts new rows. A row renders
 * again only when its state changes, and keeps its place.
 */
import type { ComponentChildren, TargetedFocusEvent, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { amount, cents, clock, count, exact, nameOf } from './format.ts';
import type { Row, TapeStore } from './tape-store.ts';

/** Must match the style sheet: on a phone, a row has two lines. */
const ROW_PIXELS = 30;
const PHONE_ROW_PIXELS = 52;
const PHONE = matchMedia('(max-width: 760px)');
const TOUCH = matchMedia('(hover: none)');
const ROWS_BEYOND = 4;
const TOUCHED_MS = 1_500;
const FILL_MS = 1_000;

type Props = {
  readonly store: TapeStore;
  readonly paused: boolean;
  /** Shows only final matches. */
  readonly finalOnly: boolean;
  readonly chosen: Row | undefined;
  /** Shown in place of rows while there are none. */
  readonly empty?: ComponentChildren;
  readonly onChoose: (row: Row) => void;
};

export function TapeList({ store, paused, finalOnly, chosen, empty, onChoose }: Props) {
  const held = useHeld();
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [rowPixels, setRowPixels] = useState(rowPixelsNow);
  const built = useRef(new WeakMap<Row, { readonly state: string; readonly node: VNode }>());
  /** The rows that stay on screen while the list is held, whatever the store adds or drops. */
  const frozen = useRef<Frozen | undefined>(undefined);
  const choose = useRef(onChoose);
  choose.current = onChoose;

  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      setRowPixels(rowPixelsNow());
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Subscribes this component to flushes.
  void store.version.value;
  const current = shownOf(store.rows, finalOnly);
  const isEmpty = frozen.current === undefined && current.length === 0;
  const isFilled = useFilled(!isEmpty, paused);
  // An empty list cannot be held, and a new one that is paused fills first.
  const isHeld = !isEmpty && (held.is !== undefined || (paused && isFilled));
  const isFollowing = !isHeld && top <= 0;
  if (isFollowing) frozen.current = undefined;
  else if (frozen.current?.finalOnly !== finalOnly) {
    const all = frozen.current?.all ?? store.rows.slice();
    frozen.current = { all, finalOnly, rows: shownOf(all, finalOnly) };
  }
  const rows = frozen.current?.rows ?? current;
  const waiting = frozen.current === undefined ? 0 : countNew(current, frozen.current);
  const last = rows.length - 1;

  const shown = Math.ceil(height / rowPixels) + ROWS_BEYOND;
  const first = Math.max(0, Math.floor(top / rowPixels) - ROWS_BEYOND);
  const length = Math.max(0, last + 1);
  const end = Math.min(length, first + shown + ROWS_BEYOND);
  const visible: VNode[] = [];
  for (let index = first; index < end; index += 1) {
    const row = rows[last - index];
    if (row !== undefined) visible.push(nodeOf(row));
  }

  function nodeOf(row: Row): VNode {
    const state = `${row.state} ${row === chosen}`;
    const known = built.current.get(row);
    if (known?.state === state) return known.node;
    const node = (
      <TapeRow
        key={row.number}
        row={row}
        state={row.state}
        chosen={row === chosen}
        onChoose={() => choose.current(row)}
      />
    );
    built.current.set(row, { state, node });
    return node;
  }

  function toTop(): void {
    // If the list is held, hold the new rows.
    frozen.current = undefined;
    scroller.current?.scrollTo({ top: 0 });
    setTop(0);
  }

  return (
    <div class="tape card">
      {paused || isFollowing ? null : top > 0 ? (
        waiting > 0 ? (
          <button type="button" class="primary fresh" onClick={toTop}>
            ↑ {count(waiting)} new
          </button>
        ) : null
      ) : (
        <p class="fresh held" role="status">
          <span aria-hidden="true">❚❚</span> {heldText(held.is)}
          <span aria-live="off">{waiting > 0 ? ` · ${count(waiting)} new` : ''}</span>
        </p>
      )}
      <section
        ref={scroller}
        class="tape-scroll"
        {...held.handlers}
        aria-label="Matches, newest first"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <table aria-rowcount={-1} aria-label="Matches">
          <thead>
            <tr>
              <th scope="col" class="c-time">
                Time, UTC
              </th>
              <th scope="col" class="c-state">
                State
              </th>
              <th scope="col" class="c-side">
                Side
              </th>
              <th scope="col" class="c-outcome">
                Outcome
              </th>
              <th scope="col" class="c-price figure">
                Price
              </th>
              <th scope="col" class="c-usdc figure">
                USDC
              </th>
              <th scope="col" class="c-market">
                Market
              </th>
              <th scope="col" class="c-taker">
                Trader
              </th>
            </tr>
          </thead>
          <tbody>
            <Space pixels={first * rowPixels} />
            {visible}
            <Space pixels={(length - end) * rowPixels} />
          </tbody>
        </table>
        {!isEmpty || store.state.value.kind !== 'live' ? null : store.rows.length > 0 ? (
          <p class="empty">None of these {count(store.rows.length)} matches is final yet.</p>
        ) : (
          empty
        )}
      </section>
    </div>
  );
}

/** The name of a market with a link. A pending match of an unlisted market does not say which one it is. */
export function TapeMarket({ market: { id, question } }: Pick<Row, 'market'>) {
  const name = question === '' ? 'Unlisted market' : question;
  if (id === '0') return <span>{name}</span>;
  return (
    <a href={`/market/${id}`} title={name}>
      {name}
    </a>
  );
}

/** Whether a list that begins while the tape is paused has had time for its past matches since its first ones. */
function useFilled(hasRows: boolean, paused: boolean): boolean {
  const [isFilled, setFilled] = useState(!paused);
  useEffect(() => {
    if (!hasRows) return;
    const timer = setTimeout(() => setFilled(true), FILL_MS);
    return () => clearTimeout(timer);
  }, [hasRows]);
  return isFilled;
}

type Frozen = {
  readonly all: readonly Row[];
  readonly finalOnly: boolean;
  /** Those of `all` that are shown. */
  readonly rows: readonly Row[];
};

function shownOf(rows: readonly Row[], finalOnly: boolean): readonly Row[] {
  return finalOnly ? rows.filter(({ state }) => state === 'final') : rows;
}

function countNew(current: readonly Row[], { all, finalOnly, rows }: Frozen): number {
  // Of all rows, the store may have dropped some that are new.
  if (!finalOnly) return (current.at(-1)?.number ?? -1) - (all.at(-1)?.number ?? -1);
  const shown = new Set(rows);
  return current.filter((row) => !shown.has(row)).length;
}

/** Fills the space of rows that are not rendered. */
function Space({ pixels }: { readonly pixels: number }) {
  if (pixels <= 0) return null;
  return (
    <tr class="space">
      <td style={{ height: `${pixels}px` }} />
    </tr>
  );
}

/** The sign of each state of a match. */
export const SIGNS = { pending: '◌', final: '✓', void: '✕' } as const;

function TapeRow(props: {
  readonly row: Row;
  readonly state: Row['state'];
  readonly chosen: boolean;
  readonly onChoose: () => void;
}) {
  const { row, state, chosen, onChoose } = props;
  const { shown, market } = row;
  // A row that is final when it comes into view has not just settled.
  const wasPending = useRef(state === 'pending').current;
  const settled = wasPending && state === 'final' ? ' settled' : '';
  return (
    <tr
      class={`${state}${settled}${chosen ? ' chosen' : ''}`}
      data-cursor={row.cursor}
      onClick={(event) => {
        if (isForRow(event)) onChoose();
      }}
    >
      <td class="c-time">
        <button
          type="button"
          class="plain"
          data-row
          aria-label={`Details of the match of ${clock(row.detectedAtMs)}`}
        >
          {clock(row.detectedAtMs)}
        </button>
      </td>
      <td class="c-state" title={row.reason === '' ? state : `${state}: ${row.reason}`}>
        <span aria-hidden="true">{SIGNS[state]}</span> <span class="word">{state}</span>
      </td>
      <td class={`c-side side ${shown.side === 'BUY' ? 'gain' : 'loss'}`}>{shown.side}</td>
      <td class="c-outcome">{shown.outcome}</td>
      <td class="c-price figure">{cents(shown.usdc, shown.shares)}</td>
      <td
        class={`c-usdc figure heat ${shown.side === 'BUY' ? 'bought' : 'sold'}`}
        style={{ '--heat': heat(shown.usdc) }}
        title={exact(shown.usdc)}
      >
        {amount(shown.usdc)}
      </td>
      <td class="c-market">
        <TapeMarket market={market} />
      </td>
      <td class="c-taker">
        <a href={`/trader/${shown.trader.address}`} title={shown.trader.address}>
          {nameOf(shown.trader)}
        </a>
        {shown.isTaker ? null : <span class="soft"> maker</span>}
      </td>
    </tr>
  );
}

/** Why a list is held: the mouse is over it, it has the keyboard focus, or a finger touches it. */
export function useHeld() {
  const [isPointed, setPointed] = useState(false);
  const [isFocused, setFocused] = useState(false);
  const release = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(release.current), []);
  const section = useRef<Element | undefined>(undefined);
  // Only Chromium sends an event when the focused element is removed.
  useEffect(() => {
    if (section.current?.contains(document.activeElement) === false) setFocused(false);
  });
  const isMouse = (event: PointerEvent) => event.pointerType !== 'touch';
  return {
    is: isPointed ? 'point at it' : isFocused ? 'are in it' : undefined,
    handlers: {
      onPointerEnter: (event: PointerEvent) => setPointed(isMouse(event)),
      onPointerLeave: (event: PointerEvent) => {
        if (isMouse(event)) setPointed(false);
      },
      onPointerDown: (event: PointerEvent) => {
        clearTimeout(release.current);
        setPointed(true);
        // The click follows after the finger was lifted.
        if (!isMouse(event)) release.current = setTimeout(() => setPointed(false), TOUCHED_MS);
      },
      onFocusIn: (event: TargetedFocusEvent<Element>) => {
        section.current = event.currentTarget;
        setFocused(event.target instanceof Element && event.target.matches(':focus-visible'));
      },
      onFocusOut: () => setFocused(false),
    },
  };
}

/** Says why a list is held. A finger does not point. */
export function heldText(why: string | undefined): string {
  return TOUCH.matches ? 'Paused' : `Paused while you ${why}`;
}

/** Handles the click unless it is meant for a link: by keyboard, or to open another tab. */
function isForRow(event: MouseEvent): boolean {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return false;
  const isLink = event.target instanceof Element && event.target.closest('a') !== null;
  if (isLink && event.detail === 0) return false;
  event.preventDefault();
  return true;
}

/** Length of the bar behind an amount: none up to 10 USDC, the whole cell from 10,000. */
function heat(usdc: string): number {
  const decades = Math.log10(Number(usdc) / 1e7) / 3;
  return Math.round(Math.min(1, Math.max(0, decades)) * 100) / 100;
}

function rowPixelsNow(): number {
  return PHONE.matches ? PHONE_ROW_PIXELS : ROW_PIXELS;
}
