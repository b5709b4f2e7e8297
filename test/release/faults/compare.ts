/**
 * Compares LEDGER and FEED with the chain's own logs: every final match and resolution must be there once, in chain
 * order and exact to the micro-unit, every block must have the chain's hash, and every live match must be in FEED
 * once. Reports differences as sentences. Never repairs or rounds anything.
 */
import { z } from 'zod';
import type { Nats } from '../../../infra/nats/connection.ts';
import { storedSince } from '../../../infra/nats/reader.ts';
import { FEED_MATCH_SUBJECT, FEED_STREAM } from '../../../ingest/contract.ts';
import { type Block, lastBlock, storedMessages } from '../../../ingest/ledger/ledger.ts';
import { blockHash, type Fact, type FactFill } from './chain-facts.ts';

const SHOWN_MAX = 5;
const utf8 = new TextDecoder();

/** The parts of a FEED message that these checks need: a match, or a sequel. */
const Shown = z.object({
  txHash: z.string(),
  pending: z.boolean(),
  taker: z.object({ orderHash: z.string() }),
});
const Sequel = z.object({
  kind: z.enum(['void', 'restored', 'final']),
  blockNumber: z.int().optional(),
  matchId: z.string(),
  reason: z.string().default(''),
});

type Comparison = {
  readonly matches: number;
  readonly fills: number;
  readonly resolutions: number;
  /**
   * Matches of the chain that LEDGER holds identically, and all of them; the same for FEED's live ones.
   */
  readonly ledgerFound: number;
  readonly liveMatches: number;
  readonly feedFound: number;
  /** Matches shown early that never became final: reverted, replaced or dropped. */
  readonly feedNeverFinal: number;
  /** How many of these were voided; and how many of all matches were restored after a void. */
  readonly feedVoided: number;
  readonly feedRestored: number;
  /** The differences as sentences; empty if there are none. */
  readonly differences: readonly string[];
};

type CompareOptions = {
  readonly nats: Nats;
  readonly rpcUrl: string;
  /** The chain's facts up to the block that LEDGER must have reached. */
  readonly facts: readonly Fact[];
  /** Matches after this block must be in FEED. */
  readonly liveAfter: number;
};

export async function compare(options: CompareOptions): Promise<Comparison> {
  const ledger = await compareLedger(options);
  const feed = await compareFeed(options);
  const matches = matchesOf(options.facts);
  return {
    matches: matches.length,
    fills: matches.reduce((sum, { fills }) => sum + fills.length, 0),
    resolutions: options.facts.length - matches.length,
    ...ledger,
    ...feed,
    differences: [...ledger.differences, ...feed.differences],
  };
}

async function compareLedger({ nats, rpcUrl, facts }: CompareOptions) {
  const wanted = new Map(facts.map((fact) => [keyOf(fact.block, fact), contentOf(fact)]));
  const differences = new Differences('LEDGER');
  const seen = new Set<string>();
  let found = 0;
  let place: readonly [number, number] = [-1, -1];
  let last: Block | undefined;
  for await (const { sequence, range } of storedMessages(nats, { sequence: 1 })) {
    if (range.kind === 'blocks') {
      const follows =
        last === undefined || (range.from === last.number + 1 && range.parentHash === last.hash);
      if (!follows) differences.add('message that does not follow', String(sequence));
      last = lastBlock(range);
    }
    for (const block of range.blocks) {
      const hash = await blockHash(rpcUrl, block.number);
      if (hash !== block.hash) differences.add('block of another history', String(block.number));
      for (const { reason, txHash } of block.refused)
        differences.add('refused', `${reason} ${txHash}`);
      for (const event of block.events) {
        if (event.kind !== 'match' && event.kind !== 'resolution') continue;
        const { blockNumber, logIndex } = event;
        const key = keyOf(blockNumber, event);
        if (seen.has(key)) differences.add('twice', key);
        seen.add(key);
        const [before, index] = place;
        if (blockNumber < before || (blockNumber === before && logIndex < index)) {
          differences.add('out of order', `${key} after ${placeText(before, index)}`);
        }
        place = [blockNumber, logIndex];
        const content = contentOf(event);
        const expected = wanted.get(key);
        if (expected === undefined) differences.add('not on the chain', key);
        else if (expected !== content) {
          differences.add('differs', `${key}: ${content} ≠ ${expected}`);
        } else if (event.kind === 'match') found += 1;
      }
    }
  }
  for (const key of wanted.keys()) if (!seen.has(key)) differences.add('missing', key);
  return { ledgerFound: found, differences: differences.sentences() };
}

/** FEED alone. */
export async function compareFeed({
  nats,
  facts,
  liveAfter,
}: Pick<CompareOptions, 'nats' | 'facts' | 'liveAfter'>) {
  const differences = new Differences('FEED');
  const feed = await readFeed(nats, differences);
  const matches = matchesOf(facts);
  const blocks = new Map(matches.map((match) => [feedKey(match), match.block]));
  let [voided, restored, neverFinal] = [0, 0, 0];
  for (const [key, { pending }] of feed.shown) {
    const sequel = feed.sequels.get(key);
    const isVoid = sequel?.kind === 'void';
    if (sequel?.kind === 'restored') restored += 1;
    const block = blocks.get(key);
    const finalBlock = feed.finalBlocks.get(key);
    if (finalBlock !== block) {
      differences.add('final in a wrong block', `${key}: ${finalBlock}, not ${block}`);
    }
    if (block !== undefined) {
      if (isVoid) differences.add(`a final match void (${sequel.reason})`, key);
      continue;
    }
    neverFinal += 1;
    if (isVoid) voided += 1;
    else differences.add(`never final and not void (${pending ? 'pending' : 'block'})`, key);
  }
  for (const key of [...feed.sequels.keys(), ...feed.finalBlocks.keys()]) {
    if (!feed.shown.has(key)) differences.add('a sequel of a match that was not shown', key);
  }
  const live = matches.filter(({ block }) => block > liveAfter);
  const missing = live.filter((fact) => !feed.shown.has(feedKey(fact)));
  for (const { txHash, block } of missing) differences.add('missing', `${txHash} of ${block}`);
  return {
    liveMatches: live.length,
    feedFound: live.length - missing.length,
    feedNeverFinal: neverFinal,
    feedVoided: voided,
    feedRestored: restored,
    differences: differences.sentences(),
  };
}

/** The matches in FEED, the last void or restoration of each, and the block in which it became final. */
async function readFeed(nats: Nats, differences: Differences) {
  const shown = new Map<string, z.infer<typeof Shown>>();
  const sequels = new Map<string, z.infer<typeof Sequel>>();
  const finalBlocks = new Map<string, number | undefined>();
  const ids = new Set<string>();
  for await (const message of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
    if (ids.has(message.messageId)) differences.add('id twice', message.messageId);
    ids.add(message.messageId);
    const value: unknown = JSON.parse(utf8.decode(message.data));
    if (message.subject === FEED_MATCH_SUBJECT) {
      const match = Shown.parse(value);
      const key = `${match.txHash}:${match.taker.orderHash}`;
      if (shown.has(key)) differences.add('match twice', key);
      shown.set(key, match);
    } else {
      const sequel = Sequel.parse(value);
      if (sequel.kind === 'final') finalBlocks.set(sequel.matchId, sequel.blockNumber);
      else sequels.set(sequel.matchId, sequel);
    }
  }
  return { shown, sequels, finalBlocks };
}

type FactMatch = Extract<Fact, { kind: 'match' }>;

function matchesOf(facts: readonly Fact[]): readonly FactMatch[] {
  return facts.filter((fact) => fact.kind === 'match');
}

/** The devnet has one match per transaction, so this is also its message id. */
function feedKey({ txHash, takerOrder }: FactMatch): string {
  return `${txHash}:${takerOrder}`;
}

type Content =
  | { readonly kind: 'match'; readonly exchange: string; readonly fills: readonly FactFill[] }
  | {
      readonly kind: 'resolution';
      readonly conditionId: string;
      readonly payouts: readonly bigint[];
      /** Of a combo that pays no simple fraction. */
      readonly parts?: readonly bigint[] | undefined;
    };

/** Equal if and only if everything that LEDGER must store about a fact is equal. */
function contentOf(fact: Content & { readonly txHash: string }): string {
  if (fact.kind === 'resolution') {
    return `resolution ${fact.txHash} ${fact.conditionId} ${payoutsOf(fact).join(' ')}`;
  }
  const fills = fact.fills.map((fill) =>
    [
      ...[fill.logIndex, fill.orderHash, fill.trader, fill.isTaker, fill.side],
      ...[fill.tokenId, fill.shares, fill.usdc, fill.fee],
    ].join(' '),
  );
  return [`match ${fact.txHash} ${fact.exchange}`, ...fills].join('\n');
}

/** A combo's payouts are a fraction, in its lowest terms; the last part is paid to nobody. */
function payoutsOf({
  conditionId,
  payouts,
  parts = payouts,
}: Extract<Content, { kind: 'resolution' }>) {
  if (!conditionId.startsWith('0x03')) return payouts;
  const divisor = parts.reduce(greatestDivisor);
  const [zero = 0n, one = 0n] = parts.map((part) => part / divisor);
  return [zero, one];
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b);
}

/** Several results can follow from one log. */
function keyOf(
  block: number,
  { logIndex, ...fact }: Content & { readonly logIndex: number },
): string {
  const of = fact.kind === 'resolution' ? ` ${fact.conditionId}` : '';
  return `${placeText(block, logIndex)}${of}`;
}

function placeText(block: number, logIndex: number): string {
  return `block ${block} log ${logIndex}`;
}

/** Counts differences by kind and keeps the first few of each kind. */
class Differences {
  readonly #where: string;
  readonly #kinds = new Map<string, { count: number; readonly shown: string[] }>();

  constructor(where: string) {
    this.#where = where;
  }

  add(kind: string, what: string): void {
    const known = this.#kinds.get(kind) ?? { count: 0, shown: [] };
    known.count += 1;
    if (known.shown.length < SHOWN_MAX) known.shown.push(what);
    this.#kinds.set(kind, known);
  }

  sentences(): string[] {
    return [...this.#kinds].map(
      ([kind, { count, shown }]) => `${this.#where}: ${count} × ${kind}, e.g. ${shown.join('; ')}`,
    );
  }
}
