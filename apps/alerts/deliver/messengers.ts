/**
 * Events as messages of Telegram, Discord and Slack. An event that confirms, retracts or restores an earlier one edits the earlier
 * message. Slack cannot edit the messages of incoming webhooks, so it gets a new message.
 */
import { z } from 'zod';
import type { Target } from '../destination.ts';
import type { AlertEvent } from '../event.ts';
import { MARKUPS, messageText } from './message-text.ts';
import { boundedWaitMs, type Reply, type TextPost } from './post.ts';

type Kind = Target['kind'];
type Messenger = Exclude<Target, { kind: 'webhook' | 'push' }>;

const HEADERS = { 'content-type': 'application/json', 'user-agent': 'Fillstream-Alerts/1' };

/** Discord: shows no previews of links. */
const SUPPRESS_EMBEDS = 4;

/**
 * `earlier` is the id of the message that shows the event that this one refers to. Pass undefined to send a new message.
 * `telegramUrl` is the origin of the Bot API.
 */
export function messagePost(
  target: Messenger,
  event: AlertEvent,
  earlier: string | undefined,
  telegramUrl: string,
): TextPost {
  const text = messageText(event, MARKUPS[target.kind]);
  switch (target.kind) {
    case 'telegram': {
      const method = earlier === undefined ? 'sendMessage' : 'editMessageText';
      return post(`${telegramUrl}/bot${target.bot_token}/${method}`, {
        chat_id: target.chat_id,
        ...(earlier === undefined ? {} : { message_id: Number(earlier) }),
        text,
        parse_mode: 'HTML',
        link_preview_options: { is_disabled: true },
      });
    }
    case 'discord': {
      const content = { content: text, allowed_mentions: { parse: [] }, flags: SUPPRESS_EMBEDS };
      return earlier === undefined
        ? post(discordUrl(target.url), content)
        : { ...post(discordUrl(target.url, earlier), content), method: 'PATCH' };
    }
    case 'slack':
      return post(target.url, { text, unfurl_links: false, unfurl_media: false });
  }
}

function post(url: string, body: object): TextPost {
  return { url, method: 'POST', headers: HEADERS, body: JSON.stringify(body) };
}

/** Keeps the other parameters: `thread_id` selects a thread of the channel. */
function discordUrl(webhookUrl: string, messageId?: string): string {
  const url = new URL(webhookUrl);
  url.pathname = url.pathname.replace(/\/+$/, '');
  // Without `wait`, Discord does not return the message, so there is no id.
  if (messageId === undefined) url.searchParams.set('wait', 'true');
  else {
    url.pathname += `/messages/${messageId}`;
    url.searchParams.delete('wait');
  }
  return url.href;
}

const TelegramReply = z.object({
  ok: z.boolean(),
  description: z.string().optional().catch(undefined),
  result: z.object({ message_id: z.int() }).optional().catch(undefined),
  parameters: z.object({ retry_after: z.number() }).optional().catch(undefined),
});

const DiscordReply = z.object({
  id: z.string().regex(/^\d+$/).optional().catch(undefined),
  code: z.int().optional().catch(undefined),
  retry_after: z.number().optional().catch(undefined),
});

/** Undefined for kinds without editable messages, and for replies that name no message, for example to an unchanged edit. */
export function messageIdOf(kind: Kind, reply: Reply): string | undefined {
  if (kind === 'telegram') return parsed(TelegramReply, reply)?.result?.message_id.toString();
  if (kind === 'discord') return parsed(DiscordReply, reply)?.id;
  return undefined;
}

export type Outcome = {
  /**
   * edit_lost: the earlier message cannot be edited (anymore), so the event should be sent as a new message.
   * gone: the target says that it no longer exists.
   * failed: everything else.
   */
  readonly result: 'delivered' | 'edit_lost' | 'gone' | 'failed';
  /** How long the target asks us to wait, at most one hour. */
  readonly retryAfterMs: number | undefined;
};

/** What a reply means. Messengers report some errors in the body only. */
export function outcomeOf(kind: Kind, reply: Reply): Outcome {
  switch (kind) {
    case 'webhook':
      return outcome(reply, isSuccess(reply) ? 'delivered' : byStatus(reply));
    case 'telegram':
      return telegramOutcome(reply);
    case 'discord':
      return discordOutcome(reply);
    case 'slack':
      return outcome(reply, slackResult(reply));
    case 'push': {
      // RFC 8030: 404 and 410 both say that the subscription ended.
      const result = reply.status === 404 ? 'gone' : byStatus(reply);
      return outcome(reply, isSuccess(reply) ? 'delivered' : result);
    }
  }
}

const TELEGRAM_UNCHANGED = /message is not modified/i;
const TELEGRAM_EDIT_LOST = /message to edit not found|message can't be edited|message_id_invalid/i;

function telegramOutcome(reply: Reply): Outcome {
  const { ok, description = '', parameters } = parsed(TelegramReply, reply) ?? { ok: false };
  if (ok || TELEGRAM_UNCHANGED.test(description)) return outcome(reply, 'delivered');
  if (TELEGRAM_EDIT_LOST.test(description)) return outcome(reply, 'edit_lost');
  return outcome(reply, byStatus(reply), parameters?.retry_after);
}

const DISCORD_UNKNOWN_MESSAGE = 10_008;
const DISCORD_UNKNOWN_WEBHOOK = 10_015;
/** Messages older than one hour can only be edited a limited number of times. */
const DISCORD_TOO_MANY_EDITS = 30_046;

function discordOutcome(reply: Reply): Outcome {
  if (isSuccess(reply)) return outcome(reply, 'delivered');
  const { code, retry_after } = parsed(DiscordReply, reply) ?? {};
  if (code === DISCORD_UNKNOWN_MESSAGE || code === DISCORD_TOO_MANY_EDITS) {
    return outcome(reply, 'edit_lost');
  }
  const result = code === DISCORD_UNKNOWN_WEBHOOK ? 'gone' : byStatus(reply);
  return outcome(reply, result, retry_after);
}

function slackResult(reply: Reply): Outcome['result'] {
  const text = reply.text.trim();
  if (isSuccess(reply)) return text === 'ok' ? 'delivered' : 'failed';
  return reply.status === 404 && text === 'no_service' ? 'gone' : byStatus(reply);
}

function isSuccess({ status }: Reply): boolean {
  return status >= 200 && status < 300;
}

function byStatus({ status }: Reply): 'gone' | 'failed' {
  return status === 410 ? 'gone' : 'failed';
}

function outcome(reply: Reply, result: Outcome['result'], retryAfterSeconds?: number): Outcome {
  const fromBody =
    retryAfterSeconds === undefined ? undefined : boundedWaitMs(retryAfterSeconds * 1_000);
  return { result, retryAfterMs: fromBody ?? reply.retryAfterMs };
}

function parsed<T>(schema: z.ZodType<T>, { body }: Reply): T | undefined {
  try {
    return schema.parse(JSON.parse(body));
  } catch {
    return undefined;
  }
}
