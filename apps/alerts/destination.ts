/**
 * A destination: where events are sent. The request bodies, the stored record, and how it looks in responses, which never contain
 * a secret again.
 */
import { ECDH, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { count, text } from '../../api/analytics/schemas.ts';

const NAME_CHARACTERS_MAX = 64;
const URL_CHARACTERS_MAX = 2_000;
const TIME_EXAMPLE = '2026-05-01T12:00:00.000Z';
const DATE_TIME = { format: 'date-time' };

const Name = z
  .string('must be a string')
  .trim()
  .min(1, 'must not be empty')
  .max(NAME_CHARACTERS_MAX, `must have at most ${NAME_CHARACTERS_MAX} characters`)
  .meta({ description: 'name of the destination', examples: ['my bot'] });

/** The public key of the example in RFC 8291. */
export const PUSH_KEY_EXAMPLE =
  'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4';

/** The sender checks the address behind it, and whether http: is allowed. */
const Url = (description: string, example: string) =>
  z
    .url({ protocol: /^https?$/, error: 'must be an https:// URL' })
    .max(URL_CHARACTERS_MAX, `must have at most ${URL_CHARACTERS_MAX} characters`)
    .meta({ description, examples: [example] });

/** The settings of a destination by its kind. Members marked `secret` are stored and never shown. */
export const Target = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('webhook'),
    url: Url('receives each event as a signed POST', 'https://bot.example/fillstream'),
  }),
  z.strictObject({
    kind: z.literal('telegram'),
    bot_token: z
      .string()
      .regex(/^\d{3,20}:[A-Za-z0-9_-]{20,100}$/, 'must be a token from @BotFather')
      .meta({
        description: 'secret: token of your bot',
        examples: [`123456789:${'A'.repeat(35)}`],
      }),
    chat_id: z
      .string()
      .regex(/^(-?\d{1,20}|@[A-Za-z0-9_]{4,40})$/, 'must be the id of a chat, or @channel')
      .meta({ description: 'chat that the bot writes to', examples: ['-1001234567890'] }),
  }),
  z.strictObject({
    kind: z.literal('discord'),
    url: Url('secret: URL of a webhook of a channel', 'https://discord.com/api/webhooks/1/abc'),
  }),
  z.strictObject({
    kind: z.literal('slack'),
    url: Url('secret: URL of an incoming webhook', 'https://hooks.slack.com/services/T0/B0/abc'),
  }),
  z.strictObject({
    kind: z.literal('push'),
    endpoint: Url(
      'secret: endpoint of a push subscription of a browser',
      'https://push.example/send/abc',
    ),
    keys: z
      .strictObject({
        p256dh: z
          .string()
          .regex(/^[A-Za-z0-9_-]{87}$/, 'must be 65 bytes as base64url')
          .refine(isPublicKey, 'must be a public key of P-256')
          .meta({ description: 'secret: public key', examples: [PUSH_KEY_EXAMPLE] }),
        auth: z
          .string()
          .regex(/^[A-Za-z0-9_-]{22}$/, 'must be 16 bytes as base64url')
          .meta({ description: 'secret: authentication', examples: ['BTBZMqHH6r4Tts7J_aSIgg'] }),
      })
      .meta({ description: 'keys of the subscription, which encrypt the events' }),
  }),
]);
export type Target = z.infer<typeof Target>;

const TARGET_EXAMPLE = { kind: 'webhook', url: 'https://bot.example/fillstream' } as const;

/** Body of `POST /v2/destinations`. */
export const NewDestination = z.strictObject({
  name: Name,
  target: Target.meta({ description: 'where events are sent', examples: [TARGET_EXAMPLE] }),
});
export type NewDestination = z.output<typeof NewDestination>;

/** Body of `PATCH /v2/destinations/{id}`: omitted members keep their values. */
export const DestinationChange = z.strictObject({
  name: Name.optional(),
  target: Target.optional().meta({
    description: 'where events are sent from now on; it keeps its kind',
    examples: [TARGET_EXAMPLE],
  }),
  enabled: z
    .boolean('must be true or false')
    .optional()
    .meta({
      description: 'false pauses deliveries, which wait for up to seven days; true continues',
      examples: [true],
    }),
});

/** Why the service itself disabled a destination. */
const DISABLED_REASONS = ['gone', 'failing'] as const;

/** Value of a bucket entry, as JSON. */
export const DestinationRecord = z.object({
  id: z.string(),
  account: z.string(),
  name: z.string(),
  target: Target,
  /** Signing secrets of a webhook, newest first. The former ones also sign until their time. */
  secrets: z.array(z.object({ secret: z.string(), until: z.iso.datetime().nullable() })),
  enabled: z.boolean(),
  disabledBecause: z.enum(DISABLED_REASONS).nullable(),
  /** When the first of the deliveries failed that have all failed since. */
  failingSince: z.iso.datetime().nullable(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  bodyHash: z.string().optional(),
});
export type DestinationRecord = z.infer<typeof DestinationRecord>;

/** A destination in responses. */
export const Destination = z
  .object({
    id: text('id of the destination', '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a').meta({
      format: 'uuid',
    }),
    name: Name,
    kind: z.enum(['webhook', 'telegram', 'discord', 'slack', 'push']).meta({
      description:
        'webhook: signed POST requests; push: notifications of a browser; the others are messengers',
      examples: ['webhook'],
    }),
    target: text('where events are sent, without secrets', 'https://bot.example/fillstream'),
    enabled: z.boolean().meta({ description: 'false: deliveries wait', examples: [true] }),
    disabled_because: z
      .enum(DISABLED_REASONS)
      .nullable()
      .meta({
        description:
          'gone: it said that it no longer exists, as with 410; failing: nothing could be delivered for three days; null: not disabled by the service',
        examples: [null],
      }),
    failing_since: z
      .string()
      .nullable()
      .meta({
        ...DATE_TIME,
        description: 'since when nothing could be delivered; null: the latest delivery worked',
        examples: [null],
      }),
    waiting: count('deliveries that wait', 0),
    created_at: text('when it was created, UTC with milliseconds', TIME_EXAMPLE).meta(DATE_TIME),
    updated_at: text('when name, target or state last changed', TIME_EXAMPLE).meta(DATE_TIME),
  })
  .meta({ id: 'Destination' });

export function wireDestination(
  record: DestinationRecord,
  waiting: number,
): z.infer<typeof Destination> {
  return {
    ...{ id: record.id, name: record.name, kind: record.target.kind },
    ...{ target: shownTarget(record.target), enabled: record.enabled },
    ...{ disabled_because: record.disabledBecause, failing_since: record.failingSince, waiting },
    ...{ created_at: record.createdAt, updated_at: record.updatedAt },
  };
}

/** The URL that the user chose; undefined if events go to a URL of the operator. */
export function urlOf(target: Target): string | undefined {
  if (target.kind === 'telegram') return undefined;
  return target.kind === 'push' ? target.endpoint : target.url;
}

/**
 * What may be shown of a target: URLs of messengers and push services are secrets, and so may be the query of a
 * webhook.
 */
function shownTarget(target: Target): string {
  if (target.kind === 'telegram') return `chat ${target.chat_id}`;
  if (target.kind === 'push') return new URL(target.endpoint).origin;
  const { origin, pathname, search } = new URL(target.url);
  if (target.kind !== 'webhook') return `${origin}/…`;
  return `${origin}${pathname}${search === '' ? '' : '?…'}`;
}

/** Whether the text is a point of P-256 in base64url. With any other key, nothing can be encrypted. */
function isPublicKey(text: string): boolean {
  try {
    ECDH.convertKey(text, 'prime256v1', 'base64url');
    return true;
  } catch {
    return false;
  }
}

/** A new signing secret. */
export function newSecret(): string {
  return secretOf(randomBytes(32));
}

/** Random bytes in the form of Standard Webhooks. */
export function secretOf(bytes: Buffer): string {
  return `whsec_${bytes.toString('base64')}`;
}
