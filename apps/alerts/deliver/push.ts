/**
 * An event as a push message (RFC 8030), encrypted for the browser (RFC 8291) and signed by us (RFC 8292). The push service can
 * read neither title nor text. The browser's service worker, `web/push-worker.js`, shows it as a notification.
 */
import { hash } from 'node:crypto';
import webpush from 'web-push';
import type { Target } from '../destination.ts';
import type { AlertEvent } from '../event.ts';
import { bounded } from './message-text.ts';
import type { Post } from './post.ts';

export type Vapid = {
  /** An `https:` or `mailto:` URL where the push service can reach the operator. */
  readonly subject: string;
  readonly publicKey: string;
  readonly privateKey: string;
};

/** How long the push service keeps a message for a browser that is offline. */
const TTL_SECONDS = 24 * 3_600;

/** A character needs at most 6 bytes in JSON, so a message stays below 3.5 KB. Push services accept 4 KB. */
const TEXT_CHARACTERS_MAX = 400;
const TITLE_CHARACTERS_MAX = 100;
const PLAIN = { escaped: (character: string) => character };

/** The view that a click on the notification opens. */
const PATH = '/manage/alerts';

export function pushPost(
  { endpoint, keys }: Extract<Target, { kind: 'push' }>,
  event: AlertEvent,
  vapid: Vapid,
): Post {
  const { alert, id, refers_to, state, text } = event;
  const message = {
    ...{ title: bounded(alert.name, PLAIN, TITLE_CHARACTERS_MAX) },
    ...{ text: bounded(text, PLAIN, TEXT_CHARACTERS_MAX), state, id, refers_to, path: PATH },
  };
  const { body, headers } = webpush.generateRequestDetails(
    { endpoint, keys },
    JSON.stringify(message),
    {
      ...{ vapidDetails: vapid, TTL: TTL_SECONDS, urgency: 'high' },
      // A message replaces the former one of its topic that still waits for the browser.
      topic: topicOf(refers_to ?? id),
    },
  );
  const named = Object.entries({ ...headers, 'user-agent': 'Fillstream-Alerts/1' });
  return {
    ...{ url: endpoint, method: 'POST', body },
    headers: Object.fromEntries(named.map(([name, value]) => [name, String(value)])),
  };
}

/** A topic has at most 32 characters of base64url, which is less than an id. */
function topicOf(id: string): string {
  return hash('sha256', id, 'base64url').slice(0, 32);
}
