/**
 * Holds a match as it was shown from calldata against the same match in final logs. Pure. The rules
 * of the calldata are the contract's own, so a difference means that the contract does something
 * else than we believe, such as a refund: the logs are right, and LEDGER has nothing else.
 */
import type { FeedFill, FeedMatch } from './contract-feed.ts';

/** What is compared of a fill in final logs; `order` and place do not matter. */
export type FinalFill = {
  readonly orderHash: string;
  readonly trader: string;
  readonly side: string;
  readonly tokenId: bigint;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

export type Difference = {
  readonly field:
    | 'order_hash'
    | 'trader'
    | 'side'
    | 'token_id'
    | 'shares'
    | 'usdc'
    | 'fee'
    | 'makers';
  /** `taker`, or the maker's index in the calldata. */
  readonly of: 'taker' | number;
  readonly shown: string;
  readonly final: string;
};

/** All differences; `fills` are final ones in log order, the taker last. */
export function differences(shown: FeedMatch, fills: readonly FinalFill[]): readonly Difference[] {
  const taker = fills.at(-1);
  const makers = fills.slice(0, -1);
  const found: Difference[] = taker === undefined ? [] : differencesOf('taker', shown.taker, taker);
  if (makers.length !== shown.makers.length) {
    const counts = { shown: String(shown.makers.length), final: String(makers.length) };
    return [...found, { field: 'makers', of: 'taker', ...counts }];
  }
  for (const [i, maker] of makers.entries()) {
    const as = shown.makers[i];
    if (as !== undefined) found.push(...differencesOf(i, as, maker));
  }
  return found;
}

function differencesOf(of: Difference['of'], shown: FeedFill, final: FinalFill): Difference[] {
  const fields = [
    ['order_hash', shown.orderHash, final.orderHash],
    ['trader', shown.trader.address, final.trader],
    ['side', shown.side, final.side],
    ['token_id', shown.tokenId, final.tokenId.toString()],
    ['shares', shown.shares.toString(), final.shares.toString()],
    ['usdc', shown.usdc.toString(), final.usdc.toString()],
    ['fee', shown.fee.toString(), final.fee.toString()],
  ] as const;
  return fields
    .filter(([, one, other]) => one !== other)
    .map(([field, one, other]) => ({ field, of, shown: one, final: other }));
}
