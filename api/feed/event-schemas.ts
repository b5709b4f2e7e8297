/** Schemas of the data of stream events, for the OpenAPI document; tests compare delivered events with them. */
import { z } from 'zod';
import { SessionEnd } from '../sessions/record.ts';

const text = (description: string, example: string) =>
  z.string().meta({ description, examples: [example] });
const amount = (description: string, example = '4500000') =>
  z
    .string()
    .regex(/^\d+$/)
    .meta({ description, examples: [example] });

const ADDRESS = '0x56687bf447db6ffa42ffe2204a05edaa20f55839';
const HASH = `0x${'5f'.repeat(32)}`;
const TIME = '2026-05-01T12:00:00.000Z';

const txHash = text('hash of the transaction', HASH);
const matchId = text('id of the match, for `final`, `void` and `restored`', `${HASH}:${HASH}`);
const side = z.enum(['BUY', 'SELL']).meta({ description: 'side', examples: ['BUY'] });
const tags = z.array(z.string()).meta({ description: 'tags', examples: [['crypto', '5M']] });

const Participant = z.object({
  fee: amount('fee, micro-USDC', '0'),
  order: z.object({
    order_hash: text('EIP-712 hash of the order', HASH),
    shares: amount('original capacity, micro-shares; 0 if calldata could not be read'),
    signature_type: z.int().meta({
      description: '0 EOA, 1 proxy wallet, 2 multi-signature safe, 3 deposit wallet (ERC-1271)',
      examples: [2],
    }),
    timestamp: text('when the order was signed; empty if the order has no time', TIME),
    usdc: amount('original notional, micro-USDC; 0 if calldata could not be read'),
  }),
  outcome: text('label of the outcome', 'Yes'),
  shares: amount('filled shares, micro-shares'),
  side,
  token_ids_index: z
    .union([z.literal(0), z.literal(1)])
    .meta({ description: 'index in token_ids and outcomes of the market', examples: [0] }),
  usdc: amount('filled notional, micro-USDC'),
  user: z.object({
    address: text('wallet', ADDRESS),
    name: text('public name, empty if there is none', 'alice'),
  }),
});

/** `position` of a managed stream. */
const StreamPosition = z
  .object({
    event: z.enum(['opened', 'added', 'reduced', 'closed']).meta({
      description: 'what the match does to the position; one that changes sides closes and opens',
      examples: ['opened'],
    }),
    market: z.object({
      condition_id: text('condition id', HASH),
      event_slug: text('slug of the event', 'bitcoin-up-or-down'),
      id: text('market id; 0 while it is unknown', '2182202'),
      outcomes: z
        .tuple([z.string(), z.string()])
        .meta({ description: 'labels of the outcomes', examples: [['Yes', 'No']] }),
      question: text('question', 'Bitcoin up or down?'),
      slug: text('slug of the market', 'bitcoin-up-or-down-may-1'),
    }),
    match_id: text('id of the match: its `void` takes the event back', `${HASH}:${HASH}`),
    outcome: text('label of the outcome that is held', 'Yes'),
    portfolio_share: z.number().meta({
      description: 'the position after, in percent of all open positions with it, to a tenth',
      examples: [40.2],
    }),
    portfolio_value: amount(
      'all open positions with it, micro-USDC, held and priced as within the last minute before it is sent',
    ),
    price: amount('price of the match for that outcome, micro-USDC a share', '620000'),
    shares_after: amount('micro-shares held after the match'),
    shares_before: amount('micro-shares held before the match', '0'),
    state: z.enum(['pending', 'final']).meta({
      description:
        'pending: as if matches were mined in the order of the feed; final: the match is booked, and the shares are exact',
      examples: ['pending'],
    }),
    timestamp: text('when the match was first seen', TIME),
    token_ids_index: z
      .union([z.literal(0), z.literal(1)])
      .meta({ description: 'index of that outcome', examples: [0] }),
    trader: z.object({
      address: text('wallet', ADDRESS),
      name: text('public name, empty if there is none', 'alice'),
    }),
    tx_hash: txHash,
    value: amount('shares that came or left at that price, micro-USDC'),
    value_after: amount('shares held after the match at that price, micro-USDC'),
  })
  .meta({ id: 'StreamPosition' });

/** `tx` of a managed stream. */
const LiveTransaction = z.object({
  makers: z.array(Participant),
  market: z.object({
    condition_id: text('condition id', HASH),
    event_slug: text('slug of the event', 'bitcoin-up-or-down'),
    group_item_title: text('title inside its group', ''),
    id: z.number().meta({ description: 'market id; 0 while it is unknown', examples: [2182202] }),
    neg_risk: z.boolean().meta({ description: 'negative-risk market', examples: [false] }),
    outcomes: z
      .tuple([z.string(), z.string()])
      .meta({ description: 'labels of the outcomes', examples: [['Yes', 'No']] }),
    question: text('question', 'Bitcoin up or down?'),
    series_slug: text('slug of the series', 'btc-up-or-down-hourly'),
    slug: text('slug of the market', 'bitcoin-up-or-down-may-1'),
    sports_market_type: text('such as moneyline; empty for other markets', 'moneyline'),
    start_date: text('when it opened', '2026-05-01T00:00:00Z'),
    tags_slug: tags,
    token_ids: z
      .tuple([z.string(), z.string()])
      .meta({ description: 'token ids of the outcomes', examples: [['1', '2']] }),
  }),
  match_id: matchId,
  taker: Participant,
  timestamp: text('when the match was first seen', TIME),
  tx_hash: txHash,
});

const CompactOrder = z.tuple([
  side,
  z.tuple([
    text('wallet', ADDRESS),
    text('public name', 'alice'),
    text('URL of the profile image', ''),
    text('social handle', ''),
    text('when the profile was created', '2025-01-02 03:04:05Z'),
  ]),
  text('label of the outcome', 'Yes'),
  text('token id of the outcome', '1'),
  amount('micro-USDC'),
  amount('micro-shares'),
  amount('fee, micro-USDC', '0'),
  amount('fee rate in basis points; orders of version 2 carry none', '0'),
]);

/** `order` of the order feed. */
const CompactMatch = z
  .tuple([
    txHash,
    text('when the match was first seen', '2026-05-01 12:00:00.000Z'),
    z.tuple([
      z.number().meta({ description: 'market id; 0 while it is unknown', examples: [2182202] }),
      text('question', 'Bitcoin up or down?'),
      text('slug', 'bitcoin-up-or-down-may-1'),
      text('when it opened', '2026-05-01 00:00:00Z'),
      text('when it closes', '2026-05-02 00:00:00Z'),
      text('URL of the icon', ''),
      z.boolean().meta({ description: 'negative-risk market', examples: [false] }),
      text('slug of the event', 'bitcoin-up-or-down'),
      text('slug of the series', 'btc-up-or-down-hourly'),
      tags,
      text('label of the first outcome', 'Yes'),
      text('label of the second outcome', 'No'),
      text('title inside its group', ''),
      text('title of the event', 'Bitcoin up or down'),
      text('URL of the icon of the event', ''),
    ]),
    CompactOrder,
    z.array(CompactOrder),
  ])
  .meta({ description: 'transaction, time, market, order of the taker, orders of the makers' });

const LabelledOrder = z.object({
  side,
  usdc: amount('micro-USDC'),
  shares: amount('micro-shares'),
  trader: z.object({
    address: text('wallet', ADDRESS),
    name: text('public name', 'alice'),
    x_username: text('social handle', ''),
    profile_image: text('URL', ''),
    profile_created_at: text('when the profile was created', '2025-01-02 03:04:05Z'),
  }),
  outcome: text('label of the outcome', 'Yes'),
  fee: amount('micro-USDC', '0'),
  token_id: text('token id of the outcome', '1'),
  fee_rate_bps: amount('basis points; version 2 orders have none', '0'),
});

/** `order` of the order feed with `format=json`. */
const LabelledMatch = z
  .object({
    tx_hash: txHash,
    match_id: matchId,
    timestamp: text('when the match was first seen', '2026-05-01 12:00:00.000Z'),
    market: z.object({
      id: text('market id; 0 while it is unknown', '2182202'),
      condition_id: text('condition id', HASH),
      question: text('question', 'Bitcoin up or down?'),
      slug: text('slug', 'bitcoin-up-or-down-may-1'),
      start_date: text('when it opened', '2026-05-01 00:00:00Z'),
      end_date: text('when it closes', '2026-05-02 00:00:00Z'),
      icon: text('URL', ''),
      neg_risk: z.boolean().meta({ description: 'negative-risk market', examples: [false] }),
      event_slug: text('slug of the event', 'bitcoin-up-or-down'),
      series_slug: text('slug of the series', 'btc-up-or-down-hourly'),
      tags,
      outcome_1: text('label of the first outcome', 'Yes'),
      outcome_2: text('label of the second outcome', 'No'),
      group_item_title: text('title inside its group', ''),
      event_title: text('title of the event', 'Bitcoin up or down'),
      event_icon: text('URL', ''),
      resolved_at: text('empty while unresolved', ''),
      winning_outcome: text('empty while unresolved', ''),
    }),
    taker_order: LabelledOrder,
    maker_orders: z.array(LabelledOrder),
  })
  .meta({ id: 'LabelledMatch' });

const position = (description: string) => z.int().meta({ description, examples: [28492588] });

const Gap = z.object({
  requested: position('the requested cursor, or the last one delivered'),
  first_available: position('the cursor at which delivery continues'),
});

const ABOUT = {
  tx_hash: txHash,
  match_id: matchId,
  timestamp: text(
    'when this was detected, in the format of the stream',
    '2026-05-01 12:02:00.000Z',
  ),
};

const Void = z
  .object({
    ...ABOUT,
    reason: z.enum(['reverted', 'replaced', 'never_mined', 'unmatched']).meta({
      description: 'why the match did not settle; never_mined may still be followed by restored',
      examples: ['reverted'],
    }),
  })
  .meta({ id: 'Void' });

const Restored = z.object(ABOUT).meta({ id: 'Restored' });

const Final = z
  .object({
    ...ABOUT,
    block_number: z.int().meta({ description: 'the final block', examples: [85_671_003] }),
  })
  .meta({ id: 'Final' });

const End = z.object({
  reason: SessionEnd.meta({ description: 'why the stream ends', examples: ['quota_used_up'] }),
});

/** By name in the document. */
export const EVENT_SCHEMAS = {
  ...{ LiveTransaction, StreamPosition, LabelledMatch, CompactMatch },
  ...{ Gap, Void, Restored, Final, End },
};
