/**
 * The browser's storage. It may be blocked, full or gone, so everything works without it until the page is closed; and a
 * list in it, shared by all tabs of the page, and messages between these tabs.
 */
import { type Signal, signal } from '@preact/signals';

type Area = 'localStorage' | 'sessionStorage';

/** Null if there is none, or storage is blocked. */
export function readStored(name: string, area: Area = 'localStorage'): string | null {
  return guarded(() => globalThis[area].getItem(name));
}

/** Null removes it. Does nothing if storage is blocked or full. */
export function writeStored(name: string, text: string | null, area: Area = 'localStorage'): void {
  guarded(() => {
    if (text === null) globalThis[area].removeItem(name);
    else globalThis[area].setItem(name, text);
  });
}

/** Messages between the tabs of the page. If site data is blocked, there are none. */
export function tabChannel(
  name: string,
): Pick<BroadcastChannel, 'addEventListener' | 'postMessage'> {
  const none = { addEventListener: () => undefined, postMessage: () => undefined };
  return guarded(() => new BroadcastChannel(name)) ?? none;
}

function guarded<Result>(use: () => Result): Result | null {
  try {
    return use();
  } catch (error) {
    // SecurityError, also when the area itself is read or a channel is made, or QuotaExceededError.
    if (error instanceof DOMException) return null;
    throw error;
  }
}

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
      const stored: unknown = JSON.parse(readStored(place) ?? '[]');
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
      writeStored(place, JSON.stringify(list.value));
    },
  };
}
