/** The table of the page's views, in which router and shortcuts take the first row that fits. */
import { expect, test } from 'vitest';
import { VIEWS } from '../../apps/web/views.ts';

test('no two views of the page have the same path or key', () => {
  const paths = VIEWS.map(({ path }) => path);
  // The first ones are the page's own.
  const keys = ['j', 'k', '/', '?', ' ', ...VIEWS.flatMap(({ key }) => key ?? [])];
  expect(new Set(paths).size).toBe(paths.length);
  expect(new Set(keys).size).toBe(keys.length);
});
