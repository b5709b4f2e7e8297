/**
 * `GET /v2/final_matches`: the transactions that became final after a cursor, read from LEDGER. Readers
 * of the order feed, which shows matches before their block, use it to learn which of them are final.
 * All readers share one read of LEDGER per second; a reader that is far behind gets a read of its own.
 */
import { z } from 'zod';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
  streamState,
} from '../infra/nats/connection.ts';
import { readRange } from '../infra/nats/read.ts';
import { decodeLedgerEvent, LEDGER_STREAM } from '../ingest/contract.ts';
import { type Context, type Endpoint, endpoint } from './endpoint.ts';
import { unavailable } from './errors.ts';
import { integer } from './parameters.ts';

/** What the endpoint works with. */
type FinalityCall = Context & { readonly finalMatches: (after?: number) => Promise<Answer> };

const MATCH_SUBJECTS = 'ledger.*.match';
const MATCHES_MAX = 2_048;
const KEPT_MATCHES_MAX = 32_768;
const READ_AGE_MS_MAX = 1_000;

const Answer = z.object({
  tx_hashes: z.array(z.string()).meta({
    description: `transactions with a final match after the cursor, in chain order, at most ${MATCHES_MAX}; one with several matches is repeated`,
    examples: [[`0x${'5f'.repeat(32)}`]],
  }),
  next: z
    .int()
    .min(0)
    .meta({ description: 'cursor for the next call', examples: [81_003] }),
  more: z.boolean().meta({ description: 'whether there is more now', examples: [false] }),
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

/** Every match of LEDGER after `from` up to `to`. */
type Kept = { readonly from: number; readonly to: number; readonly found: readonly Found[] };
type Found = { readonly sequence: number; readonly txHash: string };

/** Reads LEDGER for all calls of the endpoint. */
export function createFinalMatches(nats: Nats): FinalityCall['finalMatches'] {
  let kept: Kept | undefined;
  let reading: Promise<Kept> | undefined;
  let readAtMs = Number.NEGATIVE_INFINITY;

  async function readOn(): Promise<Kept> {
    const { lastSequence } = await streamState(nats, LEDGER_STREAM);
    // Of an empty memory, or a stream that was made anew, only what comes from now on is of use.
    if (kept === undefined || kept.to > lastSequence) {
      kept = { from: lastSequence, to: lastSequence, found: [] };
    } else if (kept.to < lastSequence) {
      const { found, to } = await readAfter(nats, kept.to, lastSequence);
      const all = [...kept.found, ...found];
      const dropped = all.slice(0, Math.max(0, all.length - KEPT_MATCHES_MAX)).at(-1);
      kept = {
        from: dropped?.sequence ?? kept.from,
        to,
        found: all.slice(-KEPT_MATCHES_MAX),
      };
    }
    readAtMs = performance.now();
    return kept;
  }

  async function fresh(): Promise<Kept> {
    if (kept !== undefined && performance.now() - readAtMs < READ_AGE_MS_MAX) return kept;
    reading ??= readOn().finally(() => {
      reading = undefined;
    });
    return await reading;
  }

  return async (after) => {
    try {
      const newest = await fresh();
      if (after === undefined || after > newest.to) {
        return { tx_hashes: [], next: newest.to, more: false };
      }
      const own = after >= newest.from ? newest : await readAfter(nats, after, newest.to);
      const found = own.found.filter(({ sequence }) => sequence > after).slice(0, MATCHES_MAX);
      const next = found.length === MATCHES_MAX ? (found.at(-1)?.sequence ?? own.to) : own.to;
      return { tx_hashes: found.map(({ txHash }) => txHash), next, more: next < newest.to };
    } catch (error) {
      const passes = error instanceof NatsUnavailableError || error instanceof StreamMissingError;
      if (passes) throw unavailable('the final matches cannot be read now', error);
      throw error;
    }
  };
}

/** Matches after a sequence, up to `last` where they are few, else as far as they were read. */
async function readAfter(nats: Nats, after: number, last: number) {
  const messages = await readRange(nats, LEDGER_STREAM, after + 1, MATCHES_MAX, MATCH_SUBJECTS);
  const found = messages.flatMap(({ sequence, data }): Found[] => {
    const event = decodeLedgerEvent(data);
    return event.kind === 'match' ? [{ sequence, txHash: event.txHash }] : [];
  });
  const isAll = messages.length < MATCHES_MAX;
  const to = isAll ? last : (messages.at(-1)?.sequence ?? last);
  // What was stored since `last` was looked up is read: it is behind the cursor of the next call.
  return { to: Math.max(to, messages.at(-1)?.sequence ?? 0), found };
}
