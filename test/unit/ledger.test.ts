import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Block,
  type BlockRange,
  decodeRange,
  type EncodedRange,
  emptyBlock,
  encodeRange,
  eventsOf,
  UnreadableLedgerError,
  VERSION_HEADER,
} from '../../ingest/ledger/ledger.ts';
import { blocksOf, ledgerEvents, rangeOf } from '../support/ledger-generator.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures');
const hash = (byte: string) => `0x${byte.repeat(32)}` as const;

const blocks: readonly Block[] = [
  ...blocksOf(
    ledgerEvents({
      seed: 3,
      traders: 40,
      markets: 10,
      from: 1_780_000_000,
      to: 1_780_000_100,
      matches: 100,
      matchesPerMarket: 8,
    }),
  ),
].map((block, i) =>
  i > 0
    ? block
    : {
        ...block,
        refused: [
          {
            kind: 'refused' as const,
            reason: 'unknown_token',
            blockNumber: block.number,
            txHash: hash('ab'),
            logIndex: 500,
            detail: '[{"topics":[]}]',
          },
        ],
      },
);

const message = rangeOf(blocks, 1);
const earlier: BlockRange = {
  kind: 'earlier-resolutions',
  from: 0,
  to: 900,
  blocks: blocks
    .map((block) => ({ ...block, events: eventsOf('resolutions', [block]), refused: [] }))
    .filter(({ events }) => events.length > 0),
};

function stored({ data, headers }: Pick<EncodedRange, 'data' | 'headers'>, sequence = 7) {
  return { sequence, data, header: (name: string) => headers[name] ?? '' };
}

function raw(value: unknown) {
  const data = zstdCompressSync(typeof value === 'string' ? value : JSON.stringify(value));
  return stored({ data, headers: { [VERSION_HEADER]: '1' } });
}

describe('a LEDGER message', () => {
  test('decodes to what was encoded', () => {
    for (const one of [message, earlier])
      expect(decodeRange(stored(encodeRange(one)))).toEqual(one);
  });

  test('has a subject that says whether it holds matches and resolutions', () => {
    const subjectOf = (one: Partial<Block>) =>
      encodeRange({
        ...message,
        from: 1,
        to: 1,
        blocks: [{ ...emptyBlock({ number: 1, hash: hash('1'), time: 1 }), ...one }],
      }).subject;
    const matches = eventsOf('matches', blocks);
    const resolutions = eventsOf('resolutions', blocks);
    expect(subjectOf({})).toBe('ledger.block.0.0');
    expect(subjectOf({ events: matches })).toBe('ledger.block.1.0');
    expect(subjectOf({ events: resolutions })).toBe('ledger.block.0.1');
    expect(subjectOf({ events: [...matches, ...resolutions] })).toBe('ledger.block.1.1');
    expect(encodeRange(earlier).subject).toBe('ledger.block.0.1');
  });

  test.each(['ledger-1', 'ledger-1-earlier'])(
    'of format version 1 remains readable: %s',
    (name) => {
      const data = readFileSync(join(FIXTURES, `${name}.zst`));
      const expected: unknown = JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8'));
      expect(JSON.parse(zstdDecompressSync(data).toString())).toEqual(expected);
      const decoded = decodeRange(stored({ data, headers: { [VERSION_HEADER]: '1' } }));
      const again = JSON.parse(zstdDecompressSync(encodeRange(decoded).data).toString());
      expect(again).toEqual(expected);
    },
  );

  test('yields the events of a block in log order', () => {
    const shuffled = blocks.map((block) => ({ ...block, events: block.events.toReversed() }));
    const decoded = decodeRange(stored(encodeRange({ ...message, blocks: shuffled })));
    expect(decoded).toEqual(message);
  });
});

describe('an unreadable LEDGER message is an error that names its sequence', () => {
  const json = JSON.parse(zstdDecompressSync(encodeRange(message).data).toString());

  test('without a version, like those of version 0.1', () => {
    const data = Buffer.from('{"kind":"block"}');
    expect(() => decodeRange(stored({ data, headers: {} }))).toThrow(/message 7 .* version 0\.1/);
  });

  test('of an unknown version', () => {
    const { data } = encodeRange(message);
    expect(() => decodeRange(stored({ data, headers: { [VERSION_HEADER]: '2' } }))).toThrow(
      'LEDGER message 7 cannot be read: format version 2 is unknown',
    );
    expect(() => decodeRange(raw({ ...json, version: 2 }))).toThrow(UnreadableLedgerError);
  });

  test.each([
    ['no zstd', stored({ data: Buffer.from('{}'), headers: { [VERSION_HEADER]: '1' } })],
    ['invalid JSON', raw('{')],
    ['another shape', raw({ version: 1, from: 1, to: 1, blocks: [] })],
    ['more than its bound when decompressed', raw(' '.repeat(64 * 1_048_576 + 1))],
    ['without its last block', raw({ ...json, to: json.to + 1 })],
    ['a block beyond its range', raw({ ...json, to: json.to - 1 })],
    ['blocks out of order', raw({ ...json, blocks: json.blocks.toReversed() })],
    ['a block before its range', raw({ ...json, from: 2 })],
  ])('%s', (_what, one) => {
    expect(() => decodeRange(one)).toThrow(UnreadableLedgerError);
    expect(() => decodeRange(one)).toThrow('LEDGER message 7 cannot be read');
  });

  test('with any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
        expect(() => decodeRange(stored({ data, headers: { [VERSION_HEADER]: '1' } }))).toThrow(
          UnreadableLedgerError,
        );
      }),
    );
  });
});
