/**
 * Keyboard shortcuts of the page. Except for Ctrl-K, they are off while the user types and never use a modifier, so the
 * browser's own shortcuts keep working. Lists mark their links with `data-row` to support j and k.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { canRead } from './key.ts';
import { go } from './route.ts';
import { VIEWS } from './views.ts';

export const helpOpen = signal(false);
export const paletteOpen = signal(false);

type Actions = Readonly<Record<string, () => void>>;

/** Shortcuts of the current view: key → action. */
let viewKeys: Actions = {};

/** Sets the shortcuts of a view. The actions that it mounts with stay. */
export function useViewKeys(actions: Actions): void {
  useEffect(() => {
    viewKeys = actions;
    return () => {
      viewKeys = {};
    };
  }, []);
}

/** Chooses one of a list by its number. */
export function numberKeys<Name>(names: readonly Name[], choose: (name: Name) => void): Actions {
  return Object.fromEntries(names.map((name, index) => [String(index + 1), () => choose(name)]));
}

const KEYED = VIEWS.filter((view) => view.key !== undefined);

export const SHORTCUTS: readonly (readonly [keys: string, meaning: string])[] = [
  ['Ctrl K, ⌘ K, /', 'find a market or a trader'],
  ['j, k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['1 … 6', 'time frame of the leaderboard, range of a market'],
  ['Space', 'pause or resume (tape)'],
  [
    KEYED.map(({ key }) => key).join(', '),
    KEYED.map(({ title = '', help = title.toLowerCase() }) => help).join(', '),
  ],
  ['?', 'this list'],
];

export function openShortcuts(): void {
  addEventListener('keydown', (event) => {
    if (isPaletteKey(event) && canRead.value) {
      event.preventDefault();
      paletteOpen.value = !paletteOpen.value;
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey || isTaken(event)) return;
    // Nothing may happen behind an open dialog.
    if (paletteOpen.value || (helpOpen.value && event.key !== '?')) return;
    const action = actionOf(event.key);
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function isPaletteKey({ altKey, ctrlKey, metaKey, shiftKey, key }: KeyboardEvent): boolean {
  return key.toLowerCase() === 'k' && ctrlKey !== metaKey && !altKey && !shiftKey;
}

function actionOf(key: string): (() => void) | undefined {
  const own = viewKeys[key];
  if (own !== undefined) return own;
  const view = VIEWS.find((one) => one.key === key);
  if (view !== undefined) return () => go(view.path);
  if (key === '/') {
    return () => {
      paletteOpen.value = true;
    };
  }
  if (key === 'j' || key === 'k') return () => moveRow(key === 'j' ? 1 : -1);
  if (key === '?') {
    return () => {
      helpOpen.value = !helpOpen.value;
    };
  }
  return undefined;
}

function moveRow(step: number): void {
  const rows: Element[] = [...document.querySelectorAll('[data-row]')];
  const active = document.activeElement;
  const at = active === null ? -1 : rows.indexOf(active);
  const next = at === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step));
  const row = rows[next];
  if (!(row instanceof HTMLElement)) return;
  row.focus();
  row.scrollIntoView({ block: 'nearest' });
}

/** Whether the focused element handles this key itself. */
function isTaken({ key, target }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches('input[type=radio], button, summary')) return key === ' ' || key === 'Enter';
  return target.matches('input, select, textarea, [contenteditable]');
}
