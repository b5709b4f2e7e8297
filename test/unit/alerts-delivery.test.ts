/** What becomes of a destination after an attempt, when the next one follows, and what a destination never shows. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isGivenUp, pauseAfter, stateAfter } from '../../apps/alerts/deliver/deliver.ts';
import { type Sent, validSecrets } from '../../apps/alerts/deliver/send.ts';
import {
  type DestinationRecord,
  NewDestination,
  newSecret,
  type Target,
  wireDestination,
} from '../../apps/alerts/destination.ts';
import { newSubscription } from '../support/push-service.ts';

const NOW_MS = Date.parse('2026-05-04T12:00:00.000Z');
const NOW = new Date(NOW_MS).toISOString();
const DAYS_3 = 3 * 86_400_000;
const ago = (ms: number) => new Date(NOW_MS - ms).toISOString();

function record(over: Partial<DestinationRecord> = {}): DestinationRecord {
  return {
    ...{ id: '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a', account: 'acme', name: 'my bot' },
    ...{ target: { kind: 'webhook', url: 'https://bot.example/hook' }, secrets: [], enabled: true },
    ...{ disabledBecause: null, failingSince: null, createdAt: NOW, updatedAt: NOW },
    ...over,
  };
}

const sent = (result: Sent['result']): Sent => ({
  ...{ result, status: null, response: '', retryAfterMs: undefined },
});

describe('stateAfter', () => {
  test.each<
    readonly [string, Partial<DestinationRecord>, Sent['result'], Partial<DestinationRecord>]
  >([
    ['a delivery changes nothing', {}, 'delivered', {}],
    ['a delivery ends the failures', { failingSince: ago(1) }, 'delivered', { failingSince: null }],
    [
      'a delivery after more than three days, too',
      { failingSince: ago(DAYS_3 + 1) },
      'delivered',
      { failingSince: null },
    ],
    [
      ...([
        'a delivery does not enable it',
        { enabled: false, disabledBecause: 'failing', failingSince: ago(1) },
      ] as const),
      ...(['delivered', { failingSince: null }] as const),
    ],
    ['the first failure says since when', {}, 'failed', { failingSince: NOW }],
    ['the next failures do not', { failingSince: ago(5) }, 'failed', {}],
    ['exactly three days are not enough', { failingSince: ago(DAYS_3) }, 'failed', {}],
    [
      ...(['more than three days disable it', { failingSince: ago(DAYS_3 + 1) }] as const),
      ...(['failed', { enabled: false, disabledBecause: 'failing' }] as const),
    ],
    [
      'gone disables it at once',
      {},
      'gone',
      { enabled: false, disabledBecause: 'gone', failingSince: NOW },
    ],
    [
      ...([
        'gone after failures keeps their beginning',
        { failingSince: ago(DAYS_3 + 1) },
      ] as const),
      ...(['gone', { enabled: false, disabledBecause: 'gone' }] as const),
    ],
  ])('%s', (_, former, result, changes) => {
    const destination = record(former);
    const after = stateAfter(destination, sent(result), NOW_MS);
    expect(after).toEqual({ ...destination, ...changes });
    if (Object.keys(changes).length === 0) expect(after).toBe(destination);
  });
});

describe('isGivenUp', () => {
  const DAY = 86_400_000;
  test.each([
    ['a refused event that waited for a day', 400, DAY + 1, true],
    ['one that is too large', 413, DAY + 1, true],
    ['one that cannot be processed', 422, DAY + 1, true],
    ['exactly a day is not enough', 400, DAY, false],
    ['a destination that does not know us may be repaired', 401, DAY + 1, false],
    ['one that is not there, too', 404, DAY + 1, false],
    ['one that is busy, too', 429, DAY + 1, false],
    ['one that is broken, too', 500, DAY + 1, false],
    ['one that does not answer, too', null, DAY + 1, false],
  ])('%s', (_, status, age, expected) => {
    expect(isGivenUp(record(), { status }, age)).toBe(expected);
  });

  test('a messenger is not: it says the same about a wrong chat', () => {
    const target: Target = { kind: 'telegram', bot_token: `1234:${'A'.repeat(35)}`, chat_id: '@x' };
    expect(isGivenUp(record({ target }), { status: 400 }, DAY + 1)).toBe(false);
  });
});

describe('pauseAfter', () => {
  const CAP_MS = 900_000;

  test.each([
    [1, 5_000],
    [2, 15_000],
    [3, 45_000],
    [4, 135_000],
    [5, 405_000],
    [6, CAP_MS],
    [7, CAP_MS],
    [100_000, CAP_MS],
  ])('after attempt %i, %i ms, a fifth more or less', (attempt, ms) => {
    const pauses = Array.from({ length: 1_000 }, () =>
      pauseAfter(attempt, { retryAfterMs: undefined }),
    );
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(ms * 0.8);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(ms * 1.2);
    // They differ, so that the events of a destination do not return together.
    expect(new Set(pauses).size).toBeGreaterThan(100);
    expect(pauses.every(Number.isInteger)).toBe(true);
  });

  test('Retry-After counts if it is longer', () => {
    expect(pauseAfter(1, { retryAfterMs: 3_600_000 })).toBe(3_600_000);
    expect(pauseAfter(9, { retryAfterMs: 1_080_001 })).toBe(1_080_001);
    expect(pauseAfter(1, { retryAfterMs: 1 })).toBeGreaterThanOrEqual(4_000);
    expect(pauseAfter(1, { retryAfterMs: 0 })).toBeGreaterThanOrEqual(4_000);
  });

  test('any attempt, first pause and Retry-After keep the bounds', () => {
    const given = fc.tuple(
      fc.integer({ min: 1, max: 10_000 }),
      fc.option(fc.integer({ min: 0, max: 3_600_000 }), { nil: undefined }),
      fc.integer({ min: 1, max: 60_000 }),
    );
    fc.assert(
      fc.property(given, ([attempt, retryAfterMs, firstMs]) => {
        const pauseMs = pauseAfter(attempt, { retryAfterMs }, firstMs);
        const ms = Math.min(CAP_MS, firstMs * 3 ** (attempt - 1));
        expect(pauseMs).toBeGreaterThanOrEqual(Math.max(Math.floor(ms * 0.8), retryAfterMs ?? 0));
        expect(pauseMs).toBeLessThanOrEqual(Math.max(Math.ceil(ms * 1.2), retryAfterMs ?? 0));
      }),
    );
  });
});

test.each([
  ['before the overlap ends', 1, ['new', 'old']],
  ['when it ends', 0, ['new']],
  ['after it', -1, ['new']],
])('validSecrets: %s', (_, leftMs, expected) => {
  const until = new Date(NOW_MS + leftMs).toISOString();
  const secrets = [
    { secret: 'new', until: null },
    { secret: 'old', until },
  ];
  expect(validSecrets(record({ secrets }), NOW_MS)).toEqual(expected);
});

describe('wireDestination', () => {
  const token = fc
    .array(fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-'), {
      ...{ minLength: 30, maxLength: 60 },
    })
    .map((characters) => characters.join(''));
  /** A target, and the parts of it that are secret. */
  const target: fc.Arbitrary<readonly [Target, readonly string[]]> = fc
    .record({
      kind: fc.constantFrom('webhook', 'telegram', 'discord', 'slack', 'push'),
      secrets: fc.tuple(token, token, token, token),
      chat_id: fc.constantFrom('-1001234567890', '42', '@channel'),
      port: fc.constantFrom('', ':8443'),
    })
    .map(({ chat_id, kind, port, secrets: [path, query, user, part] }) => {
      if (kind === 'telegram') {
        return [{ kind, bot_token: `777888999:${path}`, chat_id }, ['777888999', path]];
      }
      if (kind === 'push') {
        const { keys } = newSubscription('').target;
        const endpoint = `https://push.example${port}/send/${path}?key=${query}`;
        return [{ kind, endpoint, keys }, [path, query, keys.p256dh, keys.auth]];
      }
      const login = `${user}:${query}-password@`;
      const rest = `?key=${query}#${part}`;
      return kind === 'webhook'
        ? [{ kind, url: `https://${login}bot.example${port}/hook${rest}` }, [query, user, part]]
        : [
            { kind, url: `https://${login}chat.example${port}/api/${path}${rest}` },
            [path, query, user, part],
          ];
    });

  test('shows no secret of any kind', () => {
    fc.assert(
      fc.property(target, fc.nat(2), fc.nat(100), ([given, hidden], rotations, waiting) => {
        const { name, target: accepted } = NewDestination.parse({ name: 'my bot', target: given });
        const secrets = Array.from({ length: rotations }, (_, n) => ({
          ...{ secret: newSecret(), until: n === 0 ? null : NOW },
        }));
        const stored = record({ name, target: accepted, secrets, bodyHash: 'hash-of-the-body' });
        const shown = JSON.stringify(wireDestination(stored, waiting));
        const all = [
          ...hidden,
          ...secrets.map(({ secret }) => secret),
          'whsec_',
          'hash-of-the-body',
        ];
        for (const secret of all) expect(shown).not.toContain(secret);
        expect(shown).not.toContain('acme');
      }),
    );
  });

  test.each<readonly [Target, string]>([
    [{ kind: 'webhook', url: 'https://bot.example:8443/a/b' }, 'https://bot.example:8443/a/b'],
    [{ kind: 'webhook', url: 'https://u:p@bot.example/a?key=1' }, 'https://bot.example/a?…'],
    [{ kind: 'webhook', url: 'https://bot.example' }, 'https://bot.example/'],
    [{ kind: 'telegram', bot_token: `1234:${'A'.repeat(35)}`, chat_id: '@whales' }, 'chat @whales'],
    [{ kind: 'discord', url: 'https://discord.com/api/webhooks/1/abc' }, 'https://discord.com/…'],
    [
      { kind: 'slack', url: 'https://hooks.slack.com/services/T0/B0/abc' },
      'https://hooks.slack.com/…',
    ],
    [
      newSubscription('https://push.example:8443/send/abc?key=1').target,
      'https://push.example:8443',
    ],
  ])('shows of %j: %s', (given, shown) => {
    const state = { enabled: false, disabledBecause: 'gone', failingSince: NOW } as const;
    expect(wireDestination(record({ target: given, ...state }), 3)).toEqual({
      ...{ id: '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a', name: 'my bot', kind: given.kind },
      ...{ target: shown, enabled: false, disabled_because: 'gone', failing_since: NOW },
      ...{ waiting: 3, created_at: NOW, updated_at: NOW },
    });
  });
});
