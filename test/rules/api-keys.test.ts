/** API keys on a real nats-server: a process's view of the bucket. */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { hashKey, KeyRecord, openKeys, storeKey } from '../../api/auth/keys.ts';
import { issueKey, revokeKey, silent } from '../support/api-harness.ts';
import { forFile } from '../support/for-file.ts';
import { startNats } from '../support/stack.ts';

const nats = forFile(startNats);

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(5);
}

async function stored(key: string) {
  const keyHash = hashKey(key);
  const entry = await nats.bucket.get(keyHash);
  if (entry === undefined) throw new Error('no such key');
  const record = KeyRecord.parse(JSON.parse(new TextDecoder().decode(entry.value)));
  return { keyHash, record };
}

describe('openKeys', () => {
  test('knows every key of the bucket at once, and a new one when it is stored', async () => {
    const before = await issueKey(nats.bucket, 'demo', { account: 'account-demo' });
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    expect(keys.find(hashKey(before))).toEqual({
      kind: 'valid',
      caller: { keyHash: hashKey(before), account: 'account-demo', tier: 'demo' },
    });
    const after = await issueKey(nats.bucket, 'pro');
    await until(() => keys.find(hashKey(after))?.kind === 'valid');
    await keys.close();
  });

  test('reads a key that it does not know yet from the bucket', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    const key = await issueKey(nats.bucket, 'pro');
    expect((await keys.fetch(hashKey(key))).kind).toBe('valid');
    expect((await keys.fetch(hashKey('fs_pro_unknown'))).kind).toBe('unknown');
    await keys.close();
  });

  test('refuses to read more than 64 keys at a time, as unavailable', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    const asked = Array.from({ length: 65 }, (_, n) => keys.fetch(hashKey(`fs_pro_${n}`)));
    const refused = (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected');
    expect(refused).toMatchObject([{ reason: { error: 'unavailable', status: 503 } }]);
    await keys.close();
  });

  test('reports a revocation and a deletion, once', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    for (const end of [
      (key: string) => revokeKey(nats, key),
      (key: string) => nats.bucket.delete(hashKey(key)),
    ]) {
      const key = await issueKey(nats.bucket, 'pro');
      await until(() => keys.find(hashKey(key))?.kind === 'valid');
      let revoked = 0;
      let forgotten = 0;
      keys.onRevoked(hashKey(key), () => revoked++);
      keys.onRevoked(hashKey(key), () => forgotten++)();
      await end(key);
      await until(() => revoked > 0);
      expect(keys.find(hashKey(key))?.kind).not.toBe('valid');
      expect((await keys.fetch(hashKey(key))).kind).not.toBe('valid');
      await end(key).catch(() => undefined);
      expect([revoked, forgotten]).toEqual([1, 0]);
    }
    await keys.close();
  });

  test('reports no revocation when the label of a valid key changes', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    const key = await issueKey(nats.bucket, 'pro', { account: 'account-label' });
    await until(() => keys.find(hashKey(key))?.kind === 'valid');
    let revoked = 0;
    keys.onRevoked(hashKey(key), () => revoked++);
    const { record } = await stored(key);
    await storeKey(nats.bucket, key, { ...record, label: 'renamed' });
    await until(() => keys.ofAccount('account-label')[0]?.record.label === 'renamed');
    expect(revoked).toBe(0);
    await keys.close();
  });

  test('ends a key when it expires, by the injected clock', async () => {
    let nowMs = Date.parse('2026-05-01T00:00:00Z');
    const keys = await openKeys({ bucket: nats.bucket, logger: silent, now: () => nowMs });
    const key = await issueKey(nats.bucket, 'pro', { expires_at: '2026-05-01T00:00:10Z' });
    expect((await keys.fetch(hashKey(key))).kind).toBe('valid');
    let revoked = false;
    keys.onRevoked(hashKey(key), () => {
      revoked = true;
    });
    nowMs += 10_000;
    expect(keys.find(hashKey(key))).toEqual({ kind: 'expired' });
    await until(() => revoked);
    await keys.close();
  });

  test('treats an unreadable record as an unknown key', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    for (const [index, value] of ['no json', '{}', '{"tier":"root"}'].entries()) {
      const keyHash = hashKey(`broken ${index}`);
      await nats.bucket.put(keyHash, value);
      expect((await keys.fetch(keyHash)).kind).toBe('unknown');
    }
    await keys.close();
  });

  test('lists the keys of each account, also after one has moved or is gone', async () => {
    const keys = await openKeys({ bucket: nats.bucket, logger: silent });
    const key = await issueKey(nats.bucket, 'pro', { account: 'before' });
    const { keyHash, record } = await stored(key);
    const accountsWithIt = () =>
      ['before', 'after'].filter((account) => {
        const listed = keys.ofAccount(account).map((one) => one.keyHash);
        expect(listed).toEqual(keys.own(account, keyHash) === undefined ? [] : [keyHash]);
        return listed.length > 0;
      });
    await until(() => keys.find(keyHash) !== undefined);
    expect(accountsWithIt()).toEqual(['before']);
    await storeKey(nats.bucket, key, { ...record, account: 'after' });
    await until(() => accountsWithIt().join() === 'after');
    await nats.bucket.delete(keyHash);
    await until(() => accountsWithIt().length === 0);
    await keys.close();
  });

  test('stores no key, only its hash', async () => {
    const key = await issueKey(nats.bucket, 'pro');
    const entry = await nats.bucket.get(hashKey(key));
    expect(new TextDecoder().decode(entry?.value)).not.toContain(key.slice(8));
  });
});
