import { describe, expect, test } from 'vitest';
import { TokenMap } from '../../ingest/catalogue-tokens.ts';
import { parseListing } from '../../ingest/gamma-shapes.ts';
import {
  CHAIN,
  condition,
  derived,
  EXCHANGE,
  NEG_RISK_EXCHANGE,
  silent,
  WRAPPED,
} from './gamma-harness.ts';

function listing(number: number, tokens: readonly [string, string], outcomes = ['Yes', 'No']) {
  return parseListing({
    id: String(number),
    conditionId: condition(number),
    outcomes: JSON.stringify(outcomes),
    clobTokenIds: JSON.stringify(tokens),
  });
}
const map = () => new TokenMap(CHAIN, silent);

describe('outcomeOf', () => {
  test('is derived from the condition, without any metadata', () => {
    const [first, second] = derived(condition(1));
    expect(map().outcomeOf(condition(1), first, EXCHANGE)).toBe(0);
    expect(map().outcomeOf(condition(1), second, EXCHANGE)).toBe(1);
    const negRisk = derived(condition(1), WRAPPED);
    expect(map().outcomeOf(condition(1), negRisk[1], NEG_RISK_EXCHANGE)).toBe(1);
  });

  test('tries every collateral of the chain before it gives up', () => {
    const [, token] = derived(condition(1), CHAIN.collateral);
    expect(map().outcomeOf(condition(1), token, NEG_RISK_EXCHANGE)).toBe(1);
    expect(map().outcomeOf(condition(1), '77', EXCHANGE)).toBeUndefined();
  });

  test('follows metadata only where no derivation fits', () => {
    const tokens = map();
    tokens.listed(listing(1, ['77', '78']));
    expect(tokens.outcomeOf(condition(1), '78', NEG_RISK_EXCHANGE)).toBe(1);
    expect(tokens.mismatches).toBe(1);
    expect(tokens.conditionOf('77')).toBe(condition(1));
  });

  test('is never misled by a listing that claims the tokens of another market', () => {
    const tokens = map();
    const [first, second] = derived(condition(1));
    tokens.listed(listing(2, [second, first]));
    expect(tokens.outcomeOf(condition(1), first, EXCHANGE)).toBe(0);
    // Derived by now: a second false listing changes nothing either.
    tokens.listed(listing(3, [first, second]));
    expect(tokens.conditionOf(first)).toBe(condition(1));
    expect(tokens.mismatches).toBe(2);
  });
});

describe('listed', () => {
  test('knows the tokens of a listing, for matches without readable calldata', () => {
    const tokens = map();
    const pair = derived(condition(4), WRAPPED);
    expect(tokens.listed(listing(4, pair)).tokenIds).toEqual(pair);
    expect(tokens.conditionOf(pair[1])).toBe(condition(4));
    expect(tokens.mismatches).toBe(0);
  });

  test('turns a listing round whose outcomes are not in the order of the index sets', () => {
    const tokens = map();
    const [first, second] = derived(condition(1));
    const given = listing(1, [second, first], ['No', 'Yes']);
    for (const _ of [1, 2]) {
      const { tokenIds, outcomes } = tokens.listed(given);
      expect({ tokenIds, outcomes }).toEqual({
        tokenIds: [first, second],
        outcomes: ['Yes', 'No'],
      });
    }
    expect(tokens.mismatches).toBe(1);
  });
});
