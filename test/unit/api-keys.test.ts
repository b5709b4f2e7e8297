import { describe, expect, test } from 'vitest';
import { generateKey, hashKey, hasKeyForm, KeyRecord, keyStatus } from '../../api/auth/keys.ts';
import { Tier } from '../../api/http/caller.ts';

describe('generateKey', () => {
  test.each(Tier.options)('generates different keys of the tier %s in base58', (tier) => {
    const keys = Array.from({ length: 200 }, () => generateKey(tier));
    for (const key of keys) {
      expect(key).toMatch(new RegExp(`^fs_${tier}_[1-9A-HJ-NP-Za-km-z]{40,44}$`));
      expect(hasKeyForm(key)).toBe(true);
    }
    expect(new Set(keys).size).toBe(keys.length);
  });
});

describe('hasKeyForm', () => {
  test.each(['', 'fs_pro_', 'fs_root_abc', `fs_pro_${'0'.repeat(43)}`, `x${generateKey('pro')}`])(
    'refuses %j',
    (text) => expect(hasKeyForm(text)).toBe(false),
  );
});

describe('hashKey', () => {
  test('is the hexadecimal SHA-256 of the text', () => {
    expect(hashKey('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});

describe('KeyRecord', () => {
  test('rejects a record without an account or with a malformed time', () => {
    const good = { label: '', tier: 'pro', account: 'a', created_at: '2026-05-01T00:00:00Z' };
    expect(KeyRecord.safeParse(good).success).toBe(true);
    expect(KeyRecord.safeParse({ ...good, account: '' }).success).toBe(false);
    expect(KeyRecord.safeParse({ ...good, tier: 'root' }).success).toBe(false);
    expect(KeyRecord.safeParse({ ...good, expires_at: 'soon' }).success).toBe(false);
  });
});

describe('keyStatus', () => {
  test('is revoked at once, also where the clock is behind that of the revoker', () => {
    const created_at = '2026-05-01T00:00:00Z';
    const record: KeyRecord = { label: '', tier: 'pro', account: 'a', created_at };
    const now = Date.parse('2026-05-02T00:00:00Z');
    expect(keyStatus(record, now)).toBe('valid');
    expect(keyStatus({ ...record, revoked_at: '2026-05-02T00:00:01Z' }, now)).toBe('revoked');
  });
});
