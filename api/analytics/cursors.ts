/**
 * Cursors of the lists. A cursor contains the sort key of the last element of a page, so new elements do not
 * shift the next page. An element whose key changes (a market that is traded, a trader on a refreshed board)
 * can be repeated or omitted.
 */
import { parameter } from '../http/parameters.ts';

const ALLOWED = 'a cursor from the Link header or next_cursor of a response';
const UINT32_MAX = 4_294_967_295;
const UINT64_MAX = 18_446_744_073_709_551_615n;

const BOARD = /^(-?\d{1,19})\.(-?\d{1,19})\.(-?\d{1,19})\.(\d{1,10})\.(\d{1,10})\.([0-9a-f]{40})$/;
const MARKET = /^(\d{1,10})-([0-9a-f]{64})$/;
const POSITION = /^(-?\d{1,19})-([0-9a-f]{64})$/;
const FILL = /^(\d{1,20})-(\d{1,10})$/;
const HOLDER = /^(\d{1,19})-([0-9a-f]{40})$/;
const TRADER = /^0x([0-9a-f]{40})$/;

/** An entry of a leaderboard, by its figures and address. */
export const boardCursor = parameter(
  ALLOWED,
  {
    type: 'string',
    pattern: BOARD.source,
    examples: [`12500000.81000000.93500000.12.7.${'5f'.repeat(20)}`],
  },
  (text) => {
    const [, pnl = '', cost = '', volume = '', markets, wins, trader] = BOARD.exec(text) ?? [];
    if (trader === undefined || ![pnl, cost, volume].every(isInt64)) return undefined;
    if (!isUint32(markets) || !isUint32(wins)) return undefined;
    return {
      cursor_pnl: pnl,
      cursor_cost: cost,
      cursor_volume: volume,
      cursor_markets: Number(markets),
      cursor_wins: Number(wins),
      cursor_trader: trader,
    };
  },
);

/** A market of a trader, by the trader's newest trade in it and the condition id. */
export const marketCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: MARKET.source, examples: [`1777593600-${'5f'.repeat(32)}`] },
  (text) => {
    const [, seconds, conditionId] = MARKET.exec(text) ?? [];
    if (conditionId === undefined || !isUint32(seconds)) return undefined;
    return { lastTradeAt: Number(seconds), conditionId };
  },
);

/** A position or a market, by the figure that sorts it and the condition id. */
export const positionCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: POSITION.source, examples: [`12500000-${'5f'.repeat(32)}`] },
  (text) => {
    const [, figure = '', conditionId] = POSITION.exec(text) ?? [];
    if (conditionId === undefined || !isInt64(figure)) return undefined;
    return { figure, conditionId };
  },
);

/** A fill, by its block and log index. */
export const fillCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: FILL.source, examples: ['85671000-12'] },
  (text) => {
    const [, block = '', log] = FILL.exec(text) ?? [];
    if (log === undefined || !isUint32(log) || BigInt(block) > UINT64_MAX) return undefined;
    return { block, log: Number(log) };
  },
);

/** A holder of a market, by shares and address; parsed without 0x. */
export const holderCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: HOLDER.source, examples: [`12500000-${'5f'.repeat(20)}`] },
  (text) => {
    const [, shares = '', trader] = HOLDER.exec(text) ?? [];
    return trader === undefined || !isInt64(shares) ? undefined : { shares, trader };
  },
);

/** An hour, by its start in epoch seconds; the next second is a time as well. */
export const hourCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: /^\d{1,10}$/.source, examples: ['1777593600'] },
  (text) => (/^\d{1,10}$/.test(text) && Number(text) < UINT32_MAX ? Number(text) : undefined),
);

/** A trader of a market, by address; parsed without 0x. */
export const traderCursor = parameter(
  ALLOWED,
  { type: 'string', pattern: TRADER.source, examples: [`0x${'5f'.repeat(20)}`] },
  (text) => TRADER.exec(text)?.[1],
);

function isUint32(digits: string | undefined): boolean {
  return Number(digits) <= UINT32_MAX;
}

function isInt64(digits: string): boolean {
  return BigInt(digits) === BigInt.asIntN(64, BigInt(digits));
}
