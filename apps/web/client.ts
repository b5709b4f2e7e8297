/** The client of the API on the page's own host. Forgets a key that the server rejects. */
import { computed } from '@preact/signals';
import { Fillstream } from '../client/index.ts';
import { forgetKey, freshPageKey, key } from './key.ts';

/** Uses this tab's key. */
export const fillstream = computed(() => clientWith(key.value));

/** The header has whole seconds, so a smaller difference is none. */
const CLOCK_MS_MIN = 2_000;
/** By how much the server's clock is ahead of this device's. */
let aheadMs = 0;

/** The server's time at a time of this device, as of the event stream that was opened last. */
export function serverMs(ownMs: number): number {
  return ownMs + aheadMs;
}

export function clientWith(used: string): Fillstream {
  return new Fillstream({
    url: location.origin,
    key: used,
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (response.status === 401 && used === key.value) {
        const { message } = (await response.clone().json()) as { readonly message: string };
        const fresh = await freshPageKey();
        // Another request may have failed first, and the user may already have entered a new key.
        if (used !== key.value) return response;
        if (fresh === '' || fresh === used) forgetKey(message);
        else key.value = fresh;
      }
      // Other answers may come from the browser's cache.
      if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
        const ms = Date.parse(response.headers.get('Date') ?? '') - Date.now();
        aheadMs = Math.abs(ms) < CLOCK_MS_MIN ? 0 : ms || 0;
      }
      return response;
    },
  });
}
