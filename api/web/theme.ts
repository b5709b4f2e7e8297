/** Light or dark: the system's choice until the user makes one, which this browser remembers. */
import { signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';

const STORAGE_NAME = 'fillstream.theme';
const NEXT: Readonly<Record<Theme, Theme>> = { auto: 'light', light: 'dark', dark: 'auto' };
const SYSTEM = matchMedia('(prefers-color-scheme: dark)');

export const theme = signal<Theme>('auto');
/** Grows with every change of colours, for what draws them itself. */
export const colours = signal(0);

export function openTheme(): void {
  const stored = localStorage.getItem(STORAGE_NAME);
  show(stored === 'light' || stored === 'dark' ? stored : 'auto');
  SYSTEM.addEventListener('change', () => {
    colours.value += 1;
  });
}

export function nextTheme(): void {
  const next = NEXT[theme.value];
  localStorage.setItem(STORAGE_NAME, next);
  show(next);
}

/**
 * The present colour of a custom property of the style sheet, as a canvas takes it: a property keeps
 * its text (`light-dark(…)`), so that an element has to take the colour first.
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
