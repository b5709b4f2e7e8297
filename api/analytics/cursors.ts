/** The cursors of the lists. Addresses and condition ids are parsed without 0x. */
import { cursor } from './keyset.ts';

const UINT32_MAX = 4_294_967_295;
const UINT64_MAX = 18_446_744_073_709_551_615n;

/** An entry of a leaderboard, by its figures and address. */
export const boardCursor = cursor({
  pattern: /^(-?\d{1,19})\.(-?\d{1,19})\.(-?\d{1,19})\.(\d{1,10})\.(\d{1,10})\.([0-9a-f]{40})$/,
  example: `12500000.81000000.93500000.12.7.${'5f'.repeat(20)}`,
  after: (row: {
    readonly address: string;
    readonly pnl: bigint;
    readonly cost: bigint;
    readonly volume: bigint;
    readonly markets: number;
    readonly wins: number;
  }) => [row.pnl, row.cost, row.volume, row.markets, row.wins, row.address.slice(2)].join('.'),
  parse([, pnl = '', cost = '', volume = '', markets = '', wins = '', trader = '']) {
    if (![pnl, cost, volume].every(isInt64)) return undefined;
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
});

/** A market of a trader, by the trader's newest trade in it and the condition id. */
export const marketCursor = cursor({
  pattern: /^(\d{1,10})-([0-9a-f]{64})$/,
  example: `1777593600-${'5f'.repeat(32)}`,
  after: (row: { readonly lastTradeAt: number; readonly conditionId: string }) =>
    `${row.lastTradeAt}-${row.conditionId.slice(2)}`,
  parse: ([, seconds = '', cursor_condition = '']) =>
    isUint32(seconds) ? { cursor_time: Number(seconds), cursor_condition } : undefined,
});

/** A market, by its condition id. */
export const conditionCursor = cursor({
  pattern: /^0x([0-9a-f]{64})$/,
  example: `0x${'5f'.repeat(32)}`,
  after: (row: { readonly conditionId: string }) => row.conditionId,
  parse: ([, cursor_condition = '']) => ({ cursor_condition }),
});

/** A position or a market, by the figure that sorts it and the condition id. */
export const positionCursor = cursor({
  pattern: /^(-?\d{1,19})-([0-9a-f]{64})$/,
  example: `12500000-${'5f'.repeat(32)}`,
  after: (row: { readonly figure: bigint; readonly conditionId: string }) =>
    `${row.figure}-${row.conditionId.slice(2)}`,
  parse: ([, cursor_figure = '', cursor_condition = '']) =>
    isInt64(cursor_figure) ? { cursor_figure, cursor_condition } : undefined,
});

/** A fill, by its block and log index. */
export const fillCursor = cursor({
  pattern: /^(\d{1,20})-(\d{1,10})$/,
  example: '85671000-12',
  after: (row: { readonly block: bigint; readonly log: number }) => `${row.block}-${row.log}`,
  parse: ([, cursor_block = '', log = '']) =>
    isUint32(log) && BigInt(cursor_block) <= UINT64_MAX
      ? { cursor_block, cursor_log: Number(log) }
      : undefined,
});
/** A movement, by its block, log index and part. */
export const movementCursor = cursor({
  pattern: /^(\d{1,20})-(\d{1,10})-(\d{1,10})$/,
  example: '85671000-12-0',
  after: (row: { readonly block: bigint; readonly log: number; readonly part: number }) =>
    `${row.block}-${row.log}-${row.part}`,
  parse: ([, cursor_block = '', log = '', part = '']) =>
    isUint32(log) && isUint32(part) && BigInt(cursor_block) <= UINT64_MAX
      ? { cursor_block, cursor_log: Number(log), cursor_part: Number(part) }
      : undefined,
});

/** The sort key of fills in chain order. */
export const CHAIN_ORDER = {
  columns: ['block_number', 'log_index'],
  at: '({cursor_block:UInt64}, {cursor_log:UInt32})',
};

/** A position event, by its place in the chain, trader, market and number. */
export const positionEventCursor = cursor({
  pattern: /^(\d{1,10})\.(\d{1,20})\.(\d{1,10})\.([0-9a-f]{40})\.([0-9a-f]{64})\.(\d{1,2})$/,
  example: `1777593600.85671003.12.${'5f'.repeat(20)}.${'5f'.repeat(32)}.2`,
  after: (row: {
    readonly at: number;
    readonly block: bigint;
    readonly log: number;
    readonly trader: string;
    readonly conditionId: string;
    readonly number: number;
  }) =>
    [row.at, row.block, row.log, row.trader.slice(2), row.conditionId.slice(2), row.number].join(
      '.',
    ),
  parse([, time = '', block = '', log = '', cursor_trader = '', cursor_condition = '', at = '']) {
    if (!isUint32(time) || !isUint32(log) || BigInt(block) > UINT64_MAX) return undefined;
    return {
      ...{ cursor_time: Number(time), cursor_block: block, cursor_log: Number(log) },
      ...{ cursor_trader, cursor_condition, cursor_number: Number(at) },
    };
  },
});

/** A holder of a market, by shares and address. */
export const holderCursor = cursor({
  pattern: /^(\d{1,19})-([0-9a-f]{40})$/,
  example: `12500000-${'5f'.repeat(20)}`,
  after: (row: { readonly shares: bigint; readonly address: string }) =>
    `${row.shares}-${row.address.slice(2)}`,
  parse: ([, cursor_shares = '', cursor_trader = '']) =>
    isInt64(cursor_shares) ? { cursor_shares, cursor_trader } : undefined,
});

/** An hour, by its start in epoch seconds. None begins in the last second of a UInt32. */
export const hourCursor = cursor({
  pattern: /^\d{1,10}$/,
  example: '1777593600',
  after: (row: { readonly start: number }) => String(row.start),
  parse: ([start]) => (Number(start) < UINT32_MAX ? { cursor_time: Number(start) } : undefined),
});

/** A trader of a market, by address. */
export const traderCursor = cursor({
  pattern: /^0x([0-9a-f]{40})$/,
  example: `0x${'5f'.repeat(20)}`,
  after: (row: { readonly address: string }) => row.address,
  parse: ([, cursor_trader = '']) => ({ cursor_trader }),
});

function isUint32(digits: string): boolean {
  return Number(digits) <= UINT32_MAX;
}

function isInt64(digits: string): boolean {
  return BigInt(digits) === BigInt.asIntN(64, BigInt(digits));
}
