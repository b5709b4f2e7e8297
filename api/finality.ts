/**
 * `GET /v2/final_matches`: the transactions that became final after a cursor, read from LEDGER. Readers
 * of the order feed, which shows matches before their block, use it to learn which of them are final.
 * All readers share one read of LEDGER per second; a reader that is far behind gets a read of its own.
 */
import { z } from 'zod';
import { type Nats, NatsUnavailableError, StreamMissingError } from '../infra/nats/connection.ts';
import {
  type BlockRange,
  type LedgerMessage,
  messageAt,
  newestMessage,
  storedMessages,
  UnreadableLedgerError,
} from '../ingest/ledger.ts';
import { type Context, type Endpoint, endpoint } from './endpoint.ts';
import { unavailable } from './errors.ts';
import { integer } from './parameters.ts';

/** What the endpoint works with. */
type FinalityCall = Context & { readonly finalMatches: (after?: number) => Promise<Answer> };

const MATCHES_MAX = 2_048;
const KEPT_MATCHES_MAX = 32_768;
const READ_AGE_MS_MAX = 1_000;
/** Farther behind, as in a catch-up, what was kept is forgotten. */
const READ_MESSAGES_MAX = 64;

const Answer = z.object({
  tx_hashes: z.array(z.string()).meta({
    description: `transactions with a final match after the cursor, in chain order: whole blocks, together at most ${MATCHES_MAX} unless one block has more; one with several matches is repeated`,
    examples: [[`0x${'5f'.repeat(32)}`]],
  }),
  next: z
    .int()
    .min(0)
    .meta({
      description: 'cursor for the next call: the last block delivered',
      examples: [85_671_003],
    }),
  more: z.boolean().meta({ description: 'whether there is more now', examples: [false] }),
  restarted: z.boolean().meta({
    description: 'the cursor was unknown or has expired: the list starts again at the present',
    examples: [false],
  }),
});
type Answer = z.output<typeof Answer>;

export const FINALITY_ENDPOINTS: readonly Endpoint<FinalityCall>[] = [
  endpoint({
    path: '/v2/final_matches',
    summary: 'Transactions whose matches became final',
    description:
      'Without `after`, the list is empty and `next` is the current cursor. A match of the order feed is final when its transaction is in this list, seconds after it was delivered.',
    parameters: z.object({
      after: integer(0, Number.MAX_SAFE_INTEGER)
        .optional()
        .describe('`next` of the previous response; absent: start now'),
    }),
    answer: Answer,
    problems: [],
    run: ({ finalMatches }: FinalityCall, { after }) => finalMatches(after),
  }),
];

/** A final block with its matches. */
type Found = { readonly block: number; readonly txHashes: readonly string[] };

/** Every match of the blocks after `from` up to `to`; `sequence` is the newest LEDGER message read. */
type Kept = {
  readonly from: number;
  readonly to: number;
  readonly sequence: number;
  readonly found: readonly Found[];
};

/** Reads LEDGER for all calls of the endpoint. */
export function createFinalMatches(nats: Nats): FinalityCall['finalMatches'] {
  let kept: Kept | undefined;
  let reading: Promise<Kept> | undefined;
  let readAtMs = Number.NEGATIVE_INFINITY;

  async function readNewest(): Promise<Kept> {
    const newest = await newestMessage(nats);
    kept = newest === undefined ? fromNow(0, 0) : await readOn(nats, kept, newest);
    readAtMs = performance.now();
    return kept;
  }

  async function fresh(): Promise<Kept> {
    if (kept !== undefined && performance.now() - readAtMs < READ_AGE_MS_MAX) return kept;
    reading ??= readNewest().finally(() => {
      reading = undefined;
    });
    return await reading;
  }

  return async (after) => {
    try {
      const newest = await fresh();
      const present = { tx_hashes: [], next: newest.to, more: false };
      if (after === undefined) return { ...present, restarted: false };
      if (after > newest.to) return { ...present, restarted: true };
      const own = after >= newest.from ? newest : await readAfter(nats, after, newest.to);
      return own === undefined ? { ...present, restarted: true } : page(own, after, newest.to);
    } catch (error) {
      const passes =
        error instanceof NatsUnavailableError ||
        error instanceof StreamMissingError ||
        error instanceof UnreadableLedgerError;
      if (passes) throw unavailable('the final matches cannot be read now', error);
      throw error;
    }
  };
}

/** Whole blocks behind the cursor, as many as fit and at least one. */
function page({ to, found }: Pick<Kept, 'to' | 'found'>, after: number, newest: number): Answer {
  const hashes: string[] = [];
  let next = to;
  for (const { block, txHashes } of found) {
    if (block <= after) continue;
    if (hashes.length > 0 && hashes.length + txHashes.length > MATCHES_MAX) break;
    hashes.push(...txHashes);
    next = block;
  }
  const isAll = next === found.at(-1)?.block || hashes.length === 0;
  if (isAll) next = to;
  return { tx_hashes: hashes, next, more: next < newest, restarted: false };
}

/** Forgets what is not of use from now on. */
function fromNow(block: number, sequence: number): Kept {
  return { from: block, to: block, sequence, found: [] };
}

/** Adds what was stored since the last reading; begins at the present where that does not continue it. */
async function readOn(nats: Nats, kept: Kept | undefined, newest: LedgerMessage): Promise<Kept> {
  const { sequence, range } = newest;
  const end = range.kind === 'blocks' ? range.to : 0;
  const behind = sequence - (kept?.sequence ?? 0);
  if (kept === undefined || behind < 0 || behind > READ_MESSAGES_MAX) return fromNow(end, sequence);
  if (behind === 0) return kept;
  const found = [...kept.found];
  let { to } = kept;
  for await (const message of storedMessages(nats, { sequence: kept.sequence + 1 })) {
    if (message.range.kind !== 'blocks' || message.sequence > sequence) continue;
    // LEDGER was rewound or made anew.
    if (message.range.from !== to + 1) return fromNow(end, sequence);
    found.push(...matchesOf(message.range));
    to = message.range.to;
  }
  let matches = found.reduce((count, { txHashes }) => count + txHashes.length, 0);
  let { from } = kept;
  while (matches > KEPT_MATCHES_MAX) {
    const oldest = found.shift();
    if (oldest === undefined) break;
    matches -= oldest.txHashes.length;
    from = oldest.block;
  }
  return { from, to, sequence, found };
}

/** The blocks after one, until they hold a page or end with `last`; undefined where LEDGER does not hold the next one. */
async function readAfter(nats: Nats, after: number, last: number) {
  const first = await messageAt(nats, after + 1);
  if (first === undefined) return undefined;
  const found: Found[] = [];
  let to = after;
  let matches = 0;
  for await (const { range } of storedMessages(nats, { sequence: first.sequence })) {
    if (range.kind !== 'blocks') continue;
    const some = matchesOf(range).filter(({ block }) => block > after);
    found.push(...some);
    to = range.to;
    matches += some.reduce((count, { txHashes }) => count + txHashes.length, 0);
    if (matches > MATCHES_MAX || to >= last) break;
  }
  return { to, found };
}

function matchesOf(range: BlockRange): readonly Found[] {
  return range.blocks
    .filter(({ matches }) => matches.length > 0)
    .map(({ number, matches }) => ({
      block: number,
      txHashes: matches.map(({ txHash }) => txHash),
    }));
}
