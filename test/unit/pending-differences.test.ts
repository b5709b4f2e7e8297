import { describe, expect, test } from 'vitest';
import { differences } from '../../ingest/pending/pending.ts';
import { fill, match } from './feed-matches.ts';

const shown = match(1, { taker: fill(1), makers: [fill(2), fill(3)] });

function final(over: Readonly<Record<string, unknown>> = {}) {
  return [shown.makers[0], shown.makers[1], shown.taker].flatMap((one) =>
    one === undefined ? [] : { ...one, trader: one.trader.address, tokenId: one.tokenId, ...over },
  );
}

describe('differences', () => {
  test('are empty for a match and its own fills, makers first', () => {
    expect(differences(shown, final())).toEqual([]);
  });

  test('name the field, the fill, and both values', () => {
    const [maker, other, taker] = final();
    if (maker === undefined || other === undefined || taker === undefined) throw new Error();
    const found = differences(shown, [maker, { ...other, usdc: 1n }, { ...taker, fee: 7n }]);
    expect(found).toEqual([
      { field: 'fee', of: 'taker', shown: '0', final: '7' },
      { field: 'usdc', of: 1, shown: '4500000', final: '1' },
    ]);
  });

  test.each([
    ['order_hash', { orderHash: '0x1' }],
    ['trader', { trader: '0x1' }],
    ['side', { side: 'SELL' }],
    ['token_id', { tokenId: '1' }],
    ['shares', { shares: 1n }],
  ])('are found in %s', (field, over) => {
    expect(new Set(differences(shown, final(over)).map((one) => one.field))).toEqual(
      new Set([field]),
    );
  });

  test('in the number of makers are reported', () => {
    expect(differences(shown, final().slice(1)).map(({ field }) => field)).toEqual(['makers']);
  });
});
