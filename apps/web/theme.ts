/** Light or dark: follows the system until the user chooses; the browser remembers the choice. */
import { signal } from '@preact/signals';
import { readStored, writeStored } from './stored.ts';

export type Theme = 'auto' | 'light' | 'dark';

const STORAGE_NAME = 'fillstream.theme';
const NEXT: Readonly<Record<Theme, Theme>> = { auto: 'light', light: 'dark', dark: 'auto' };
const SYSTEM = matchMedia('(prefers-color-scheme: dark)');

export const theme = signal<Theme>('auto');
/** Increases with every change of colours, for components that draw on a canvas. */
export const colours = signal(0);

export function openTheme(): void {
  const stored = readStored(STORAGE_NAME);
  show(stored === 'light' || stored === 'dark' ? stored : 'auto');
  SYSTEM.addEventListener('change', () => {
    colours.value += 1;
  });
}

export function nextTheme(): void {
  const next = NEXT[theme.value];
  writeStored(STORAGE_NAME, next);
  show(next);
}

/**
 * Returns the current colour of a custom property in a form that a canvas accepts. The property itself is
 * text such as `light-dark(…)`, so an element has to resolve it.
 */
export function colour(name: string, opacity = 1): string {
  const probe = document.createElement('i');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color.replace(/^rgba?\(([^,]+,[^,]+,[^,)]+).*$/, `rgba($1, ${opacity})`);
}

function show(next: Theme): void {
  theme.value = next;
  document.documentElement.dataset.theme = next;
  colours.value += 1;
}
