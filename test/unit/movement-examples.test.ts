/** The examples of docs/pnl.md, "Shares that move without a fill", of one wallet. */
import { expect, test } from 'vitest';
import type { LedgerEvent, Movement } from '../../ingest/contract.ts';
import type { Booking } from '../../projector/contract.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import { conditionId, traderAddress } from '../support/ledger-generator.ts';

const M = 1_000_000n;
const [OWN, OTHER] = [traderAddress(1), traderAddress(2)];
const TX = `0x${'ab'.repeat(32)}` as const;

type Step = (blockNumber: number) => LedgerEvent;
const at = (blockNumber: number) => ({
  ...{ blockNumber, blockTime: blockNumber, txHash: TX, conditionId: conditionId(1), logIndex: 1 },
});

/** Whole shares and USDC. */
const trade =
  (side: 'BUY' | 'SELL', outcomeIndex: 0 | 1, shares: number, usdc: number, fee = 0): Step =>
  (block) => ({
    ...{ kind: 'match', ...at(block), exchange: `0x${'e1'.repeat(20)}` },
    fills: [
      {
        ...{ logIndex: 0, orderHash: TX, trader: OWN, isTaker: true, side, outcomeIndex },
        ...{ tokenId: '1', shares: micro(shares), usdc: micro(usdc), fee: micro(fee) },
      },
    ],
  });
const moves =
  (
    reason: Movement['reason'],
    zero: number,
    one: number,
    of: { usdc?: number; mark?: number; to?: string } = {},
  ): Step =>
  (block) => ({
    ...{ kind: 'movement', ...at(block), part: 0, reason, trader: OWN },
    ...{ counterparty: (of.to ?? '') as '', change: [micro(zero), micro(one)] },
    ...{ usdc: micro(of.usdc ?? 0), mark: of.mark === undefined ? null : micro(of.mark) },
  });
const resolves: Step = (block) => ({ kind: 'resolution', ...at(block), payouts: [1n, 0n] });
const micro = (amount: number) => BigInt(Math.round(amount * 1e6));

/** For each row: kind, shares, USDC and PnL; then what is held, and at which cost. */
const EXAMPLES: readonly (readonly [string, readonly Step[], readonly string[]])[] = [
  [
    'buy both, merge',
    [trade('BUY', 0, 100, 48), trade('BUY', 1, 100, 50), moves('merge', -100, -100, { usdc: 100 })],
    ['fill 100 48 0', 'fill 100 50 2', 'movement 100 100 0', 'movement 100 0 0', 'holds 0 at 0'],
  ],
  [
    'redeem what won',
    [trade('BUY', 0, 100, 30, 1), resolves, moves('redeem', -100, 0, { usdc: 100, mark: 1 })],
    ['fill 100 30 0', 'settlement 100 100 69', 'movement 100 100 0', 'holds 0 at 0'],
  ],
  [
    'redeem what lost',
    [trade('BUY', 1, 100, 30), resolves, moves('redeem', 0, -100, { mark: 1 })],
    ['fill 100 30 0', 'settlement 100 0 -30', 'movement 100 0 0', 'holds 0 at 0'],
  ],
  [
    'a part comes back',
    [trade('BUY', 0, 10, 5), trade('SELL', 0, 10, 4), moves('refund', 1, 0), resolves],
    ['fill 10 5 0', 'fill 10 4 -1', 'movement 1 0 0', 'settlement 1 1 1', 'holds 0 at 0'],
  ],
  [
    'a part of an opening comes back',
    [trade('SELL', 0, 10, 4), moves('refund', 1, 0), trade('SELL', 0, 1, 0.4)],
    ['opening 10 4 0', 'fill 10 4 0', 'movement 1 0 0', 'fill 1 0.4 0.4', 'holds 0 at 0'],
  ],
  [
    'sell from before',
    [trade('SELL', 0, 1_000, 900)],
    ['opening 1000 900 0', 'fill 1000 900 0', 'holds 0 at 0'],
  ],
  [
    'send from before',
    [moves('transfer', -10, 0, { mark: 0.3, to: OTHER })],
    ['opening 10 3 0', 'movement 10 3 0', 'holds 0 at 0'],
  ],
  [
    'from an adapter without an event',
    [moves('unexplained', 10, 0, { mark: 0.4 }), trade('SELL', 0, 10, 5)],
    ['movement 10 4 0', 'fill 10 5 1', 'holds 0 at 0'],
  ],
  [
    'to an exchange without a fill',
    [trade('BUY', 0, 10, 5), moves('unexplained', -10, 0)],
    ['fill 10 5 0', 'movement 10 5 0', 'holds 0 at 0'],
  ],
];

test.each(EXAMPLES)('%s', (_, steps, expected) => {
  const positions = new OpenPositions();
  const rows = steps
    .flatMap((step, block) => positions.apply(step(block + 1), true))
    .filter(({ trader }) => trader === OWN);
  const whole = (amount: bigint) => Number(amount) / Number(M);
  const text = ({ kind, shares, usdc, realisedPnl }: Booking) =>
    `${kind} ${whole(shares)} ${whole(usdc)} ${whole(realisedPnl)}`;
  const last = rows.at(-1);
  const held = `holds ${whole(last?.positionShares ?? -M)} at ${whole(last?.positionCost ?? -M)}`;
  expect([...rows.map(text), held]).toEqual(expected);
});
