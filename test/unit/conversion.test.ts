import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { conversionValues, type Question } from '../../ingest/events/shares/conversion.ts';
import { runs } from './fixtures.ts';

const M = 1_000_000n;

describe('the values of a conversion', () => {
  const open = (mark?: bigint): Question => ({ payouts: undefined, mark });
  test.each([
    [
      'in proportion to the marks',
      10n * M,
      [open(400_000n), open(350_000n), open(200_000n), open(100_000n)],
      [3_809_523n, 3_333_333n, 1_904_761n, 952_383n],
    ],
    [
      'of all questions',
      100n * M,
      [open(400_000n), open(350_000n), open(300_000n)],
      [38_095_238n, 33_333_333n, 28_571_429n],
    ],
    [
      'without a mark: the mean',
      3_283_334n,
      [open(550_000n), open(300_000n), open()],
      [1_416_340n, 772_549n, 1_094_445n],
    ],
    [
      'after a question was resolved',
      10n * M,
      [{ payouts: [0n, 1n], mark: 400_000n }, open(600_000n), open(500_000n)],
      [0n, 5_454_545n, 4_545_455n],
    ],
    ['without any mark: equal', 10n, [open(), open(), open()], [3n, 3n, 4n]],
  ] as const)('%s', (_, out, questions, values) => {
    expect(conversionValues(out, questions as readonly Question[])).toEqual(values);
  });

  test('always add up to what was converted', () => {
    const question = fc.record({
      payouts: fc.option(fc.constantFrom<[bigint, bigint]>([0n, 1n]), { nil: undefined }),
      mark: fc.option(fc.bigInt({ min: 0n, max: M }), { nil: undefined }),
    });
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 2n ** 53n }),
        fc.array(question, { minLength: 1, maxLength: 20 }),
        (out, questions) => {
          const values = conversionValues(out, [
            ...questions,
            { payouts: undefined, mark: undefined },
          ]);
          expect(values.reduce((sum, value) => sum + value, 0n)).toBe(out);
          for (const value of values) expect(value).toBeGreaterThanOrEqual(0n);
        },
      ),
      { numRuns: runs(1_000) },
    );
  });
});
