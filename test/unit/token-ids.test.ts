import { describe, expect, test } from 'vitest';
import { parseListing } from '../../ingest/gamma-shapes.ts';
import { positionIds } from '../../ingest/token-ids.ts';
import hourly from '../fixtures/gamma-market-btc-hourly-resolved.json' with { type: 'json' };
import politics from '../fixtures/gamma-market-politics-include_tag.json' with { type: 'json' };

const USDC_E = '0x2791bca1f2de4661ed88a30c99a7a9449aa84174';

describe('positionIds', () => {
  test.each([
    ['hourly crypto', hourly],
    ['politics', politics],
  ])('derives the token ids of a real market from its condition: %s', (_name, market) => {
    const listing = parseListing(market);
    const derived = positionIds(USDC_E, listing.conditionId).map(String);
    expect(derived).toEqual(listing.tokenIds);
  });

  test('depends on the collateral inside the position', () => {
    const condition = parseListing(hourly).conditionId;
    const other = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';
    expect(positionIds(other, condition)).not.toEqual(positionIds(USDC_E, condition));
  });
});
