/** Visitors: which addresses count as one, and how long their event streams may last. */
import { expect, test } from 'vitest';
import { TIERS } from '../../api/auth/tiers.ts';
import type { Caller } from '../../api/http/caller.ts';
import { networkOf } from '../../api/http/network.ts';
import { VISITOR_SESSIONS_MAX, Visitors } from '../../api/sessions/visitors.ts';

test.each([
  ['10.0.0.1', '10.0.0.1'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:0db8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
  ['2001:db8:0:1::', '2001:db8:0:1::/64'],
  ['64:ff9b::10.0.0.1', '64:ff9b:0:0::/64'],
])('%s is counted as %s', (ip, network) => {
  expect(networkOf(ip)).toBe(network);
});

function visitor(address: string): Caller {
  return { keyHash: address, account: '', tier: 'demo' };
}

test('an address has a daily time limit over all of its streams, which is reset the next day', async () => {
  let now = 0;
  const visitors = new Visitors(() => now);
  const quota = (TIERS.demo.streamSecondsPerDayMax ?? 0) * 1_000;
  const sessions = [visitors.open(visitor('a')), visitors.open(visitor('a'))];
  let isOver = false;
  void sessions[0]?.overQuota.then(() => {
    isOver = true;
  });
  now = quota / 2 - 1;
  visitors.count();
  await Promise.resolve();
  expect(isOver).toBe(false);
  now += 1;
  visitors.count();
  await Promise.all(sessions.map(({ overQuota }) => overQuota));
  for (const session of sessions) session.close('quota_used_up', 0);
  expect(() => visitors.open(visitor('a'))).toThrow('stream_seconds_per_day');
  visitors.open(visitor('b')).close('client_left', 0);
  now = 86_400_000;
  visitors.open(visitor('a')).close('client_left', 0);
});

test('all visitors together have a limit on streams', () => {
  const visitors = new Visitors(() => 0);
  const open = (n: number) => visitors.open(visitor(String(n)));
  const sessions = Array.from({ length: VISITOR_SESSIONS_MAX }, (_, n) => open(n));
  expect(() => open(VISITOR_SESSIONS_MAX)).toThrow('visitor_sessions');
  sessions[0]?.close('client_left', 0);
  open(VISITOR_SESSIONS_MAX);
});
