/** Which members of responses are in micro-units, and their values in whole units. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { inWholeUnits, microMembers } from '../../apps/mcp/units.ts';
import { ENDPOINTS } from '../../apps/reference/document.ts';

const NAMES = new Set(['usdc', 'price']);

test.each([
  [12_345_678, '12.345678'],
  ['4500000', '4.5'],
  [-1, '-0.000001'],
  [0, '0'],
  [8_499_999_999_999_999, '8499999999.999999'],
  [null, 'null'],
])('%j micro-units are %s', (micro, text) => {
  expect(JSON.stringify(inWholeUnits([{ usdc: micro }], NAMES))).toBe(`[{"usdc":${text}}]`);
});

test('no amount has an error of floating point', () => {
  const cents = fc.integer({ min: -8.5e15, max: 8.5e15 });
  fc.assert(
    fc.property(cents, (micro) => {
      const digits = String(Math.abs(micro)).padStart(7, '0');
      const exact = `${digits.slice(0, -6)}.${digits.slice(-6)}`.replace(/\.?0+$/, '');
      const sign = micro < 0 ? '-' : '';
      expect(JSON.stringify(inWholeUnits({ usdc: micro }, NAMES))).toBe(`{"usdc":${sign}${exact}}`);
    }),
  );
});

test('all other members stay as they are', () => {
  const answer = { usdc_count: 5, shares: '7', tags: ['a'], nested: { roi: 12.5, is_open: true } };
  expect(inWholeUnits(answer, NAMES)).toEqual(answer);
});

test('within an endpoint, a member name has one unit', () => {
  for (const { path, answer } of ENDPOINTS) {
    const micro: string[] = [];
    const others: string[] = [];
    JSON.stringify(z.toJSONSchema(answer), (_, schema) => {
      const members: [string, { description?: string }][] = Object.entries(
        schema?.properties ?? {},
      );
      for (const [name, { description = '' }] of members) {
        (description.includes('micro-') ? micro : others).push(name);
      }
      return schema;
    });
    expect(microMembers(answer), path).toEqual(new Set(micro));
    expect(
      micro.filter((name) => others.includes(name)),
      path,
    ).toEqual([]);
  }
});
