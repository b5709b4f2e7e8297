/**
 * Push notifications of this browser. It has one subscription, which becomes the target of a destination; `push-worker.js`
 * shows what arrives.
 */
import { fillstream } from './client.ts';
import { storedList } from './stored.ts';

const WORKER = '/push-worker.js';
/** More than the accounts that share a browser. */
const DESTINATIONS_MAX = 50;

/** Ids of the destinations that this browser is, of all accounts. */
const { list: own, set } = storedList('push', {
  isEntry: (one) => typeof one === 'string',
  max: DESTINATIONS_MAX,
});

/** Why this browser cannot subscribe; undefined if it can. */
export function pushObstacle(): string | undefined {
  if (!('serviceWorker' in navigator && 'PushManager' in globalThis)) {
    return 'This browser has no push notifications here. Many browsers only have them on https: pages, and none in private windows.';
  }
  if (Notification.permission === 'denied') {
    return 'Notifications of this page are blocked. Allow them in the settings of the browser.';
  }
  return undefined;
}

/** Asks the user first. Throws DOMException if the user or the browser refuses. */
export async function subscribe() {
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new DOMException('you did not allow notifications', 'NotAllowedError');
  }
  const { public_key } = await fillstream.value.pushKey();
  await navigator.serviceWorker.register(WORKER);
  const { pushManager } = await navigator.serviceWorker.ready;
  const former = await pushManager.getSubscription();
  // A service that started with an empty data directory has another key.
  if (former !== null && keyOf(former) !== public_key) await former.unsubscribe();
  const subscription = await pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: public_key,
  });
  const { endpoint, keys } = subscription.toJSON();
  return { endpoint, keys };
}

/** The destination was created from the subscription. */
export function keepDestination(id: string): void {
  set([...own.value, id]);
}

/** The destination was deleted. Unsubscribes if it was the last one of this browser. */
export async function forgetDestination(id: string): Promise<void> {
  if (!own.value.includes(id)) return;
  set(own.value.filter((one) => one !== id));
  if (own.value.length > 0) return;
  const registration = await navigator.serviceWorker.getRegistration();
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
}

/** The service's key in the form of `/v2/alerts/push_key`. */
function keyOf({ options }: PushSubscription): string {
  const bytes = new Uint8Array(options.applicationServerKey ?? new ArrayBuffer(0));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
