/** The client of the API on the page's own host. Forgets a key that the server rejects. */
import { computed } from '@preact/signals';
import { Fillstream } from '../client/index.ts';
import { forgetKey, key } from './key.ts';

/** Uses this tab's key. */
export const fillstream = computed(() => clientWith(key.value));

export function clientWith(used: string): Fillstream {
  return new Fillstream({
    url: location.origin,
    key: used,
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (response.status === 401 && used === key.value) {
        const { message } = (await response.clone().json()) as { readonly message: string };
        // Another request may have failed first, and the user may already have entered a new key.
        if (used === key.value) forgetKey(message);
      }
      return response;
    },
  });
}
