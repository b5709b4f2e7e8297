/**
 * The API key of this browser tab: taken from `#key=…` of the address, which no browser sends to a
 * server, or typed by the user. Kept in the session storage only, so that it goes with the tab, and
 * handed to nothing but the header of requests. The address bar loses it at once.
 */
import { signal } from '@preact/signals';

const STORAGE_NAME = 'fillstream.key';
const FORM = /^[\w-]{1,200}$/;

/** '' while there is none. */
export const key = signal('');
/** Why the key that was tried is not used any more, in the server's words. */
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

/** Begins with what the address or the tab's storage has, and takes a link that is pasted later. */
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
