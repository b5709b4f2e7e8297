/**
 * The API key of this browser tab. It comes from `#key=…` in the URL, which browsers never send to a server, or
 * from the user. It is removed from the address bar at once, kept in session storage only, and sent only as a
 * request header.
 */
import { signal } from '@preact/signals';

const STORAGE_NAME = 'fillstream.key';
const FORM = /^[\w-]{1,200}$/;

/** '' if there is none. */
export const key = signal('');
/** The server's message about the key that was rejected. */
export const refusal = signal('');

export function useKey(given: string): void {
  refusal.value = '';
  key.value = given;
  sessionStorage.setItem(STORAGE_NAME, given);
}

export function forgetKey(why = ''): void {
  sessionStorage.removeItem(STORAGE_NAME);
  refusal.value = why;
  key.value = '';
}

/** Reads the key from the URL or session storage, also from a link that is pasted later. */
export function openKey(): void {
  key.value = sessionStorage.getItem(STORAGE_NAME) ?? '';
  takeFromAddress();
  addEventListener('hashchange', takeFromAddress);
}

function takeFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get('key');
  if (given === null) return;
  history.replaceState(history.state, '', location.pathname + location.search);
  if (FORM.test(given)) useKey(given);
}
