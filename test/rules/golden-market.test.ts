import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import type { Address, Fill, Hash, Listing, Match, Resolution } from '../../ingest/contract.ts';
import golden from '../fixtures/market-2182202.json' with { type: 'json' };
import { publishMetadata } from '../support/ledger-generator.ts';
import { publishEvents } from '../support/publish-ledger.ts';
import { until, viewsAgree } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

/** More than 1,500 requests, so a slow machine needs more than the minute that other tests have. */
const TIMEOUT_MS = 300_000;

type FillColumns = [string, 0 | 1, 'BUY' | 'SELL', string, string, string, boolean];
type Hour = { pnl: string; maker_volume: string; taker_volume: string; volume: string };
type Window = { pnl: string; roi: number };
type Market = {
  total_volume: string;
  total_traders: number;
  total_winners: number;
  top_earners: { profile: { address: string }; pnl: string; roi: number; volume: string }[];
};

const CONDITION = `0x${'2182202'.padStart(64, '0')}` as Hash;
const EXCHANGE = '0xe111180000d2663c0091e4f400237545b87b996b' as Address;
/** Published before fees for single-trader markets that resolved: shares, paid, fee, won, PnL, ROI. */
const RESOLVED = [
  ['426449133897', '176045224398', '3100823070', true, '247303086429', 140.47702076251807],
  ['39170080000', '19151800800', '293631840', true, '19724647360', 102.99108457727903],
  ['23566800000', '12019068000', '176680290', true, '11371051710', 94.6084314524221],
  ['6463440000', '3360988800', '48398230', false, '-3409387030', -101.43999974055254],
] as const;
const traderOf = (i: number) => `0x${(0xf00 + i).toString(16).padStart(40, '0')}` as Address;
const conditionOf = (i: number) => `0x${(0xabc0 + i).toString(16).padStart(64, '0')}` as Hash;

/** Every fill as a separate match in its own block, because the published rows do not contain the counterparty. */
class Publisher {
  readonly #events: (Match | Resolution)[] = [];
  readonly #nats: Nats;
  #block = 1;

  constructor(nats: Nats) {
    this.#nats = nats;
  }

  #place(blockTime: number) {
    this.#block += 1;
    const txHash = `0x${this.#block.toString(16).padStart(64, '0')}` as Hash;
    return { blockNumber: this.#block, blockTime, txHash, logIndex: 5 };
  }

  async fill(
    conditionId: Hash,
    blockTime: number,
    fill: Omit<Fill, 'logIndex' | 'orderHash' | 'tokenId'>,
  ) {
    const place = this.#place(blockTime);
    this.#events.push({
      kind: 'match',
      ...place,
      exchange: EXCHANGE,
      conditionId,
      fills: [{ ...fill, logIndex: 4, orderHash: place.txHash, tokenId: '1' }],
    });
  }

  async resolve(conditionId: Hash, blockTime: number, payouts: [bigint, bigint]) {
    this.#events.push({ kind: 'resolution', ...this.#place(blockTime), conditionId, payouts });
  }

  async listing(conditionId: Hash, marketId: string, fields: { readonly tags: string[] }) {
    const listing: Listing = {
      kind: 'listing',
      conditionId,
      marketId,
      question: '',
      slug: '',
      startDate: '',
      endDate: '',
      icon: '',
      negRisk: false,
      eventSlug: '',
      eventTitle: '',
      eventIcon: '',
      seriesSlug: '',
      outcomes: ['Spurs', 'Timberwolves'],
      tokenIds: ['1', '2'],
      groupItemTitle: '',
      sportsMarketType: '',
      ...fields,
    };
    await publishMetadata(this.#nats, [listing]);
  }

  /** Publishes everything; resolves with the last block. */
  async done(): Promise<number> {
    await publishEvents(this.#nats, this.#events, 20);
    return this.#block;
  }
}

async function publishGolden(publisher: Publisher): Promise<number> {
  const fills = golden.traders.flatMap(({ address, fills }) =>
    (fills as FillColumns[]).map((fill) => ({ address: address as Address, fill })),
  );
  // Chain order across traders; the published order within each of them.
  for (const { address, fill } of fills.toSorted((a, b) =>
    a.fill[0] < b.fill[0] ? -1 : a.fill[0] > b.fill[0] ? 1 : 0,
  )) {
    const [time, outcomeIndex, side, shares, usdc, , isTaker] = fill;
    await publisher.fill(CONDITION, Date.parse(time) / 1_000, {
      trader: address,
      isTaker,
      side,
      outcomeIndex,
      shares: BigInt(shares),
      usdc: BigInt(usdc),
      fee: 0n,
    });
  }
  await publisher.listing(CONDITION, golden.market.id, { tags: golden.market.tags });
  return fills.length;
}

async function publishResolved(publisher: Publisher): Promise<void> {
  const hourAgo = Math.floor(Date.now() / 1_000) - 3_600;
  for (const [i, [shares, usdc, fee, won]] of RESOLVED.entries()) {
    await publisher.listing(conditionOf(i), String(9_000 + i), { tags: [] });
    await publisher.fill(conditionOf(i), hourAgo, {
      trader: traderOf(i),
      isTaker: true,
      side: 'BUY',
      outcomeIndex: 0,
      shares: BigInt(shares),
      usdc: BigInt(usdc),
      fee: BigInt(fee),
    });
    await publisher.resolve(conditionOf(i), hourAgo + 60, won ? [1n, 0n] : [0n, 1n]);
  }
}

describe('a real market through LEDGER, projector, ClickHouse and API', () => {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-golden-'));
  let service: Parts;
  let fills = 0;

  beforeAll(async () => {
    // There is no chain, only the published fills.
    service = await startParts(directory, ['projector', 'api']);
    const nats = await connectNats({ url: service.env.NATS_URL, name: 'golden test' });
    const publisher = new Publisher(nats);
    fills = await publishGolden(publisher);
    await publishResolved(publisher);
    await publisher.done();
    await nats.close();
    await until(async () => {
      const [row] = await service.query<{ rows: string; listings: string }>(
        `SELECT toString(count()) AS rows,
           toString((SELECT count() FROM markets FINAL)) AS listings FROM bookings`,
      );
      const isWhole = Number(row?.rows) === fills + 2 * RESOLVED.length;
      const isListed = Number(row?.listings) === RESOLVED.length + 1;
      return (isWhole && isListed && (await viewsAgree(service))) || undefined;
    });
  });

  afterAll(async () => {
    await service?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test('has the published PnL and volumes of each of the 529 traders', {
    timeout: TIMEOUT_MS,
  }, async () => {
    expect(golden.traders).toHaveLength(529);
    expect(fills).toBe(1_265);
    for (const trader of golden.traders) {
      const path = `/v1/traders/${trader.address}/hourly_stats?from=2026-05-01T00:00:00Z&to=2026-06-01T00:00:00Z`;
      const { stats } = await service.get<{ stats: Hour[] }>(path);
      const sum = (pick: (hour: Hour) => string) =>
        stats.reduce((total, hour) => total + BigInt(pick(hour)), 0n);
      const difference = sum((hour) => hour.pnl) - BigInt(trader.pnl_before_fees);
      expect(difference >= -2n && difference <= 2n, trader.address).toBe(true);
      expect({
        volume: String(sum((hour) => hour.volume)),
        maker_volume: String(sum((hour) => hour.maker_volume)),
        taker_volume: String(sum((hour) => hour.taker_volume)),
      }).toEqual({
        volume: trader.volume,
        maker_volume: trader.maker_volume,
        taker_volume: trader.taker_volume,
      });
    }
  });

  test('has the volume of the market, its traders and its 20 top earners', async () => {
    const market = await service.get<Market>(`/v1/markets/${golden.market.id}`);
    const volume = golden.traders.reduce((sum, trader) => sum + BigInt(trader.volume), 0n);
    expect(market.total_volume).toBe(String(volume));
    expect(market.total_traders).toBe(529);
    const published = golden.traders
      .filter((trader) => BigInt(trader.pnl_before_fees) > 0n)
      .toSorted((a, b) => Number(BigInt(b.pnl_before_fees) - BigInt(a.pnl_before_fees)));
    expect(market.total_winners).toBe(published.length);
    expect(market.top_earners.map((earner) => earner.profile.address)).toEqual(
      published.slice(0, 20).map((trader) => trader.address),
    );
  });

  test('has the four published resolved results with fees exactly, ROI to 6 digits', async () => {
    for (const [i, [, , , , pnl, roi]] of RESOLVED.entries()) {
      const { stats } = await service.get<{ stats: { t_1d: Window } }>(
        `/v1/traders/${traderOf(i)}`,
      );
      expect(stats.t_1d.pnl).toBe(pnl);
      expect(stats.t_1d.roi).toBeCloseTo(roi, 6);
    }
  });
});
