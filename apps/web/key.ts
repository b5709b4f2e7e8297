/**
 * The API key of this browser. It comes from `#key=…` in the URL, which browsers never send to a server, from the page of
 * a service on this machine, or from the user. It is removed from the address bar at once, sent only as a request header, and kept as long as a tab of the
 * page is open; a new tab requests it from the others. It is stored on the device only if the user chose that.
 */
import { computed, signal } from '@preact/signals';
import { readStored, tabChannel, writeStored } from './stored.ts';

const STORAGE_NAME = 'fillstream.key';
/** How long a new tab waits for a reply from another one. */
const ANSWER_MS = 120;

/** The key that a service on this machine puts into its page; '' elsewhere. */
const pageKey = keyIn(document);

/** '' if there is none. */
export const key = signal('');
/** The server's message about the key that was rejected. */
export const refusal = signal('');
/** Whether a visitor without a key wants to enter one. */
export const isAsking = signal(false);
/** Whether requests without a key may read. */
export const isPublic =
  document.querySelector<HTMLMetaElement>('meta[name=public-tier]')?.content === 'demo';
/** Whether views are shown: with a key, or to a visitor who is not entering one. */
export const canRead = computed(
  () => key.value !== '' || (isPublic && refusal.value === '' && !isAsking.value),
);

/** Messages between the tabs of this origin. */
type TabMessage =
  | { readonly kind: 'who has a key?'; readonly asker: number }
  | { readonly kind: 'a key'; readonly asker: number; readonly key: string }
  | { readonly kind: 'forget'; readonly key: string };

const others = tabChannel(STORAGE_NAME);
/** Identifies this tab's pending question, until there is a reply or the user signs in or out. */
let asker: number | undefined;

export function useKey(given: string, { remember = isRemembered() } = {}): void {
  asker = undefined;
  refusal.value = '';
  isAsking.value = false;
  key.value = given;
  writeStored(STORAGE_NAME, given, 'sessionStorage');
  writeStored(STORAGE_NAME, remember ? given : null);
}

/** Forgets the key in every tab. */
export function forgetKey(why = ''): void {
  others.postMessage({ kind: 'forget', key: key.value } satisfies TabMessage);
  forgetHere(why);
}

/** Whether a text has the form of a key. Others may have characters that no header can contain. */
export function isKey(text: string): boolean {
  return /^[\w-]{1,200}$/.test(text);
}

/** Whether the key outlives the last tab. */
export function isRemembered(): boolean {
  return readStored(STORAGE_NAME) !== null;
}

/** Reads the key from the URL (including a link that is pasted later), from storage, or from another tab. */
export async function openKey(): Promise<void> {
  key.value = readStored(STORAGE_NAME, 'sessionStorage') ?? readStored(STORAGE_NAME) ?? '';
  takeFromAddress();
  addEventListener('hashchange', takeFromAddress);
  others.addEventListener('message', receive);
  if (key.value === '') key.value = pageKey || (await freshPageKey());
  if (key.value === '') await keyOfOtherTab();
}

/**
 * The key of the page as the service serves it now. It is another one after a new start, and there is none in a document
 * that a link of another site has opened.
 */
export async function freshPageKey(): Promise<string> {
  const response = await fetch('/', { cache: 'no-store' }).catch(() => undefined);
  const html = (await response?.text()) ?? '';
  return keyIn(new DOMParser().parseFromString(html, 'text/html'));
}

function keyIn(page: Document): string {
  return page.querySelector<HTMLMetaElement>('meta[name=page-key]')?.content ?? '';
}

function receive({ data }: MessageEvent<TabMessage>): void {
  if (data.kind === 'forget' && data.key === key.value) forgetHere('');
  if (data.kind === 'a key' && data.asker === asker) useKey(data.key);
  if (data.kind === 'who has a key?' && key.value !== '') {
    others.postMessage({ kind: 'a key', asker: data.asker, key: key.value } satisfies TabMessage);
  }
}

/** Waits briefly for a key from another tab; a late reply is used when it arrives. */
async function keyOfOtherTab(): Promise<void> {
  asker = Math.random();
  others.postMessage({ kind: 'who has a key?', asker } satisfies TabMessage);
  const answered = Promise.withResolvers<void>();
  const stop = key.subscribe((given) => {
    if (given !== '') answered.resolve();
  });
  setTimeout(answered.resolve, ANSWER_MS);
  await answered.promise;
  stop();
}

function forgetHere(why: string): void {
  asker = undefined;
  writeStored(STORAGE_NAME, null, 'sessionStorage');
  writeStored(STORAGE_NAME, null);
  refusal.value = why;
  key.value = '';
}

function takeFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get('key');
  if (given === null) return;
  history.replaceState(history.state, '', location.pathname + location.search);
  if (isKey(given)) useKey(given);
}
