// Compares the formats of an order event with examples that were written by hand from the interface specification.
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { encodeMatch, gapBlock, matchBlock, sequelBlock } from '../../api/feed/encode.ts';
import { EVENT_SCHEMAS } from '../../api/feed/event-schemas.ts';
import { address, fill, hash, market, match } from './feed-matches.ts';

const TOKEN_YES = '71321045679252212594626385532706912750332728571942532289631379312455583992563';
const TOKEN_NO = '52114319501245915516055106046884209969926127482827954674443846427813813222426';

const MATCH = match(0xabc, {
  detectedAtMs: Date.UTC(2025, 10, 3, 7, 8, 9, 45),
  market: market({
    marketId: '9223372036854775807',
    negRisk: true,
    tags: ['weather', '5M'],
    groupItemTitle: 'Zürich',
    resolvedAt: '2025-12-31T12:30:00Z',
    winningOutcome: 'Yes',
  }),
  taker: fill(1, {
    side: 'BUY',
    tokenId: TOKEN_YES,
    usdc: 9_007_199_254_740_991n,
    shares: 10_000_000n,
    fee: 31_250n,
  }),
  makers: [
    fill(2, {
      side: 'SELL',
      outcomeIndex: 1,
      tokenId: TOKEN_NO,
      trader: { address: address(2), name: '', profileImage: '', xUsername: '', createdAt: '' },
    }),
  ],
});

const ID = `${hash(0xabc)}:${hash(7)}:2`;

describe('encodeMatch', () => {
  test('writes the compact array in the specified order, the id digit by digit', () => {
    expect(encodeMatch(MATCH, 'compact', ID)).toBe(
      `["${hash(0xabc)}","2025-11-03 07:08:09.045Z",` +
        `[9223372036854775807,"Will “it” rain\\nin Zürich? 雨","will-it-rain",` +
        `"2025-10-01 00:00:00Z","2025-12-31 12:00:00Z","https://images.example/icon.png",true,` +
        `"rain","weather-daily",["weather","5M"],"Yes","No","Zürich","Rain",` +
        `"https://images.example/event.png"],` +
        `["BUY",["${address(1)}","trader-1","","","2025-01-02 03:04:05Z"],"Yes","${TOKEN_YES}",` +
        `"9007199254740991","10000000","31250","0"],` +
        `[["SELL",["${address(2)}","","","",""],"No","${TOKEN_NO}","4500000","10000000","0","0"]]]`,
    );
  });

  test('writes the labelled object with the specified names', () => {
    const text = encodeMatch(MATCH, 'json', ID);
    expect(text).not.toContain('\n');
    expect(JSON.parse(text)).toEqual({
      tx_hash: hash(0xabc),
      match_id: ID,
      timestamp: '2025-11-03 07:08:09.045Z',
      market: {
        id: '9223372036854775807',
        condition_id: MATCH.conditionId,
        question: 'Will “it” rain\nin Zürich? 雨',
        slug: 'will-it-rain',
        start_date: '2025-10-01 00:00:00Z',
        end_date: '2025-12-31 12:00:00Z',
        icon: 'https://images.example/icon.png',
        neg_risk: true,
        event_slug: 'rain',
        series_slug: 'weather-daily',
        tags: ['weather', '5M'],
        outcome_1: 'Yes',
        outcome_2: 'No',
        group_item_title: 'Zürich',
        event_title: 'Rain',
        event_icon: 'https://images.example/event.png',
        resolved_at: '2025-12-31 12:30:00Z',
        winning_outcome: 'Yes',
      },
      taker_order: {
        side: 'BUY',
        usdc: '9007199254740991',
        shares: '10000000',
        trader: {
          address: address(1),
          name: 'trader-1',
          x_username: '',
          profile_image: '',
          profile_created_at: '2025-01-02 03:04:05Z',
        },
        outcome: 'Yes',
        fee: '31250',
        token_id: TOKEN_YES,
        fee_rate_bps: '0',
      },
      maker_orders: [
        {
          side: 'SELL',
          usdc: '4500000',
          shares: '10000000',
          trader: {
            address: address(2),
            name: '',
            x_username: '',
            profile_image: '',
            profile_created_at: '',
          },
          outcome: 'No',
          fee: '0',
          token_id: TOKEN_NO,
          fee_rate_bps: '0',
        },
      ],
    });
  });

  test('matches the schemas of the OpenAPI document', () => {
    const { CompactMatch, LabelledMatch, LiveTransaction } = EVENT_SCHEMAS;
    for (const [format, schema] of [
      ['compact', CompactMatch],
      ['json', LabelledMatch],
      ['tx', LiveTransaction],
    ] as const) {
      const described = z.fromJSONSchema(z.toJSONSchema(schema));
      const data = JSON.parse(encodeMatch(MATCH, format, ID));
      expect(described.safeParse(data).error?.issues, format).toBe(undefined);
    }
  });

  test('writes an unknown market with id 0 and empty strings', () => {
    const unknown = match(1, {
      market: market({ marketId: '0', outcomes: ['', ''], startDate: '', endDate: '', tags: [] }),
    });
    const compact: unknown[][] = JSON.parse(encodeMatch(unknown, 'compact', ID));
    expect(compact[2]?.slice(0, 1)).toEqual([0]);
    expect(compact[2]?.slice(3, 5)).toEqual(['', '']);
    expect(compact[3]?.[2]).toBe('');
    expect(JSON.parse(encodeMatch(unknown, 'json', ID)).market.id).toBe('0');
  });
});

describe('blocks', () => {
  test('an order is one id, one event and one data line', () => {
    expect(matchBlock(10_001, '[1]', 'compact')).toBe('id: 10001\nevent: order\ndata: [1]\n\n');
  });

  test('a void and a match have the same id, and times in the form of their stream', () => {
    const sequel = {
      ...({ kind: 'void', reason: 'reverted', matchId: ID, txHash: hash(0xabc) } as const),
      ...{ conditionId: hash(1), detectedAtMs: MATCH.detectedAtMs, traders: [], tags: [] },
      ...{ seriesSlug: '', usdc: 0n, shares: 0n },
    };
    for (const format of ['json', 'tx'] as const) {
      const [, , data = ''] = sequelBlock(10_001, sequel, format).split('\n');
      const { match_id, timestamp } = JSON.parse(encodeMatch(MATCH, format, ID));
      expect(JSON.parse(data.slice(6))).toEqual({
        ...{ tx_hash: hash(0xabc), match_id: ID, reason: 'reverted', timestamp },
      });
      expect(match_id).toBe(ID);
    }
    expect(sequelBlock(10_001, sequel, 'compact')).toBe(sequelBlock(10_001, sequel, 'json'));
  });

  test('a gap moves the cursor only if delivery continues live', () => {
    expect(gapBlock(50_001n, 70_002)).toBe(
      'event: gap\ndata: {"requested":50001,"first_available":70002}\n\n',
    );
    expect(gapBlock(50_001n, 70_002, 70_002)).toBe(
      'id: 70002\nevent: gap\ndata: {"requested":50001,"first_available":70002}\n\n',
    );
  });
});
