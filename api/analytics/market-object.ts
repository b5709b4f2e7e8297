/**
 * Market objects (specification 2.2): the columns that make one and their assembly, resolved or not.
 * v1 finds a market by its number, so a market that no listing describes cannot be asked for.
 */
import { z } from 'zod';
import { winningOutcome } from '../../ingest/contract.ts';
import { Problem } from '../problems.ts';
import { Count, Int, isoSecond, Seconds } from './wire.ts';

/** Condition id of the market whose number is the parameter `market_id`; NULL for no market. */
export const CONDITION_OF_MARKET_ID = `(
  SELECT condition_id
  FROM markets FINAL
  WHERE market_id = {market_id:UInt64} AND market_id != 0
  ORDER BY sequence DESC
  LIMIT 1
)`;

export const MARKET_COLUMNS = `
  toString(market_id) AS id, question, slug, start_date, end_date, icon, neg_risk, event_slug,
  series_slug, tags, outcomes, group_item_title, event_title, event_icon`;

/** One row for a condition id expression, resolved or not. */
export function resolutionOf(condition: string): string {
  return `
    SELECT
      toUnixTimestamp(max(resolutions.resolved_at)) AS resolved_at,
      max(payout_0) AS payout_0,
      max(payout_1) AS payout_1,
      count() AS resolutions
    FROM resolutions FINAL
    WHERE condition_id = ${condition}`;
}

/** The row members of MARKET_COLUMNS and `resolutionOf`. */
export const MarketColumns = {
  id: z.string(),
  question: z.string(),
  slug: z.string(),
  start_date: z.string(),
  end_date: z.string(),
  icon: z.string(),
  neg_risk: z.boolean(),
  event_slug: z.string(),
  series_slug: z.string(),
  tags: z.array(z.string()),
  outcomes: z.array(z.string()),
  group_item_title: z.string(),
  event_title: z.string(),
  event_icon: z.string(),
  resolved_at: Seconds,
  payout_0: Int,
  payout_1: Int,
  resolutions: Count,
};
const MarketRow = z.object(MarketColumns);

/** The market object of a row, in the order of the specification. */
export function marketObject(row: z.output<typeof MarketRow>) {
  const outcomes = [row.outcomes[0] ?? '', row.outcomes[1] ?? ''] as const;
  const isResolved = row.resolutions > 0;
  return {
    id: row.id,
    question: row.question,
    slug: row.slug,
    start_date: row.start_date,
    end_date: row.end_date,
    icon: row.icon,
    neg_risk: row.neg_risk,
    event_slug: row.event_slug,
    series_slug: row.series_slug,
    tags: row.tags,
    outcome_1: outcomes[0],
    outcome_2: outcomes[1],
    group_item_title: row.group_item_title,
    event_title: row.event_title,
    event_icon: row.event_icon,
    resolved_at: isResolved ? isoSecond(row.resolved_at) : '',
    winning_outcome: isResolved ? winningOutcome(outcomes, [row.payout_0, row.payout_1]) : '',
  };
}

/** 404: no market has this number. */
export function unknownMarket(marketId: string): Problem {
  return new Problem({
    status: 404,
    error: 'not_found',
    detail: `no market has the id ${marketId}`,
  });
}
