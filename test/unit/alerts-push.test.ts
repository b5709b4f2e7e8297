/** Push messages, decrypted and verified without the package that encrypts and signs them. */
import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import webpush from 'web-push';
import { pushPost } from '../../apps/alerts/deliver/push.ts';
import { NewDestination } from '../../apps/alerts/destination.ts';
import type { AlertEvent } from '../../apps/alerts/event.ts';
import { newSubscription, signedClaims } from '../support/push-service.ts';

const ENDPOINT = 'https://push.example:8443/send/abc?key=1';
const CONTACT = 'mailto:operator@fillstream.example';
const VAPID = { subject: CONTACT, ...webpush.generateVAPIDKeys() };

function eventOf(change: Partial<AlertEvent> = {}): AlertEvent {
  return {
    ...{ id: 'evt_1', type: 'match', state: 'pending', refers_to: null },
    timestamp: '2026-05-01T12:00:00.000Z',
    alert: { id: 'a1', name: 'whales' },
    ...{ text: 'a bought “Yes” 🐋', data: { tx_hash: '0xab' } },
    ...change,
  };
}

function sent(event: AlertEvent, subscription = newSubscription(ENDPOINT)) {
  const post = pushPost(subscription.target, event, VAPID);
  const body = Buffer.from(post.body);
  return { ...post, body, message: JSON.parse(subscription.read(body)) };
}

test('the subscription of a test reads the example of RFC 8291', () => {
  const { read, target } = newSubscription(ENDPOINT, {
    privateKey: Buffer.from('q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94', 'base64url'),
    auth: Buffer.from('BTBZMqHH6r4Tts7J_aSIgg', 'base64url'),
  });
  expect(target.keys.p256dh).toBe(
    'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
  );
  const body =
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN';
  expect(read(Buffer.from(body, 'base64url'))).toBe('When I grow up, I want to be a watermelon');
});

test('a message can be read by its subscription only', () => {
  const { body, message } = sent(eventOf());
  expect(message).toEqual({
    ...{ title: 'whales', text: 'a bought “Yes” 🐋', state: 'pending' },
    ...{ id: 'evt_1', refers_to: null, path: '/manage/alerts' },
  });
  expect(body.includes('whales')).toBe(false);
  expect(() => newSubscription(ENDPOINT).read(body)).toThrow();
});

test('the request is signed for its push service', () => {
  const { body, headers, method, url } = sent(eventOf());
  expect([method, url]).toEqual(['POST', ENDPOINT]);
  expect(headers).toEqual({
    ...{ TTL: '86400', Urgency: 'high', Topic: hash('sha256', 'evt_1', 'base64url').slice(0, 32) },
    ...{ 'Content-Encoding': 'aes128gcm', 'Content-Type': 'application/octet-stream' },
    ...{ 'Content-Length': String(body.length), 'user-agent': 'Fillstream-Alerts/1' },
    Authorization: expect.any(String),
  });
  const claims = signedClaims(headers.Authorization, VAPID.publicKey);
  expect(claims).toMatchObject({ aud: 'https://push.example:8443', sub: CONTACT });
  const hours = ((claims?.exp ?? 0) - Date.now() / 1_000) / 3_600;
  expect(hours).toBeGreaterThan(1);
  expect(hours).toBeLessThan(24);
  const other = webpush.generateVAPIDKeys().publicKey;
  const forged = headers.Authorization?.replace(VAPID.publicKey, other);
  expect(signedClaims(forged, other)).toBe(undefined);
});

test('an event about an earlier one has its topic', () => {
  const retraction = eventOf({ id: 'evt_2', state: 'retracted', refers_to: 'evt_1' });
  const { headers, message } = sent(retraction);
  expect(message).toMatchObject({ state: 'retracted', refers_to: 'evt_1' });
  expect(headers.Topic).toBe(sent(eventOf()).headers.Topic);
  expect(sent(eventOf({ id: 'evt_3' })).headers.Topic).not.toBe(headers.Topic);
});

test('any event fits in a push message', () => {
  const subscription = newSubscription(ENDPOINT);
  const long = fc
    .tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 9 }), fc.nat(999))
    .map(([unit, times]) => unit.repeat(times));
  const any = fc.oneof(
    long,
    fc.constantFrom('\ud800', '"', '\\', '雨', '🐋').map((unit) => unit.repeat(9_999)),
  );
  fc.assert(
    fc.property(any, any, (name, text) => {
      const { body, message } = sent(eventOf({ alert: { id: 'a', name }, text }), subscription);
      expect(body.length).toBeLessThanOrEqual(4_096);
      expect(message.title.length).toBeLessThanOrEqual(100);
      expect(message.text.length).toBeLessThanOrEqual(400);
    }),
  );
});

const KEYS = newSubscription(ENDPOINT).target.keys;

test.each([
  [{}, undefined],
  [{ auth: 'short' }, 'must be 16 bytes as base64url'],
  [{ p256dh: KEYS.auth }, 'must be 65 bytes as base64url'],
  [{ p256dh: `BA${'A'.repeat(85)}` }, 'must be a public key of P-256'],
  [{ p256dh: `C${KEYS.p256dh.slice(1)}` }, 'must be a public key of P-256'],
])('keys of a subscription with %j: %s', (change, message) => {
  const target = { kind: 'push', endpoint: ENDPOINT, keys: { ...KEYS, ...change } };
  const parsed = NewDestination.safeParse({ name: 'my laptop', target });
  expect(parsed.error?.issues[0]?.message).toBe(message);
});
