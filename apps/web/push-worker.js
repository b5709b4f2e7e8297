/**
 * The page's service worker: shows the events that arrive as push messages, also while the page is closed. It intercepts no
 * requests. The browser loads it as it is here.
 */

/** What an event's state adds to its text; a final event is only its text. */
const PREFIXES = {
  pending: 'Pending: ',
  confirmed: 'Confirmed: ',
  retracted: 'Did not happen: ',
  restored: 'Did happen after all: ',
};

/** Events about the same thing share a tag, so the notification of the next one replaces that of the first. */
const tagOf = ({ id, refers_to }) => refers_to ?? id;

async function show(message) {
  const shown = await registration.getNotifications({ tag: tagOf(message) });
  // A first event that arrives late must not replace a later one. Browsers require a notification for each message.
  const later = shown.find(({ data }) => message.refers_to === null && data.refers_to !== null);
  const { state, text, title } = later?.data ?? message;
  await registration.showNotification(title, {
    body: (PREFIXES[state] ?? '') + text,
    tag: tagOf(message),
    // Replaces silently, unless the news is a different one.
    renotify: later === undefined && (state === 'retracted' || state === 'restored'),
    data: later?.data ?? message,
  });
}

async function open(path) {
  const windows = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  const same = windows.find(({ url }) => new URL(url).pathname === path);
  await (same === undefined ? clients.openWindow(path) : same.focus());
}

addEventListener('push', (event) => {
  event.waitUntil(show(event.data.json()));
});

addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.path));
});

// The next version does not wait until all tabs are closed.
addEventListener('install', () => skipWaiting());
