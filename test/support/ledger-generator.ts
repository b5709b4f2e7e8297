/**
 * A seeded stream of LEDGER events for tests and benchmarks: a zipf-like distribution of traders and markets, several
 * fills per match, occasional resolutions, in chain order. The same seed gives the same events.
 */
import type { Nats } from '../../infra/nats/connection.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import {
  type Address,
  type Fill,
  type Hash,
  type LedgerEvent,
  type Listing,
  type Match,
  METADATA_STREAM,
  type MetadataEvent,
  type Resolution,
} from '../../ingest/contract.ts';
import { type Block, type BlockRange, emptyBlock } from '../../ingest/ledger/ledger.ts';
import { storeMetadata } from '../../ingest/metadata/metadata-stream.ts';
import { generator } from './seed.ts';

export type GeneratorOptions = {
  readonly seed: number;
  readonly traders: number;
  readonly markets: number;
  /** Seconds since the epoch of the first and of the last block. */
  readonly from: number;
  readonly to: number;
  readonly matches: number;
  /** Number of the first match, 0 by default; continues after that many matches of another run. */
  readonly firstMatch?: number;
  /** A market resolves after about this many of its matches; Infinity for never. */
  readonly matchesPerMarket: number;
};

const TAGS = [
  'sports crypto politics geopolitics finance esports pop-culture tech economy weather elections',
  'tweets-markets basketball hockey soccer tennis counter-strike-2 dota-2 league-of-legends 5M 15M',
  'games mentions culture business',
].flatMap((line) => line.split(' '));
export const MATCHES_PER_BLOCK = 12;
const EXCHANGE = `0x${'e1'.repeat(20)}` as Address;

const hex = (value: number, digits: number) => `0x${value.toString(16).padStart(digits, '0')}`;
export const traderAddress = (i: number) => hex(0x10_0000_0000 + i, 40) as Address;
export const conditionId = (i: number) => hex(0x20_0000_0000 + i, 64) as Hash;

/** Metadata of the market with this number: one to three of 25 tags. */
export function listingOf(market: number): Listing {
  const tags = [TAGS[market % 25], TAGS[(market * 7) % 25], TAGS[(market * 11) % 25]];
  return {
    kind: 'listing',
    conditionId: conditionId(market),
    marketId: String(1_000_000 + market),
    question: `Question ${market}?`,
    slug: `question-${market}`,
    startDate: '',
    endDate: '',
    icon: '',
    negRisk: false,
    eventSlug: `event-${market >> 2}`,
    eventTitle: `Event ${market >> 2}`,
    eventIcon: '',
    seriesSlug: market % 5 === 0 ? `series-${market % 50}` : '',
    tags: [...new Set(tags.map((tag) => tag ?? ''))],
    outcomes: ['Yes', 'No'],
    tokenIds: [`${1_000_000_000 + market * 2}`, `${1_000_000_001 + market * 2}`],
    groupItemTitle: '',
    sportsMarketType: '',
  };
}

/** Publishes events of METADATA; resolves when they are stored. */
export async function publishMetadata(nats: Nats, events: Iterable<MetadataEvent>): Promise<void> {
  const writer = await openWriter(nats, { stream: METADATA_STREAM });
  for (const event of events) await storeMetadata(writer, event);
}

/** Balance and profile of the trader with this number; every second one has a profile. */
export function traderFacts(trader: number, address: Address): readonly MetadataEvent[] {
  const balance = BigInt((trader * 104_729) % 1_000_000) * 1_000_000n;
  const facts: MetadataEvent[] = [
    { kind: 'balances', blockNumber: 1, balances: [[address, balance]] },
  ];
  if (trader % 2 === 0) return facts;
  facts.push({
    kind: 'profile',
    address,
    name: `Trader ${trader}`,
    profileImage: `https://example.com/${trader}.png`,
    xUsername: trader % 4 === 1 ? `trader${trader}` : '',
    createdAt: '2026-01-01T00:00:00Z',
    takerTier: trader % 7,
    takerTierName: '',
    weightedVolumeUsd: trader % 8 === 1 ? trader : null,
  });
  return facts;
}

/** Matches and resolutions in chain order. */
export function* ledgerEvents(options: GeneratorOptions): Generator<Match | Resolution> {
  const { seed, traders, markets, from, to, matches, matchesPerMarket } = options;
  const firstMatch = options.firstMatch ?? 0;
  const dice = generator(seed);
  // The inverse of a power law: a few traders and markets make most of the matches.
  const zipf = (count: number) => Math.floor(count * dice() ** 3);
  const resolved = new Set<number>();
  for (let i = firstMatch; i < firstMatch + matches; i++) {
    const blockNumber = 1 + Math.floor(i / MATCHES_PER_BLOCK);
    const inBlock = i % MATCHES_PER_BLOCK;
    const since = Math.max(i - inBlock - firstMatch, 0);
    const blockTime = Math.floor(from + ((to - from) * since) / matches);
    const first = inBlock * 10;
    let market = zipf(markets);
    // The most traded market is resolved first, and another one takes its place.
    if (resolved.has(market)) market = Math.floor(dice() * markets);
    if (resolved.has(market)) continue;
    const at = {
      blockNumber,
      blockTime,
      txHash: hex(i, 64) as Hash,
      conditionId: conditionId(market),
    };
    if (dice() < 1 / matchesPerMarket) {
      resolved.add(market);
      const payouts = (
        [
          [1n, 0n],
          [0n, 1n],
          [1n, 1n],
        ] as const
      )[Math.floor(dice() * 2.1)] ?? [1n, 0n];
      yield { kind: 'resolution', ...at, logIndex: first, payouts: [...payouts] };
      continue;
    }
    const makers = 1 + zipf(5);
    const fills = Array.from({ length: makers + 1 }, (_, leg) =>
      fillOf(dice, { leg, makers, first, market, i, trader: zipf(traders) }),
    );
    yield { kind: 'match', ...at, logIndex: first + makers + 1, exchange: EXCHANGE, fills };
  }
}

function fillOf(
  dice: () => number,
  at: { leg: number; makers: number; first: number; market: number; i: number; trader: number },
): Fill {
  const isTaker = at.leg === at.makers;
  const outcomeIndex = dice() < 0.6 ? 0 : 1;
  const shares = Math.floor(1_000_000 + dice() * 500_000_000);
  const price = 0.02 + dice() * 0.96;
  return {
    logIndex: at.first + at.leg,
    orderHash: hex(at.i * 8 + at.leg, 64) as Hash,
    trader: traderAddress(at.trader),
    isTaker,
    side: dice() < 0.65 ? 'BUY' : 'SELL',
    outcomeIndex,
    tokenId: `${1_000_000_000 + at.market * 2 + outcomeIndex}`,
    shares: BigInt(shares),
    usdc: BigInt(Math.floor(shares * price)),
    fee: isTaker ? BigInt(Math.floor(shares * 0.02 * price * (1 - price))) : 0n,
  };
}

export const blockHash = (block: number) => hex(0x30_0000_0000 + block, 64) as Hash;

/** The same with movements: after every third match, its taker splits and sends a part to another trader. */
export function* withMovements(events: Iterable<Match | Resolution>): Generator<LedgerEvent> {
  let matches = 0;
  for (const event of events) {
    yield event;
    if (event.kind !== 'match') continue;
    matches += 1;
    const trader = event.fills.at(-1)?.trader;
    const counterparty = traderAddress(1_000 + (matches % 7));
    if (matches % 3 !== 0 || trader === undefined) continue;
    const { blockNumber, blockTime, txHash, conditionId, logIndex } = event;
    const of = { blockNumber, blockTime, txHash, conditionId, logIndex, trader, mark: 400_000n };
    const split = { reason: 'split', change: [5_000_000n, 5_000_000n], usdc: -5_000_000n } as const;
    const sent = { reason: 'transfer', change: [-7_000_000n, -1_000_000n], usdc: 0n } as const;
    yield {
      kind: 'movement',
      ...of,
      ...split,
      change: [...split.change],
      counterparty: '',
      part: 0,
    };
    yield { kind: 'movement', ...of, ...sent, change: [...sent.change], counterparty, part: 1 };
  }
}

/** The blocks of events in chain order, without empty blocks. */
export function* blocksOf(
  events: Iterable<LedgerEvent>,
  of: Pick<Block, 'coversMovements'> = {},
): Generator<Block> {
  let some: LedgerEvent[] = [];
  for (const event of events) {
    if (some.length > 0 && some[0]?.blockNumber !== event.blockNumber) {
      yield { ...blockOf(some), ...of };
      some = [];
    }
    some.push(event);
  }
  if (some.length > 0) yield { ...blockOf(some), ...of };
}

function blockOf(events: readonly LedgerEvent[]): Block {
  const { blockNumber: number = 0, blockTime: time = 0 } = events[0] ?? {};
  return {
    ...emptyBlock({ number, hash: blockHash(number), time }),
    events,
  };
}

/** One LEDGER message with these blocks, starting at block `from`. */
export function rangeOf(blocks: readonly Block[], from: number): BlockRange {
  const to = blocks.at(-1)?.number ?? from;
  return { kind: 'blocks', from, to, parentHash: blockHash(from - 1), blocks };
}

/** The events between two shares of all events, 0 to 1; never splits a block. */
export function eventsBetween<Event extends LedgerEvent>(
  events: readonly Event[],
  from: number,
  to: number,
): readonly Event[] {
  const indexOf = (share: number) => {
    let index = Math.floor(share * events.length);
    while (
      index > 0 &&
      index < events.length &&
      events[index - 1]?.blockNumber === events[index]?.blockNumber
    ) {
      index += 1;
    }
    return index;
  };
  return events.slice(indexOf(from), indexOf(to));
}
