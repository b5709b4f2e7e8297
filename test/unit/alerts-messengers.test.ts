/** Messages of Telegram, Discord and Slack, and the meaning of their replies. */
import { describe, expect, test } from 'vitest';
import { messageIdOf, messagePost, outcomeOf } from '../../apps/alerts/deliver/messengers.ts';
import type { Reply } from '../../apps/alerts/deliver/post.ts';
import type { AlertEvent, EventState } from '../../apps/alerts/event.ts';

const TOKEN = `123456789:${'A'.repeat(35)}`;
const TELEGRAM_URL = 'https://api.telegram.org';
const DISCORD_URL = 'https://discord.com/api/webhooks/1/abc';
const SLACK_URL = 'https://hooks.slack.com/services/T0/B0/abc';

const TARGETS = {
  telegram: { kind: 'telegram', bot_token: TOKEN, chat_id: '-1001234567890' },
  discord: { kind: 'discord', url: DISCORD_URL },
  slack: { kind: 'slack', url: SLACK_URL },
} as const;
type Kind = keyof typeof TARGETS;
const KINDS = ['telegram', 'discord', 'slack'] as const;

const LIMITS = { telegram: 4_096, discord: 2_000, slack: 3_000 };

function eventOf(change: { state?: EventState; name?: string; text?: string } = {}): AlertEvent {
  const { state = 'final', name = 'whales', text = 'a bought Yes' } = change;
  return {
    ...{ id: 'evt_1', type: 'match', state, refers_to: null },
    timestamp: '2026-05-01T12:00:00.000Z',
    ...{ alert: { id: 'a1', name }, text, data: {} },
  };
}

function sent(kind: Kind, event: AlertEvent, earlier?: string) {
  const post = messagePost(TARGETS[kind], event, earlier, TELEGRAM_URL);
  return { ...post, body: JSON.parse(post.body) as Record<string, unknown> };
}

function textOf(kind: Kind, event: AlertEvent): string {
  const { body } = sent(kind, event);
  return String(body[kind === 'discord' ? 'content' : 'text']);
}

function replyOf(status: number, body: unknown, retryAfterMs?: number): Reply {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { status, text: text.slice(0, 1_024), body: text, retryAfterMs };
}

describe('texts', () => {
  test.each<[EventState, Record<Kind, string>]>([
    [
      'final',
      {
        telegram: '<b>whales</b>\na bought Yes',
        discord: '**whales**\na bought Yes',
        slack: '*whales*\na bought Yes',
      },
    ],
    [
      'pending',
      {
        telegram: '<b>whales</b> <i>pending</i>\na bought Yes',
        discord: '**whales** *pending*\na bought Yes',
        slack: '*whales* _pending_\na bought Yes',
      },
    ],
    [
      'confirmed',
      {
        telegram: '<b>whales</b> <i>confirmed</i>\na bought Yes',
        discord: '**whales** *confirmed*\na bought Yes',
        slack: '*whales* _confirmed_\na bought Yes',
      },
    ],
    [
      'restored',
      {
        telegram: '<b>whales</b> <i>restored</i>\na bought Yes',
        discord: '**whales** *restored*\na bought Yes',
        slack: '*whales* _restored_\na bought Yes',
      },
    ],
    [
      'retracted',
      {
        telegram: '<b>whales</b>\n<s>a bought Yes</s>\nThis did not happen.',
        discord: '**whales**\n~~a bought Yes~~\nThis did not happen.',
        slack: '*whales*\n~a bought Yes~\nThis did not happen.',
      },
    ],
  ])('%s', (state, expected) => {
    for (const kind of KINDS) expect(textOf(kind, eventOf({ state }))).toBe(expected[kind]);
  });

  test.each<[Kind, string, string]>([
    ['telegram', '<b>&amp;</b> "x"', '&lt;b&gt;&amp;amp;&lt;/b&gt; "x"'],
    ['telegram', '*_~`|', '*_~`|'],
    ['slack', '<!channel> & <@U1>', '&lt;!channel&gt; &amp; &lt;@U1&gt;'],
    [
      'discord',
      '**b** _i_ ~~s~~ `c` ||p||',
      '\\*\\*b\\*\\* \\_i\\_ \\~\\~s\\~\\~ \\`c\\` \\|\\|p\\|\\|',
    ],
    ['discord', '@everyone <@1>', '\\@everyone \\<\\@1\\>'],
    ['discord', '[a](https://b.example)', '\\[a\\](https\\://b.example)'],
    ['discord', '# a', '\\# a'],
    ['discord', '- a', '\\- a'],
    ['discord', '> a', '\\> a'],
    ['discord', 'a\\*', 'a\\\\\\*'],
    ['discord', '27,714.00 USDC at 85.0¢', '27,714.00 USDC at 85.0¢'],
  ])('%s escapes %j', (kind, text, expected) => {
    expect(textOf(kind, eventOf({ text })).split('\n')[1]).toBe(expected);
    // The name is escaped, too.
    expect(textOf(kind, eventOf({ name: text })).split('\n')[0]).toContain(expected);
  });

  test.each(KINDS)('%s: a name cannot start a new line', (kind) => {
    const text = textOf(kind, eventOf({ name: 'a\n\u2028b\u0000c', text: ' d\r\n\te ' }));
    expect(text.split('\n')).toEqual([expect.stringContaining('a b c'), 'd e']);
  });

  test.each(KINDS)('%s: long texts are cut to its limit, between characters', (kind) => {
    for (const unit of ['x', '&', '*', '🐋', '🐋x', '\\']) {
      for (const state of ['pending', 'retracted'] as const) {
        const long = unit.repeat(5_000);
        const text = textOf(kind, eventOf({ state, name: long, text: long }));
        expect(text.length).toBeLessThanOrEqual(LIMITS[kind]);
        expect(text.length).toBeGreaterThan(LIMITS[kind] - 150);
        expect(text.isWellFormed()).toBe(true);
        expect(text.match(/…/g)).toHaveLength(2);
        // Nothing is left of a cut escape sequence.
        if (kind !== 'discord') expect(text).not.toMatch(/&(?!amp;)/);
        else expect(text.replaceAll(/\\[^\w\s]/g, '')).not.toContain('\\');
      }
    }
  });

  test.each(KINDS)('%s: a text that fits is complete', (kind) => {
    const text = 'x'.repeat(1_400);
    expect(textOf(kind, eventOf({ text })).split('\n')[1]).toBe(text);
  });
});

describe('requests', () => {
  test('a new message of Telegram', () => {
    expect(sent('telegram', eventOf())).toEqual({
      url: `${TELEGRAM_URL}/bot${TOKEN}/sendMessage`,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'Fillstream-Alerts/1' },
      body: {
        chat_id: '-1001234567890',
        text: '<b>whales</b>\na bought Yes',
        parse_mode: 'HTML',
        link_preview_options: { is_disabled: true },
      },
    });
  });

  test('an edit of Telegram', () => {
    expect(sent('telegram', eventOf(), '42')).toMatchObject({
      url: `${TELEGRAM_URL}/bot${TOKEN}/editMessageText`,
      method: 'POST',
      body: { chat_id: '-1001234567890', message_id: 42, parse_mode: 'HTML' },
    });
  });

  test('a new message of Discord', () => {
    expect(sent('discord', eventOf())).toMatchObject({
      url: `${DISCORD_URL}?wait=true`,
      method: 'POST',
      body: { content: '**whales**\na bought Yes', allowed_mentions: { parse: [] }, flags: 4 },
    });
  });

  test('an edit of Discord', () => {
    expect(sent('discord', eventOf(), '99')).toMatchObject({
      url: `${DISCORD_URL}/messages/99`,
      method: 'PATCH',
      body: { content: '**whales**\na bought Yes', allowed_mentions: { parse: [] }, flags: 4 },
    });
  });

  test.each([
    ['?thread_id=7', undefined, '?thread_id=7&wait=true'],
    ['?thread_id=7', '99', '/messages/99?thread_id=7'],
    ['?wait=false&thread_id=7', undefined, '?wait=true&thread_id=7'],
    ['?wait=true', '99', '/messages/99'],
    ['/', undefined, '?wait=true'],
    ['/', '99', '/messages/99'],
  ])('a Discord URL that ends with %s, earlier message %s', (end, earlier, expected) => {
    const target = { kind: 'discord', url: `${DISCORD_URL}${end}` } as const;
    const { url } = messagePost(target, eventOf(), earlier, TELEGRAM_URL);
    expect(url).toBe(`${DISCORD_URL}${expected}`);
  });

  test.each([undefined, '99'])('Slack always gets a new message (earlier: %s)', (earlier) => {
    expect(sent('slack', eventOf(), earlier)).toMatchObject({
      url: SLACK_URL,
      method: 'POST',
      body: { text: '*whales*\na bought Yes', unfurl_links: false, unfurl_media: false },
    });
  });
});

test.each<[Kind | 'webhook', unknown, string | undefined]>([
  ['telegram', { ok: true, result: { message_id: 42, chat: { id: 1 } } }, '42'],
  ['telegram', { ok: true, result: true }, undefined],
  ['telegram', { ok: false, description: 'x' }, undefined],
  ['telegram', 'no JSON', undefined],
  [
    'discord',
    { type: 0, content: 'x'.repeat(2_000), id: '1234567890123456789' },
    '1234567890123456789',
  ],
  ['discord', { id: '../1' }, undefined],
  ['discord', { message: 'Unknown Message', code: 10_008 }, undefined],
  ['discord', '', undefined],
  ['slack', 'ok', undefined],
  ['webhook', { id: '1' }, undefined],
])('the message id in a reply of %s: %j', (kind, body, expected) => {
  expect(messageIdOf(kind, replyOf(200, body))).toBe(expected);
});

const telegramError = (code: number, description: string, parameters?: object) =>
  replyOf(code, { ok: false, error_code: code, description, parameters });

test.each<[Kind | 'webhook' | 'push', Reply, string, number | undefined]>([
  ['webhook', replyOf(200, ''), 'delivered', undefined],
  ['webhook', replyOf(204, ''), 'delivered', undefined],
  ['webhook', replyOf(199, ''), 'failed', undefined],
  ['webhook', replyOf(302, ''), 'failed', undefined],
  ['webhook', replyOf(404, ''), 'failed', undefined],
  ['webhook', replyOf(410, ''), 'gone', undefined],
  ['webhook', replyOf(429, '', 5_000), 'failed', 5_000],
  ['webhook', replyOf(429, { retry_after: 9 }), 'failed', undefined],
  ['webhook', replyOf(500, ''), 'failed', undefined],
  ['telegram', replyOf(200, { ok: true, result: { message_id: 1 } }), 'delivered', undefined],
  ['telegram', replyOf(200, { ok: true, result: true }), 'delivered', undefined],
  ['telegram', replyOf(200, { ok: false, description: 'x' }), 'failed', undefined],
  ['telegram', replyOf(200, 'no JSON'), 'failed', undefined],
  ['telegram', telegramError(400, 'Bad Request: chat not found'), 'failed', undefined],
  ['telegram', telegramError(429, 'Too Many', { retry_after: 7 }), 'failed', 7_000],
  ['telegram', telegramError(429, 'Too Many', { retry_after: 99_999 }), 'failed', 3_600_000],
  [
    'telegram',
    telegramError(400, 'Bad Request: message is not modified: specified new message content'),
    ...(['delivered', undefined] as const),
  ],
  [
    'telegram',
    telegramError(400, 'Bad Request: message to edit not found'),
    'edit_lost',
    undefined,
  ],
  ['telegram', telegramError(400, "Bad Request: message can't be edited"), 'edit_lost', undefined],
  ['telegram', telegramError(400, 'Bad Request: MESSAGE_ID_INVALID'), 'edit_lost', undefined],
  ['discord', replyOf(200, { id: '1' }), 'delivered', undefined],
  ['discord', replyOf(204, ''), 'delivered', undefined],
  ['discord', replyOf(404, { code: 10_008 }), 'edit_lost', undefined],
  ['discord', replyOf(429, { code: 30_046 }), 'edit_lost', undefined],
  ['discord', replyOf(404, { code: 10_015 }), 'gone', undefined],
  ['discord', replyOf(404, 'no JSON'), 'failed', undefined],
  ['discord', replyOf(429, { retry_after: 1.5 }, 60_000), 'failed', 1_500],
  ['discord', replyOf(429, 'no JSON', 60_000), 'failed', 60_000],
  ['slack', replyOf(200, 'ok'), 'delivered', undefined],
  ['slack', replyOf(200, 'invalid_payload'), 'failed', undefined],
  ['slack', replyOf(404, 'no_service'), 'gone', undefined],
  ['slack', replyOf(404, 'channel_not_found'), 'failed', undefined],
  ['slack', replyOf(410, 'channel_is_archived'), 'gone', undefined],
  ['slack', replyOf(429, '', 30_000), 'failed', 30_000],
  ['push', replyOf(201, ''), 'delivered', undefined],
  ['push', replyOf(404, ''), 'gone', undefined],
  ['push', replyOf(410, ''), 'gone', undefined],
  ['push', replyOf(403, ''), 'failed', undefined],
  ['push', replyOf(413, ''), 'failed', undefined],
  ['push', replyOf(429, '', 5_000), 'failed', 5_000],
])('the outcome for %s: %j is %s', (kind, reply, result, retryAfterMs) => {
  expect(outcomeOf(kind, reply)).toEqual({ result, retryAfterMs });
});
