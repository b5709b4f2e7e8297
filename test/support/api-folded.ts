/**
 * The application over bookings that the projector's fold makes of a seeded LEDGER, and an account of the same LEDGER
 * by the rules of the reconciliation (wallet-ledger.ts), which shares no code with the fold or the SQL.
 */
import type { Fill, LedgerEvent, Match, Resolution } from '../../ingest/contract.ts';
import { type BookedEvent, batchesOf } from '../../projector/fold/batches.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import { Store } from '../../projector/store.ts';
import { get, issueKey, startApi, startStores } from './api-harness.ts';
import { at } from './at.ts';
import { blockHash, ledgerEvents, traderAddress } from './ledger-generator.ts';
import { nearest } from './prices.ts';
import { DATABASE } from './stack.ts';
import { Ledger, payOut, trade } from './wallet-ledger.ts';

type Event = Match | Resolution;

const TO = 1_790_600_400;
export const LEDGER = {
  ...{ traders: 9, markets: 40, matchesPerMarket: 150 },
  // Ten days; the last event is on no boundary.
  ...{ from: TO - 864_000, to: TO, matches: 3_000 },
};
export const NOW = TO + 1_234;
/** The busiest first. */
export const TRADERS = Array.from({ length: LEDGER.traders }, (_, i) => traderAddress(i));

/** An api with its clock fixed at NOW, over the events so far; `add` books more of them. */
export async function startFolded(seed: number) {
  console.log(`SEED=${seed}`);
  const stores = await startStores();
  const { clickhouse, nats } = stores;
  const store = new Store(clickhouse.client, [0], { database: DATABASE, cluster: undefined });
  const positions = new OpenPositions();
  const events: Event[] = [];

  /** Events that the account does not know, of blocks with movements. */
  async function book(more: readonly LedgerEvent[], coversMovements = true): Promise<void> {
    const booked: BookedEvent[] = more.map((event) => ({
      blockHash: blockHash(event.blockNumber),
      rows: positions.apply(event, coversMovements),
    }));
    await store.writeFacts(more.filter((event) => event.kind === 'resolution'));
    for (const batch of batchesOf(booked)) await store.writeBatch(batch);
  }
  async function add(more: readonly Event[]): Promise<void> {
    await book(more, false);
    events.push(...more);
  }
  await add([...ledgerEvents({ ...LEDGER, seed })]);
  const api = await startApi({ clickhouseUrl: clickhouse.url, nats, now: () => NOW * 1_000 });
  const key = await issueKey(nats.bucket, 'pro');
  return {
    api,
    key,
    client: clickhouse.client,
    events: events as readonly Event[],
    add,
    book,
    /** Body and path of the next page of a 200. */
    async ok(path: string, init: RequestInit = {}) {
      const { body, headers, status, text } = await get(api.url + path, key, init);
      if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
      return { body, next: /^<([^>]+)>/.exec(headers.get('link') ?? '')?.[1] };
    },
    async stop() {
      await api.stop();
      await stores.stop();
    },
  };
}
export type Folded = Awaited<ReturnType<typeof startFolded>>;

type Own = {
  holding: Ledger;
  realised: bigint;
  first: number;
  last: number;
  settled:
    | { time: number; outcome: 0 | 1; shares: bigint; cost: bigint; fees: bigint; payout: bigint }
    | undefined;
};
/** A fill of a trader as /v2/traders/:address/trades should show it, with the condition id as its market. */
export type Trade = ReturnType<typeof tradeOf>;
type Price = { source: string; time: number; usdc: bigint; shares: bigint };

/** A trader's markets by condition id after the events until `time`, and the marks of all markets then. */
export function accountAt(events: readonly Event[], trader: string, time: number) {
  const own = new Map<string, Own>();
  const marks = new Map<string, Price>();
  const payouts = new Map<string, readonly bigint[]>();
  const fills: Trade[] = [];
  for (const event of events) {
    if (event.blockTime > time) break;
    const { blockTime, conditionId } = event;
    if (event.kind === 'resolution') {
      const [usdc = 0n, other = 0n] = event.payouts;
      marks.set(conditionId, { source: 'resolution', time: blockTime, usdc, shares: usdc + other });
      payouts.set(conditionId, event.payouts);
      settle(own.get(conditionId), event.payouts, blockTime);
      continue;
    }
    for (const fill of event.fills) {
      const { fee, isTaker, outcomeIndex, shares, side, trader: of, usdc } = fill;
      if (isTaker && !payouts.has(conditionId)) {
        const first = outcomeIndex === 0 ? usdc : shares - usdc;
        marks.set(conditionId, { source: 'last_match', time: blockTime, usdc: first, shares });
      }
      if (of !== trader) continue;
      const market = at(own, conditionId, () => ({
        ...{ holding: new Ledger(), realised: 0n, first: blockTime, last: 0, settled: undefined },
      }));
      const { pnl } = trade(market.holding, side === 'BUY', outcomeIndex, shares, usdc, fee);
      market.realised += pnl;
      fills.push(tradeOf(event, fill, pnl));
      market.last = blockTime;
      settle(market, payouts.get(conditionId), blockTime);
    }
  }
  return { own, marks, fills };
}

function tradeOf(match: Match, fill: Fill, pnl: bigint) {
  return {
    time: `${new Date(match.blockTime * 1_000).toISOString().slice(0, 19)}Z`,
    side: fill.side,
    outcome: '',
    outcome_index: fill.outcomeIndex,
    price: nearest(fill.usdc, fill.shares),
    shares: Number(fill.shares),
    usdc: Number(fill.usdc),
    fee: Number(fill.fee),
    is_taker: fill.isTaker,
    realised_pnl: Number(pnl),
    block_number: match.blockNumber,
    log_index: fill.logIndex,
    match_log_index: match.logIndex,
    tx_hash: match.txHash,
    order_hash: fill.orderHash,
    market: match.conditionId,
  };
}

function settle(market: Own | undefined, payouts: readonly bigint[] | undefined, time: number) {
  if (market === undefined || payouts === undefined) return;
  const { cost, fees, shares } = market.holding;
  const change = payOut(market.holding, payouts);
  if (change === undefined) return;
  market.realised += change.pnl;
  const outcome = shares[0] > 0n ? 0 : 1;
  const payout = change.pnl + cost + fees;
  market.settled ??= { time, outcome, shares: shares[outcome], cost, fees, payout };
  market.holding = new Ledger();
}

/** The value of a holding at a mark, and its PnL. */
export function valued({ shares, cost, fees }: Ledger, mark: Price | undefined) {
  const outcome: 0 | 1 = shares[0] > 0n ? 0 : 1;
  if (mark === undefined) throw new Error('no match made this holding');
  const part = outcome === 0 ? mark.usdc : mark.shares - mark.usdc;
  const value = (shares[outcome] * part) / mark.shares;
  return { outcome, shares: shares[outcome], value, unrealised: value - cost - fees };
}

/** Realised and unrealised PnL of a trader at a time. */
export function pnlAt(events: readonly Event[], trader: string, time: number) {
  const { marks, own } = accountAt(events, trader, time);
  let [realised, unrealised] = [0n, 0n];
  for (const [condition, market] of own) {
    realised += market.realised;
    unrealised += valued(market.holding, marks.get(condition)).unrealised;
  }
  return { realised: Number(realised), unrealised: Number(unrealised) };
}
