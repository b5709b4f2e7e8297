/** Signatures of webhooks, verified without the package that signs. */
import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import type { TextPost } from '../../apps/alerts/deliver/post.ts';
import { webhookPost } from '../../apps/alerts/deliver/webhook.ts';
import { newSecret } from '../../apps/alerts/destination.ts';
import type { AlertEvent } from '../../apps/alerts/event.ts';

const EVENT: AlertEvent = {
  id: 'evt_5f0c6a2be9d34c1187a0f5b2c4d6e8fa',
  type: 'match',
  state: 'pending',
  refers_to: null,
  timestamp: '2026-05-01T12:00:00.000Z',
  alert: { id: '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a', name: 'whales “à la carte” 🐋' },
  text: 'deepwater-20 bought Yes of "Bitcoin above 100k?": 27,714.00 USDC at 85.0¢',
  data: { tx_hash: `0x${'ab'.repeat(32)}` },
};
const URL_TEXT = 'https://bot.example/fillstream';
const NOW = new Date('2026-05-01T12:00:01.999Z');

/** HMAC-SHA256 of `id.timestamp.body` with the decoded secret, as the text of Standard Webhooks says. */
function verifies({ headers, body }: TextPost, secret: string): boolean {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return (headers['webhook-signature'] ?? '').split(' ').includes(expected);
}

function withHeader(post: TextPost, name: string, value: string): TextPost {
  return { ...post, headers: { ...post.headers, [name]: value } };
}

test('the request', () => {
  const post = webhookPost(URL_TEXT, EVENT, [newSecret()], NOW);
  expect(post).toEqual({
    url: URL_TEXT,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Fillstream-Webhooks/1',
      'webhook-id': EVENT.id,
      'webhook-timestamp': '1777636801',
      'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
    },
    body: JSON.stringify(EVENT),
  });
});

test('the signature verifies with its secret only', () => {
  const secret = newSecret();
  const post = webhookPost(URL_TEXT, EVENT, [secret], NOW);
  expect(verifies(post, secret)).toBe(true);
  expect(verifies(post, newSecret())).toBe(false);
});

test.each([
  ['body', (post: TextPost) => ({ ...post, body: post.body.replace('27,714', '27,715') })],
  ['id', (post: TextPost) => withHeader(post, 'webhook-id', `${EVENT.id}0`)],
  ['time', (post: TextPost) => withHeader(post, 'webhook-timestamp', '1777636802')],
])('another %s does not verify', (_, change) => {
  const secret = newSecret();
  const post = webhookPost(URL_TEXT, EVENT, [secret], NOW);
  const changed = change(post);
  expect(changed).not.toEqual(post);
  expect(verifies(changed, secret)).toBe(false);
});

test('during a rotation both secrets verify, the newest first', () => {
  const secrets = [newSecret(), newSecret()];
  const [newest = '', older = ''] = secrets;
  const post = webhookPost(URL_TEXT, EVENT, secrets, NOW);
  expect(verifies(post, newest)).toBe(true);
  expect(verifies(post, older)).toBe(true);
  const [first = '', second = '', ...others] = post.headers['webhook-signature']?.split(' ') ?? [];
  expect(others).toEqual([]);
  expect(verifies(withHeader(post, 'webhook-signature', first), newest)).toBe(true);
  expect(verifies(withHeader(post, 'webhook-signature', first), older)).toBe(false);
  expect(verifies(withHeader(post, 'webhook-signature', second), older)).toBe(true);
});

test('there is no unsigned webhook', () => {
  expect(() => webhookPost(URL_TEXT, EVENT, [], NOW)).toThrow(/signing secret/);
});

const VERIFY_IN_PYTHON = `
import base64, hashlib, hmac, json, sys
given = json.load(sys.stdin)
headers, body = given["headers"], given["body"]
key = base64.b64decode(given["secret"].removeprefix("whsec_"))
signed = f'{headers["webhook-id"]}.{headers["webhook-timestamp"]}.{body}'.encode()
expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
print(any(hmac.compare_digest(expected, one) for one in headers["webhook-signature"].split(" ")))
`;

test('Python verifies it', () => {
  const secret = newSecret();
  const post = webhookPost(URL_TEXT, EVENT, [newSecret(), secret], NOW);
  const verify = (given: string) =>
    execFileSync('python3', ['-c', VERIFY_IN_PYTHON], {
      input: JSON.stringify({ ...post, secret: given }),
      encoding: 'utf8',
    }).trim();
  expect(verify(secret)).toBe('True');
  expect(verify(newSecret())).toBe('False');
});
