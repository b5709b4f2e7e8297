/** The signed request of a webhook, by Standard Webhooks: https://www.standardwebhooks.com */
import { Webhook } from 'standardwebhooks';
import type { AlertEvent } from '../event.ts';
import type { TextPost } from './post.ts';

const USER_AGENT = 'Fillstream-Webhooks/1';

/** Signs with each secret, newest first, so a receiver can change to the new secret at any time. */
export function webhookPost(
  url: string,
  event: AlertEvent,
  secrets: readonly string[],
  now: Date,
): TextPost {
  if (secrets.length === 0) throw new Error('a webhook needs a signing secret');
  const body = JSON.stringify(event);
  const signatures = secrets.map((secret) => new Webhook(secret).sign(event.id, now, body));
  const headers = {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'webhook-id': event.id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
    'webhook-signature': signatures.join(' '),
  };
  return { url, method: 'POST', headers, body };
}
