/**
 * The filters of the order feed, one row each: its rule (filter-rules.ts) and its parameter. Everything else walks through
 * these tables. An absent filter lets everything pass.
 */
import { ADDRESS } from '../http/parameters.ts';
import { ENTRIES, type ListName, TESTS } from './filter-rules.ts';
import {
  ADDRESSES_MAX,
  Addresses,
  Decimal,
  List,
  listed,
  MARKETS_MAX,
  Markets,
  Price,
} from './parameters.ts';

const SLUG = { type: 'string', minLength: 1 };

export const LISTS = {
  traders: {
    of: ENTRIES.traders,
    parameter: listed(
      Addresses,
      `at most ${ADDRESSES_MAX} wallet addresses (a managed stream takes more); only matches that involve one of them`,
      { type: 'string', pattern: ADDRESS.source },
      ADDRESSES_MAX,
    ),
  },
  tags: {
    of: ENTRIES.tags,
    parameter: listed(List, 'tags of markets, in any letter case', SLUG),
  },
  series: {
    of: ENTRIES.series,
    parameter: listed(List, 'series slugs, in any letter case', SLUG),
  },
  markets: {
    of: ENTRIES.markets,
    parameter: listed(
      Markets,
      `at most ${MARKETS_MAX} markets by id, condition id or slug; an unknown market returns 404`,
      SLUG,
      MARKETS_MAX,
    ),
  },
} as const;

/** The lists, most selective first. */
export const BY_SELECTIVITY: readonly ListName[] = ['traders', 'markets', 'series', 'tags'];

const AMOUNT = { type: 'number', minimum: 0 };
const PERCENT = { ...AMOUNT, maximum: 100 };

/** Inclusive bounds on the taker's order. */
export const BOUNDS = {
  min_usdc: {
    test: TESTS.min_usdc,
    parameter: Decimal.meta({ ...AMOUNT, description: 'minimum value of the taker order, USDC' }),
  },
  max_usdc: {
    test: TESTS.max_usdc,
    parameter: Decimal.meta({ ...AMOUNT, description: 'maximum value of the taker order, USDC' }),
  },
  min_shares: {
    test: TESTS.min_shares,
    parameter: Decimal.meta({ ...AMOUNT, description: 'minimum shares of the taker order' }),
  },
  max_shares: {
    test: TESTS.max_shares,
    parameter: Decimal.meta({ ...AMOUNT, description: 'maximum shares of the taker order' }),
  },
  min_price: {
    test: TESTS.min_price,
    parameter: Price.meta({
      ...{ ...PERCENT, description: 'minimum execution price of the taker, 0 to 100' },
    }),
  },
  max_price: {
    test: TESTS.max_price,
    parameter: Price.meta({
      ...{ ...PERCENT, description: 'maximum execution price of the taker, 0 to 100' },
    }),
  },
} as const;
