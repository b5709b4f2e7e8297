import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Problem } from '../../api/http/errors.ts';
import {
  address,
  decimal,
  flag,
  instant,
  integer,
  marketId,
  oneOf,
  oneOfAnyCase,
  parse,
} from '../../api/http/parameters.ts';

/** The schema's result for a text, or its error message. */
function parsed(schema: z.ZodType, text: unknown): unknown {
  const result = schema.safeParse(text);
  return result.success ? result.data : result.error.issues.map((issue) => issue.message).join();
}

describe('integer', () => {
  test('accepts whole numbers between its bounds, inclusive', () => {
    expect(['1', '100', '050'].map((text) => parsed(integer(1, 100), text))).toEqual([1, 100, 50]);
    expect(parsed(integer(-5, 5), '-5')).toBe(-5);
  });

  test.each(['0', '101', '', ' 1', '1.0', '1e2', '0x10', 'ten', '--1', '٣', '9'.repeat(30)])(
    'refuses %j and says what is allowed',
    (text) => {
      const shown = JSON.stringify(text);
      expect(parsed(integer(1, 100), text)).toBe(
        `got ${shown}, expected a whole number from 1 to 100`,
      );
    },
  );

  test('rejects a repeated parameter', () => {
    expect(parsed(integer(1, 100), ['1', '2'])).toMatch(/^got 2 values, /);
  });
});

describe('decimal', () => {
  test('accepts decimals between its bounds', () => {
    const texts = ['0', '100', '62.5', '-0', '1e-7', '1E+2', '.5', '5.'];
    expect(texts.map((text) => parsed(decimal(0, 100), text))).toEqual([
      ...[0, 100, 62.5, -0],
      ...[1e-7, 100, 0.5, 5],
    ]);
  });

  test.each(['-0.1', '100.01', 'NaN', 'Infinity', '1e', '1e3', 'e1', '.', '1e9999', ''])(
    'rejects %j',
    (text) => {
      expect(parsed(decimal(0, 100), text)).toMatch(/expected a number from 0 to 100$/);
    },
  );
});

describe('flag', () => {
  test('takes what clients of other languages send', () => {
    for (const text of ['true', 'True', 'TRUE', '1']) expect(parsed(flag, text)).toBe(true);
    for (const text of ['false', 'False', 'FALSE', '0']) expect(parsed(flag, text)).toBe(false);
  });

  test.each(['', 'yes', 'tRUE', '2', ' true'])('refuses %j', (text) => {
    expect(parsed(flag, text)).toMatch(/expected true or false$/);
  });
});

describe('oneOf', () => {
  test('accepts exactly the listed texts, case-sensitively', () => {
    expect(parsed(oneOf(['1H', '5M']), '5M')).toBe('5M');
    expect(parsed(oneOf(['1H', '5M']), '5m')).toBe('got "5m", expected one of 1H, 5M');
  });
});

describe('oneOfAnyCase', () => {
  test('accepts the listed texts in any letter case and returns them as listed', () => {
    expect(parsed(oneOfAnyCase(['1H', '5M']), '5m')).toBe('5M');
    expect(parsed(oneOfAnyCase(['1H', '5M']), '6m')).toBe('got "6m", expected one of 1H, 5M');
  });
});

describe('address', () => {
  test('accepts any letter case and returns lower case', () => {
    const mixed = `0x${'aB'.repeat(20)}`;
    expect(parsed(address, mixed)).toBe(mixed.toLowerCase());
    expect(parsed(address, mixed.toUpperCase())).toBe(mixed.toLowerCase());
  });

  test.each(['', '0x', `1x${'a'.repeat(40)}`, `0x${'g'.repeat(40)}`, `0x${'a'.repeat(41)}`])(
    'rejects %j',
    (text) => expect(parsed(address, text)).toMatch(/expected 0x and 40 hexadecimal digits$/),
  );
});

describe('marketId', () => {
  test('accepts an int64 and drops leading zeros', () => {
    expect(parsed(marketId, '9223372036854775807')).toBe('9223372036854775807');
    expect(parsed(marketId, '007')).toBe('7');
  });

  test.each(['9223372036854775808', '-1', '1.5', 'abc'])('rejects %j', (text) => {
    expect(parsed(marketId, text)).toMatch(/expected a whole number from 0 to/);
  });
});

describe('instant', () => {
  test('accepts epoch seconds and ISO 8601, UTC by default', () => {
    const texts = [
      '1777593600',
      '2026-05-01',
      '2026-05-01 00:00:00',
      '2026-05-01T00:00:00Z',
      '2026-05-01T00:00:00.999Z',
      '2026-05-01T02:00:00+02:00',
    ];
    expect(texts.map((text) => parsed(instant, text))).toEqual(texts.map(() => 1_777_593_600));
  });

  test.each([
    'yesterday',
    '2026-13-01',
    '2026-02-30',
    '2025-02-29T00:00:00Z',
    '2026-05-01T25:00:00Z',
    '-5',
    '99999999999',
    '2200-01-01',
  ])('rejects %j', (text) => expect(parsed(instant, text)).toMatch(/expected an ISO 8601 time/));
});

describe('parse', () => {
  const schema = z.object({ limit: integer(1, 100).default(50), offset: integer(0, 9).optional() });

  test('fills defaults and ignores unknown parameters', () => {
    expect(parse(schema, { colour: 'red' })).toEqual({ limit: 50 });
  });

  test('names every bad parameter in its issues', () => {
    const error = (() => {
      try {
        return parse(schema, { limit: '0', offset: 'x' });
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(Problem);
    expect(error).toMatchObject({
      status: 400,
      error: 'invalid_request',
      issues: [
        { path: 'limit', message: 'got "0", expected a whole number from 1 to 100' },
        { path: 'offset', message: 'got "x", expected a whole number from 0 to 9' },
      ],
    });
  });
});
