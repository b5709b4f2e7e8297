import { expect, test } from 'vitest';
import { paid } from '../../api/web/format.ts';

test.each([
  [100, 'won: pays 100¢ a share'],
  [70, 'won: pays 70¢ a share'],
  [50, '50-50: pays 50¢ a share'],
  [30, 'lost: pays 30¢ a share'],
  [0, 'lost'],
])('an outcome that is paid %i of 100: %s', (cents, text) => {
  expect(paid(cents)).toBe(text);
});
