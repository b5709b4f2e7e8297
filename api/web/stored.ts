/** A list in the browser's storage, shared by all tabs of the page. */
import { type Signal, signal } from '@preact/signals';

/** `isEntry` rejects entries that an older version, or the user, has stored. Keeps the newest entries. */
export function storedList<Entry>(
  name: string,
  { isEntry, max }: { readonly isEntry: (one: unknown) => one is Entry; readonly max: number },
): { readonly list: Signal<readonly Entry[]>; readonly set: (list: readonly Entry[]) => void } {
  const place = `fillstream.${name}`;
  const list = signal(read());
  addEventListener('storage', (event) => {
    if (event.key === place || event.key === null) list.value = read();
  });

  function read(): readonly Entry[] {
    try {
      const stored: unknown = JSON.parse(localStorage.getItem(place) ?? '[]');
      return Array.isArray(stored) ? stored.filter(isEntry).slice(-max) : [];
    } catch (error) {
      if (error instanceof SyntaxError) return [];
      throw error;
    }
  }

  return {
    list,
    set(next) {
      list.value = next.slice(-max);
      localStorage.setItem(place, JSON.stringify(list.value));
    },
  };
}
