/** Sends an event to a destination once, in the form that its kind wants. */
import { NoAnswerError } from '../../../infra/http-request.ts';
import type { Kv } from '../../../infra/nats/kv.ts';
import type { DestinationRecord } from '../destination.ts';
import type { AlertEvent } from '../event.ts';
import { messageIdOf, messagePost, outcomeOf } from './messengers.ts';
import type { Post, Reply, Sender } from './post.ts';
import { pushPost, type Vapid } from './push.ts';
import { RefusedTargetError } from './targets.ts';
import { webhookPost } from './webhook.ts';

export type Sent = {
  readonly result: 'delivered' | 'gone' | 'failed';
  readonly status: number | null;
  /** The beginning of the response, or why there was none. */
  readonly response: string;
  readonly retryAfterMs: number | undefined;
};

const SHOWN: Sent = {
  ...{ result: 'delivered', status: null, response: 'a later event about it is shown' },
  retryAfterMs: undefined,
};

export type SendOptions = {
  readonly sender: Sender;
  /** Ids of the messages that messengers show, by destination and event. */
  readonly messages: Pick<Kv, 'get' | 'put'>;
  readonly telegramUrl: string;
  readonly vapid: Vapid;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
};

/** Rejects only if NATS is unavailable, or the signal aborts. */
export async function sendEvent(
  options: SendOptions,
  destination: DestinationRecord,
  event: AlertEvent,
  signal: AbortSignal,
): Promise<Sent> {
  const { messages, now, sender, telegramUrl, vapid } = options;
  const { id, target } = destination;
  if (target.kind === 'webhook') {
    const post = webhookPost(target.url, event, validSecrets(destination, now()), new Date(now()));
    return final(await attempted(sender, post, target.kind, signal));
  }
  // What refers to it came first, and is shown.
  const isOver = (await messages.get(`${id}.${event.id}.over`)) !== undefined;
  if (isOver) return SHOWN;
  const earlierId = event.refers_to === null ? undefined : `${id}.${event.refers_to}`;
  if (target.kind === 'push') {
    const sent = await attempted(sender, pushPost(target, event, vapid), target.kind, signal);
    if (sent.result === 'delivered' && earlierId !== undefined) {
      await messages.put(`${earlierId}.over`, event.id);
    }
    return final(sent);
  }
  const shown = earlierId === undefined ? undefined : await messages.get(earlierId);
  const earlier = shown === undefined ? undefined : new TextDecoder().decode(shown.value);
  let message: string | undefined;
  const attempt = async (edited: string | undefined) => {
    const post = messagePost(target, event, edited, telegramUrl);
    return await attempted(sender, post, target.kind, signal, (reply) => {
      message = messageIdOf(target.kind, reply);
    });
  };
  let sent = await attempt(earlier);
  if (sent.result === 'edit_lost') sent = await attempt(undefined);
  if (message !== undefined) await messages.put(`${id}.${event.id}`, message);
  if (sent.result === 'delivered' && earlierId !== undefined && earlier === undefined) {
    await messages.put(`${earlierId}.over`, event.id);
  }
  return final(sent);
}

/** The secrets that sign now: the newest, and its predecessor for a while. */
export function validSecrets({ secrets }: DestinationRecord, nowMs: number): readonly string[] {
  return secrets
    .filter(({ until }) => until === null || Date.parse(until) > nowMs)
    .map(({ secret }) => secret);
}

type Attempted = Omit<Sent, 'result'> & { readonly result: Sent['result'] | 'edit_lost' };

function final({ result, ...rest }: Attempted): Sent {
  return { ...rest, result: result === 'edit_lost' ? 'failed' : result };
}

async function attempted(
  sender: Sender,
  post: Post,
  kind: DestinationRecord['target']['kind'],
  signal: AbortSignal,
  onReply: (reply: Reply) => void = () => undefined,
): Promise<Attempted> {
  try {
    const reply = await sender(post, signal);
    onReply(reply);
    const response = withoutSecrets(reply.text, post.url);
    return { ...outcomeOf(kind, reply), status: reply.status, response };
  } catch (error) {
    signal.throwIfAborted();
    const isKnown = error instanceof NoAnswerError || error instanceof RefusedTargetError;
    if (!isKnown) throw error;
    return { result: 'failed', status: null, response: reasonOf(error), retryAfterMs: undefined };
  }
}

/** The code of the system's error, such as ECONNREFUSED, says why there is no response. */
function reasonOf(error: Error): string {
  const { cause } = error;
  const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
  return `${error.message}${error.message.includes('timeout') ? '' : code}`;
}

/** The reply without the path and query of the request, which can be secrets: some servers repeat them. */
function withoutSecrets(text: string, url: string): string {
  const { pathname, search } = new URL(url);
  return [pathname, search]
    .filter((part) => part.length > 1)
    .reduce((rest, part) => rest.replaceAll(part, '…'), text);
}
