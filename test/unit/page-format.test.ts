import { expect, test } from 'vitest';
import { cents, centsTick, paid, pricesText, signed, tone } from '../../apps/web/format.ts';
import prices from '../fixtures/prices.json' with { type: 'json' };

test.each(prices.legs)('$shares shares for $usdc are shown at $price cents', (leg) => {
  expect(cents(leg.usdc, leg.shares)).toBe(`${leg.price.toFixed(1)}¢`);
});

test.each([
  [659_500, ['66¢', '34¢']],
  [340_499, ['34¢', '66¢']],
  [1_000, ['0.1¢', '99.9¢']],
  [0, ['0¢', '100¢']],
  [null, ['–', '–']],
])('the prices of %s and the other outcome add up: %s', (first, texts) => {
  expect(pricesText(first)).toEqual(texts);
});

test.each([
  [100, 'Won: pays 100¢ a share'],
  [70, 'Won: pays 70¢ a share'],
  [50, '50-50: pays 50¢ a share'],
  [30, 'Lost: pays 30¢ a share'],
  [0, 'Lost'],
])('an outcome that pays %i of 100: %s', (each, text) => {
  expect(paid(each)).toBe(text);
});

test.each([
  [-0.5, ''],
  [0, '0¢'],
  [0.25, '0.25¢'],
  [0.1 + 0.2, '0.3¢'],
  [100, '100¢'],
  [100.5, ''],
])('a price axis is labelled at %d: "%s"', (value, text) => {
  expect(centsTick(value)).toBe(text);
});

test.each([
  [1_230_000, '+1.23', 'gain'],
  [-1_230_000, '−1.23', 'loss'],
  [-5_000, '−0.01', 'loss'],
  [-1_000, '0.00', 'even'],
  [0, '0.00', 'even'],
])('%i micro-USDC is shown as %s, as a %s', (micro, text, colour) => {
  expect([signed(micro), tone(micro, signed(micro))]).toEqual([text, colour]);
});
