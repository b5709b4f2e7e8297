import { describe, expect, test } from 'vitest';
import { traded } from '../../apps/client/index.ts';

const [A, B, C] = ['0xaa', '0xBB', '0xcc'];

function order(
  address: string,
  side: 'BUY' | 'SELL',
  outcome: string,
  usdc: number,
  shares: number,
) {
  const amounts = { usdc: String(usdc), shares: String(shares), fee: '1' };
  return { trader: { address, name: `name of ${address}` }, side, outcome, ...amounts };
}

const taker = order(A, 'BUY', 'Yes', 100, 200);
const makers = [
  order(B, 'SELL', 'Yes', 10, 20),
  order(C, 'BUY', 'No', 40, 80),
  order(B, 'SELL', 'Yes', 15, 30),
  order(B, 'BUY', 'No', 20, 40),
];

describe('traded', () => {
  test('is the order of the taker unless a followed trader took part', () => {
    for (const followed of [[], ['0xdd']]) {
      expect(traded(taker, makers, followed)).toEqual({ ...taker, isTaker: true });
    }
  });

  test('sums the orders of a maker of one side and outcome, in any letter case', () => {
    const sum = { ...order(B, 'SELL', 'Yes', 25, 50), fee: '2', isTaker: false };
    expect(traded(taker, makers, ['0xbb'])).toEqual(sum);
  });

  test('takes the largest sum of several followed traders', () => {
    expect(traded(taker, makers, [B, C])).toMatchObject({ outcome: 'No', usdc: '40' });
    expect(traded(taker, makers, [A, B, C])).toMatchObject({ usdc: '100', isTaker: true });
  });

  test('adds amounts beyond the safe integers exactly', () => {
    const huge = { ...order(B, 'BUY', 'No', 0, 1), usdc: '9007199254740993' };
    expect(traded(taker, [huge, huge], [B]).usdc).toBe('18014398509481986');
  });
});
