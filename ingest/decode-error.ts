/** Why a log or a call could not be decoded; each reason is counted under its own name. */
export type RefusalReason =
  | 'not_watched'
  | 'unknown_topic'
  | 'bad_topics'
  | 'bad_data'
  | 'bad_side'
  | 'amount_too_large'
  | 'not_match_orders'
  | 'bad_calldata'
  | 'no_makers'
  | 'zero_maker_amount'
  | 'orphan_fill'
  | 'taker_mismatch'
  | 'unknown_token'
  | 'bad_payouts';

/** Thrown by the decoders; `reason` is the counter's name, the message tells the value. */
export class DecodeError extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super(`${reason}: ${message}`);
    this.reason = reason;
  }
}
