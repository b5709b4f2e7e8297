/**
 * A match as the tape shows it, from either form in which a stream tells it: `order` of the order
 * feed (labelled) and `tx` of a managed stream. Amounts stay the decimal text that came.
 */
export type RowState = 'pending' | 'final' | 'void';

export type Participant = {
  readonly address: string;
  readonly name: string;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: string;
  readonly shares: string;
  readonly fee: string;
};

export type Row = {
  /** Place among all rows that the tape ever had. */
  readonly number: number;
  /** Position in the feed. */
  readonly position: string;
  readonly txHash: string;
  /** Where the stream tells it: names the match inside its transaction. */
  readonly takerOrderHash: string;
  readonly detectedAtMs: number;
  readonly market: {
    readonly id: string;
    readonly question: string;
    readonly tags: readonly string[];
  };
  readonly taker: Participant;
  readonly makers: readonly Participant[];
  state: RowState;
  /** Why it is void. */
  reason: string;
};

type LabelledOrder = {
  readonly side: 'BUY' | 'SELL';
  readonly usdc: string;
  readonly shares: string;
  readonly fee: string;
  readonly outcome: string;
  readonly trader: { readonly address: string; readonly name: string };
};

type Labelled = {
  readonly tx_hash: string;
  readonly timestamp: string;
  readonly market: { readonly id: string; readonly question: string; readonly tags: string[] };
  readonly taker_order: LabelledOrder;
  readonly maker_orders: readonly LabelledOrder[];
};

type TxParticipant = Omit<LabelledOrder, 'trader'> & {
  readonly user: { readonly address: string; readonly name: string };
  readonly order: { readonly order_hash: string };
};

type Transaction = {
  readonly tx_hash: string;
  readonly timestamp: string;
  readonly market: {
    readonly id: number;
    readonly condition_id: string;
    readonly question: string;
    readonly tags_slug: string[];
  };
  readonly taker: TxParticipant;
  readonly makers: readonly TxParticipant[];
};

type Place = { readonly number: number; readonly position: string };

export function rowOfOrder(place: Place, data: string): Row {
  const order = JSON.parse(data) as Labelled;
  return {
    ...place,
    txHash: order.tx_hash,
    takerOrderHash: '',
    detectedAtMs: Date.parse(order.timestamp.replace(' ', 'T')),
    market: { id: order.market.id, question: order.market.question, tags: order.market.tags },
    taker: participant(order.taker_order, order.taker_order.trader),
    makers: order.maker_orders.map((maker) => participant(maker, maker.trader)),
    state: 'pending',
    reason: '',
  };
}

export function rowOfTransaction(place: Place, data: string): Row {
  const transaction = JSON.parse(data) as Transaction;
  const { market } = transaction;
  return {
    ...place,
    txHash: transaction.tx_hash,
    takerOrderHash: transaction.taker.order.order_hash,
    detectedAtMs: Date.parse(transaction.timestamp),
    market: {
      id: market.id === 0 ? market.condition_id : String(market.id),
      question: market.question,
      tags: market.tags_slug,
    },
    taker: participant(transaction.taker, transaction.taker.user),
    makers: transaction.makers.map((maker) => participant(maker, maker.user)),
    state: 'pending',
    reason: '',
  };
}

function participant(
  { side, outcome, usdc, shares, fee }: Omit<LabelledOrder, 'trader'>,
  { address, name }: { readonly address: string; readonly name: string },
): Participant {
  return { address, name, side, outcome, usdc, shares, fee };
}
