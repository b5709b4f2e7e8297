import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Match } from '../../ingest/contract.ts';
import { MalformedMatchError, parseMatch } from '../../ingest/match-parser.ts';

const MATCH = {
  kind: 'match',
  blockNumber: 5,
  blockTime: 1_780_000_000,
  txHash: `0x${'ab'.repeat(32)}`,
  logIndex: 7,
  exchange: `0x${'cd'.repeat(20)}`,
  conditionId: `0x${'ef'.repeat(32)}`,
  fills: [
    {
      logIndex: 4,
      orderHash: `0x${'12'.repeat(32)}`,
      trader: `0x${'34'.repeat(20)}`,
      isTaker: true,
      side: 'BUY',
      outcomeIndex: 1,
      tokenId: '109227506680360648489289446073120258876740043798768581355089335234603158068703',
      shares: '1000000',
      usdc: '430000',
      fee: '0',
    },
  ],
};

function parsed(value: unknown): unknown {
  try {
    return parseMatch(value);
  } catch (error) {
    if (!(error instanceof MalformedMatchError)) throw error;
    return undefined;
  }
}

const odd = fc.oneof(
  fc.constantFrom(undefined, null, true, '', '0', '-1', '1e3', '0x', 'BUY', 'SELL', [], {}),
  fc.constantFrom(0, 1, 2, -1, 0.5, 2 ** 53, Number.NaN, '9'.repeat(16), '9'.repeat(17)),
  fc.string(),
  fc
    .string({ minLength: 64, maxLength: 64, unit: fc.constantFrom(...'0123456789abcdefA') })
    .map((hex) => `0x${hex}`),
);

describe('parseMatch', () => {
  test('gives what the schema gives', () => {
    expect(parseMatch(MATCH)).toEqual(Match.parse(MATCH));
  });

  test('accepts and refuses exactly what the schema does, whatever a field holds', () => {
    const names = Object.keys(MATCH);
    const fillNames = Object.keys(MATCH.fills[0] ?? {});
    const changed = fc.oneof(
      fc
        .tuple(fc.constantFrom(...names), odd)
        .map(([name, value]) => ({ ...MATCH, [name]: value })),
      fc
        .tuple(fc.constantFrom(...fillNames), odd)
        .map(([name, value]) => ({ ...MATCH, fills: [{ ...MATCH.fills[0], [name]: value }] })),
    );
    fc.assert(
      fc.property(changed, (value) => {
        const expected = Match.safeParse(value);
        expect(parsed(value)).toEqual(expected.success ? expected.data : undefined);
      }),
      { numRuns: 2_000 },
    );
  });
});
