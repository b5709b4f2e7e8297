/**
 * The command palette: searches markets and traders as the user types, and opens pasted addresses, ids and links. It
 * is a combobox over links, so arrow keys, clicks and Ctrl-clicks work as usual.
 */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Search } from './answers.ts';
import { count, nameOf, priceText, shortAddress, span, timeMs } from './format.ts';
import { Picture } from './picture.tsx';
import { type Recent, recent } from './recent.ts';
import { go, REFERENCE, routeOf } from './route.ts';
import { paletteOpen } from './shortcuts.ts';
import { Problem, useSearch } from './use-answer.tsx';
import { VIEWS } from './views.ts';

/** Results per kind. */
const HITS_MAX = 8;
const QUERY_LENGTH_MAX = 300;
const KEYS = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘ K' : 'Ctrl K';

const PLACES: readonly Item[] = [
  ...VIEWS.flatMap(({ path, title, key = '' }) =>
    title === undefined ? [] : [{ path, title, sub: key }],
  ),
  { path: REFERENCE, title: 'API reference', sub: '' },
];

type Item = {
  readonly path: string;
  readonly title: string;
  readonly sub: string;
  /** Set for what has a picture: an address or condition id, and the URL of an image, '' for none. */
  readonly picture?: { readonly id: string; readonly image: string };
};
type Group = { readonly title: string; readonly items: readonly Item[] };

export function FindButton() {
  return (
    <button
      type="button"
      class="find"
      aria-haspopup="dialog"
      aria-keyshortcuts="Control+K Meta+K /"
      onClick={() => {
        paletteOpen.value = true;
      }}
    >
      <span aria-hidden="true">⌕</span>
      <span class="find-text">Find a market or trader</span>
      <span class="find-keys" aria-hidden="true">
        {KEYS}
      </span>
    </button>
  );
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = paletteOpen.value;
  const close = () => {
    paletteOpen.value = false;
  };
  useLayoutEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog by itself
    <dialog
      ref={dialog}
      class="card palette"
      aria-label="Find"
      onClose={() => {
        // The event comes late: the palette may be open again.
        if (dialog.current?.open === false) close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      {isOpen ? <Finder close={close} /> : null}
    </dialog>
  );
}

function Finder({ close }: { readonly close: () => void }) {
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  /** Enter was pressed or a link was pasted before its target was known. */
  const [isAwaited, setAwaited] = useState<'first' | 'only' | ''>('');
  const list = useRef<HTMLDivElement>(null);
  const { wanted, asked, ask, answer, isCurrent } = useSearch(typed, HITS_MAX);
  const groups = asked === '' ? groupsBefore(recent.value) : groupsOf(answer.data);
  const items = groups.flatMap((group) => group.items);
  const chosen = items[Math.min(at, items.length - 1)];

  function open(path: string): void {
    close();
    go(path);
  }
  useEffect(() => {
    if (isAwaited === '' || wanted === '' || !isCurrent) return;
    setAwaited('');
    const [first] = items;
    if (first !== undefined && (isAwaited === 'first' || items.length === 1)) open(first.path);
  }, [isAwaited, isCurrent]);
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen?.path]);

  function enter(isNewTab: boolean): void {
    const path = pathNamed(wanted) ?? (isCurrent || wanted === '' ? chosen?.path : undefined);
    if (path === undefined) {
      ask(wanted);
      setAwaited(wanted === '' ? '' : 'first');
    } else if (isNewTab) window.open(path);
    else open(path);
  }
  function onKeyDown(event: KeyboardEvent): void {
    // The key is for the input method.
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && items.length > 0) {
      setAt((Math.min(at, items.length - 1) + step + items.length) % items.length);
    } else if (event.key === 'Enter') enter(event.ctrlKey || event.metaKey);
    else return;
    event.preventDefault();
  }
  function onPaste(event: ClipboardEvent): void {
    const pasted = event.clipboardData?.getData('text').trim() ?? '';
    const path = wanted === '' ? pathNamed(pasted) : undefined;
    if (path !== undefined) {
      event.preventDefault();
      open(path);
    } else if (wanted === '' && /^https?:\/\//i.test(pasted)) setAwaited('only');
  }

  return (
    <>
      <input
        id="find"
        type="text"
        role="combobox"
        aria-label="Market, trader, address or link"
        placeholder="Market, trader, address or link"
        aria-autocomplete="list"
        aria-expanded={items.length > 0}
        aria-controls="found"
        aria-activedescendant={chosen === undefined ? undefined : `found-${items.indexOf(chosen)}`}
        maxLength={QUERY_LENGTH_MAX}
        spellcheck={false}
        autocomplete="off"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
          if (event.inputType !== 'insertFromPaste') setAwaited('');
        }}
        onPaste={onPaste}
        onKeyDown={onKeyDown}
      />
      <Problem problem={answer.problem} answer={answer} />
      <div
        ref={list}
        id="found"
        class={`found ${answer.problem !== undefined && answer.isStale ? 'stale' : ''}`}
        role="listbox"
        aria-label="Found"
      >
        {groups.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be in a list box
          <div key={group.title} role="group" aria-label={group.title}>
            <div class="group-title" aria-hidden="true">
              {group.title}
            </div>
            {group.items.map((item) => (
              <Option
                key={item.path}
                item={item}
                number={items.indexOf(item)}
                isChosen={item === chosen}
                onPoint={() => setAt(items.indexOf(item))}
                onOpen={close}
              />
            ))}
          </div>
        ))}
      </div>
      <p class="found-none" role="status">
        {asked !== '' && isCurrent && items.length === 0 ? `Nothing found for “${asked}”.` : ''}
      </p>
      <p class="found-keys" aria-hidden="true">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> choose
        </span>
        <span>
          <kbd>Enter</kbd> open
        </span>
        <span>
          <kbd>Ctrl Enter</kbd> in a new tab
        </span>
        <span>
          <kbd>Esc</kbd> close
        </span>
      </p>
    </>
  );
}

function Option(props: {
  readonly item: Item;
  readonly number: number;
  readonly isChosen: boolean;
  readonly onPoint: () => void;
  readonly onOpen: () => void;
}) {
  const { path, title, sub, picture } = props.item;
  return (
    <a
      id={`found-${props.number}`}
      class="option"
      role="option"
      aria-selected={props.isChosen}
      tabIndex={-1}
      href={path}
      onPointerMove={props.onPoint}
      onClick={(event) => {
        if (!(event.ctrlKey || event.metaKey || event.shiftKey)) props.onOpen();
      }}
    >
      {picture === undefined ? null : <Picture {...picture} />}
      <span class="option-title">{title}</span>
      <span class="soft">{sub}</span>
    </a>
  );
}

function groupsBefore(opened: readonly Recent[]): readonly Group[] {
  const items = opened.toReversed().map(({ kind, path, title, image = '' }) => {
    const id = path.slice('/trader/'.length);
    return { path, title, sub: kind, ...(kind === 'trader' && { picture: { id, image } }) };
  });
  return [
    { title: 'Recent', items },
    { title: 'Go to', items: PLACES },
  ].filter((group) => group.items.length > 0);
}

function groupsOf(found: Search | undefined): readonly Group[] {
  const markets = (found?.markets ?? []).map(({ market, mark }) => ({
    path: `/market/${market.id === 0 ? market.condition_id : market.id}`,
    title: market.question === '' ? 'Unlisted market' : market.question,
    sub: stateOf(market, mark),
    picture: { id: market.condition_id, image: market.icon },
  }));
  const traders = (found?.traders ?? []).map(({ profile, fills }) => {
    const { address, name, profile_image: image } = profile;
    return {
      path: `/trader/${address.toLowerCase()}`,
      title: nameOf(profile),
      sub: `${name === '' ? '' : `${shortAddress(address)} · `}${count(fills)} fills`,
      picture: { id: address, image },
    };
  });
  return [
    { title: 'Markets', items: markets },
    { title: 'Traders', items: traders },
  ].filter((group) => group.items.length > 0);
}

/** `Yes 62¢ · closes in 3 d`, `Resolved: Yes`. */
function stateOf(
  market: Search['markets'][number]['market'],
  mark: Search['markets'][number]['mark'],
): string {
  if (market.resolved_at !== '') return `Resolved: ${market.winning_outcome || 'void'}`;
  const price = mark.price_1 === null ? [] : [`${market.outcome_1} ${priceText(mark.price_1)}`];
  const end = timeMs(market.end_date);
  const left = end === undefined ? 0 : end - Date.now();
  const closes = end === undefined ? [] : [left > 0 ? `closes in ${span(left)}` : 'closed'];
  return [...price, ...closes].join(' · ');
}

/** The path for an address, a condition id or a link to this page; these are recognised by their form. */
function pathNamed(text: string): string | undefined {
  const lower = text.toLowerCase();
  if (/^0x[0-9a-f]{64}$/.test(lower)) return `/market/${lower}`;
  if (/^0x[0-9a-f]{40}$/.test(lower)) return `/trader/${lower}`;
  if (!URL.canParse(text)) return undefined;
  const { origin, pathname, search } = new URL(text);
  const isHere = origin === location.origin && routeOf(pathname).view !== 'unknown';
  return isHere ? pathname + search : undefined;
}
