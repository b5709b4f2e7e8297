/**
 * `GET /v2/markets/:id/holders`: the current holders of a market by shares, at average price and mark.
 * Definitions: docs/pnl.md.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { integer, marketKey, oneOf, order } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { holderCursor } from './cursors.ts';
import { percent, price, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findKnownMarket } from './market-object.ts';
import { MarketMark, marketMark, newestHeld, readMarks, valueAt } from './marks.ts';
import { ProfileV2, readProfilesV2 } from './profiles.ts';
import { read } from './query.ts';
import { boolean, count as counted, hexText, int, type RowOf, rowOf, typed } from './rows.ts';
import { amount, count, outcomeIndex, share, text } from './schemas.ts';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100;

const Parameters = z.object({
  id: marketKey.describe('market id, condition id or slug'),
  outcome: oneOf(['0', '1', 'both'])
    .default('both')
    .describe('only holders of this outcome; 0 is the first one'),
  order: order('desc').describe('desc: most shares first; asc: fewest first'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum holders per page'),
  cursor: holderCursor.parameter,
});
type Input = z.output<typeof Parameters>;

const Row = rowOf({
  address: hexText('trader'),
  outcome: typed('outcome', z.literal([0, 1])),
  shares: int('shares'),
  cost: int('cost_basis'),
  fees: int('open_fees'),
  realised: int('realised'),
  isOnPage: boolean('is_on_page'),
  first: int('sumIf(shares, outcome = 0) OVER ()'),
  second: int('sumIf(shares, outcome = 1) OVER ()'),
  firstHolders: counted('countIf(outcome = 0) OVER ()'),
  secondHolders: counted('countIf(outcome = 1) OVER ()'),
});

/** The page and one more holder. All other holders are sorted last, so that sums cover them for any cursor. */
function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(
    input,
    { columns: ['shares'], at: '{cursor_shares:Int64}' },
    { column: 'trader', at: 'unhex({cursor_trader:String})' },
  );
  const isOfOutcome = input.outcome === 'both' ? 'true' : 'outcome = {outcome:UInt8}';
  return `
SELECT ${Row.columns}
FROM
(
  SELECT
    trader,
    ${newestHeld('outcome')} AS outcome,
    ${newestHeld('shares')} AS shares,
    ${newestHeld('cost_basis')} AS cost_basis,
    ${newestHeld('open_fees')} AS open_fees,
    sum(realised_pnl) AS realised,
    toBool(${isOfOutcome} ${behind}) AS is_on_page
  FROM market_traders
  WHERE condition_id = {condition_id:FixedString(32)}
  GROUP BY trader
  HAVING shares > 0
)
ORDER BY is_on_page DESC, ${orderBy}
LIMIT {most:UInt32}`;
}

const Holder = z.object({
  profile: ProfileV2,
  outcome_index: outcomeIndex('index of the outcome, 0 or 1'),
  outcome: text('label of the outcome', 'Yes'),
  shares: amount('micro-shares held'),
  outcome_share: share('shares divided by all held shares of the outcome'),
  average_price: amount('cost per share, without fees, micro-USD, rounded to nearest'),
  average_price_with_fees: amount('cost per share, with fees, micro-USD, rounded to nearest'),
  cost_basis: amount('paid for the shares held, without fees, micro-USD'),
  open_fees: amount('fees of the shares held, micro-USD'),
  value: amount('value of the shares at the mark, micro-USD'),
  unrealised_pnl: amount('value − cost_basis − open_fees, micro-USD'),
  realised_pnl: amount('realised PnL of the trader in this market, net of fees, micro-USD'),
});

export const holdersV2 = endpoint({
  name: 'marketHolders',
  path: '/v2/markets/:id/holders',
  summary: 'Holders of a market',
  description: `The traders who hold the outcomes of a market, most shares first, with average price and value. A trader holds net shares
of one outcome. A resolution settles all positions, so a resolved market has no holders.

Ties are ordered by address. A holder whose shares change between two pages can be repeated or omitted; \`limit=100\`
returns 100 at once.`,
  parameters: Parameters,
  answer: z.object({
    mark: MarketMark,
    open_interest: amount(
      'micro-shares held of the first outcome, which equal those of the second',
    ),
    holders: z.array(Holder),
    next_cursor: NEXT_CURSOR,
    total_count: count('holders that match the query, on all pages'),
  }),
  list: 'holders',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const { conditionId, listing } = await findKnownMarket(call, input.id);
    const condition_id = new Bytes(conditionId);
    const { limit, outcome } = input;
    const parameters = {
      ...{ condition_id, outcome: outcome === 'both' ? undefined : outcome },
      ...pageParameters(input),
    };
    const [rows, marks] = await Promise.all([
      read(call, { sql: pageStatement(input), parameters, row: Row }),
      readMarks(call, [conditionId]),
    ]);
    const ahead = rows.filter((row) => row.isOnPage);
    const { page, next_cursor } = pageOf(ahead, limit, holderCursor);
    const profileOf = await readProfilesV2(
      call,
      page.map(({ address }) => address),
    );
    const mark = marks.get(conditionId);
    const holders = page.map((row) => {
      // The first match may be visible before its mark.
      const value = mark === undefined ? row.cost + row.fees : valueAt(mark, row);
      const all = row.outcome === 0 ? row.first : row.second;
      return {
        profile: profileOf(row.address),
        outcome_index: row.outcome,
        outcome: listing.outcomes[row.outcome] ?? '',
        shares: safeInteger(row.shares),
        // Doubles can round a whole to slightly more.
        outcome_share: Math.min(100, percent(row.shares, all)),
        average_price: safeInteger(price(row.cost, row.shares)),
        average_price_with_fees: safeInteger(price(row.cost + row.fees, row.shares)),
        cost_basis: safeInteger(row.cost),
        open_fees: safeInteger(row.fees),
        value: safeInteger(value),
        unrealised_pnl: safeInteger(value - row.cost - row.fees),
        realised_pnl: safeInteger(row.realised),
      };
    });
    const answer = {
      mark: marketMark(mark),
      open_interest: safeInteger(rows[0]?.first ?? 0n),
      ...{ holders, next_cursor, total_count: holdersOf(input, rows[0]) },
    };
    return new Page(answer, next_cursor);
  },
});

function holdersOf({ outcome }: Input, row: RowOf<typeof Row> | undefined): number {
  const { firstHolders = 0, secondHolders = 0 } = row ?? {};
  if (outcome === 'both') return firstHolders + secondHolders;
  return outcome === '0' ? firstHolders : secondHolders;
}
