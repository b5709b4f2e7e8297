/**
 * Keyboard shortcuts of the page. They are off while the user types and never use a modifier, so the browser's
 * own shortcuts keep working. Lists mark their links with `data-row` to take part in j and k.
 */
import { signal } from '@preact/signals';
import { go } from './route.ts';

export const helpOpen = signal(false);

/** Shortcuts of the current view: key → action. */
export const viewKeys = signal<Readonly<Record<string, () => void>>>({});

export const SHORTCUTS: readonly (readonly [keys: string, meaning: string])[] = [
  ['/', 'find a trader or a market'],
  ['j, k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['1 … 6', 'time frame of the leaderboard'],
  ['Space', 'pause or resume (tape)'],
  ['l, t, m', 'leaderboard, tape, my streams'],
  ['?', 'this list'],
];

const PLACES: Readonly<Record<string, string>> = { l: '/', t: '/tape', m: '/manage/streams' };

export function openShortcuts(): void {
  addEventListener('keydown', (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || isTaken(event)) return;
    const action = actionOf(event.key);
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function actionOf(key: string): (() => void) | undefined {
  const own = viewKeys.value[key];
  if (own !== undefined) return own;
  const place = PLACES[key];
  if (place !== undefined) return () => go(place);
  if (key === '/') return () => document.querySelector<HTMLElement>('#find')?.focus();
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
