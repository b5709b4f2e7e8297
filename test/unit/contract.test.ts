import { describe, expect, test } from 'vitest';
import { feedMessageId, PARTITIONS, partitionOf, winningOutcome } from '../../ingest/contract.ts';

describe('partitionOf', () => {
  test('is FNV-1a 32 of the text, like the hash of nats-server', () => {
    // Published test values of FNV-1a 32: "" 0x811c9dc5, "a" 0xe40c292c, "foobar" 0xbf9cf968.
    expect(partitionOf('')).toBe(0x811c9dc5 % PARTITIONS);
    expect(partitionOf('a')).toBe(0xe40c292c % PARTITIONS);
    expect(partitionOf('foobar')).toBe(0xbf9cf968 % PARTITIONS);
  });
});

test('a second match of the same order in one transaction has its own id', () => {
  expect(feedMessageId('0xa', '0xb', 0)).toBe('0xa:0xb');
  expect(feedMessageId('0xa', '0xb', 1)).toBe('0xa:0xb:2');
});

test('the winning outcome is the label of the higher payout, or 50-50', () => {
  expect(winningOutcome(['Yes', 'No'], [1n, 0n])).toBe('Yes');
  expect(winningOutcome(['Yes', 'No'], [0n, 1n])).toBe('No');
  expect(winningOutcome(['Yes', 'No'], [1n, 1n])).toBe('50-50');
});
