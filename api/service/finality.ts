/**
 * `GET /v2/final_matches`: the transactions that became final after a cursor, read from LEDGER. The order
 * feed shows matches before their block, and its readers learn here which of them are final. The newest
 * block is read at most once a second, except for a cursor beyond it. Clients with the same cursor share one read.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';
import { eventsOf, messageAt, newestMessage, storedMessages } from '../../ingest/ledger/ledger.ts';
import { type Context, type Endpoint, endpoint } from '../http/endpoint.ts';
import { integer } from '../http/parameters.ts';

type FinalityCall = Context & { readonly finalMatches: (after?: number) => Promise<Answer> };

const MATCHES_MAX = 2_048;
const NEWEST_AGE_MS_MAX = 1_000;
const ANSWERS_MAX = 64;

const Answer = z.object({
  tx_hashes: z.array(z.string()).meta({
    description: `transactions with a final match after the cursor, in chain order; whole blocks, at most ${MATCHES_MAX} transactions unless a single block has more; a transaction with several matches is repeated`,
    examples: [[`0x${'5f'.repeat(32)}`]],
  }),
  next: z
    .int()
    .min(0)
    .meta({
      description: 'cursor for the next call: the last block delivered',
      examples: [85_671_003],
    }),
  more: z.boolean().meta({ description: 'whether more is available now', examples: [false] }),
  restarted: z.boolean().meta({
    description: 'true if the cursor was unknown or expired, so the list restarts at the present',
    examples: [false],
  }),
});
type Answer = z.output<typeof Answer>;

export const FINALITY_ENDPOINTS: readonly Endpoint<FinalityCall>[] = [
  endpoint({
    name: 'finalMatches',
    path: '/v2/final_matches',
    summary: 'Transactions whose matches became final',
    description:
      'Without `after`, the list is empty and `next` is the current cursor. A match of the order feed is final once its transaction is in this list, seconds after the feed delivered it.',
    parameters: z.object({
      after: integer(0, Number.MAX_SAFE_INTEGER)
        .optional()
        .describe('`next` of the previous response; default: start now'),
    }),
    answer: Answer,
    problems: [],
    run: ({ finalMatches }: FinalityCall, { after }) => finalMatches(after),
  }),
];

type Newest = { readonly sequence: number; readonly to: number };

/** Reads LEDGER for all calls of the endpoint. */
export function createFinalMatches(nats: Nats): FinalityCall['finalMatches'] {
  const newest = new LRUCache<'newest', Newest>({
    max: 1,
    ttl: NEWEST_AGE_MS_MAX,
    fetchMethod: () => readNewest(nats),
  });
  const answers = new LRUCache<string, Answer, { readonly after: number; readonly to: number }>({
    max: ANSWERS_MAX,
    fetchMethod: (_key, _stale, { context }) => readAnswer(nats, context.after, context.to),
    // Eviction must not fail the requests that wait for the answer.
    ignoreFetchAbort: true,
  });
  return async (after) => {
    let known = await newest.forceFetch('newest');
    // Another process may have read a newer block.
    if (after !== undefined && after > known.to) {
      known = await newest.forceFetch('newest', { forceRefresh: true });
    }
    const { sequence, to } = known;
    const present = { tx_hashes: [], next: to, more: false, restarted: false };
    if (after === undefined || after === to) return present;
    if (after > to) return { ...present, restarted: true };
    return await answers.forceFetch(`${after} ${sequence}`, { context: { after, to } });
  };
}

async function readNewest(nats: Nats): Promise<Newest> {
  const newest = await newestMessage(nats);
  if (newest?.range.kind !== 'blocks') return { sequence: newest?.sequence ?? 0, to: 0 };
  return { sequence: newest.sequence, to: newest.range.to };
}

/** As many blocks after a cursor as fit; `to` is the newest block. */
async function readAnswer(nats: Nats, after: number, to: number): Promise<Answer> {
  const first = await messageAt(nats, after + 1);
  if (first === undefined) return { tx_hashes: [], next: to, more: false, restarted: true };
  const hashes: string[] = [];
  let next = after;
  for await (const { range } of storedMessages(nats, { sequence: first.sequence })) {
    if (range.kind !== 'blocks') continue;
    for (const block of range.blocks) {
      const { number } = block;
      if (number <= after) continue;
      const matches = eventsOf('matches', [block]);
      if (hashes.length > 0 && hashes.length + matches.length > MATCHES_MAX) {
        return { tx_hashes: hashes, next, more: true, restarted: false };
      }
      hashes.push(...matches.map(({ txHash }) => txHash));
      next = number;
    }
    next = range.to;
    if (next >= to) break;
  }
  return { tx_hashes: hashes, next, more: next < to, restarted: false };
}
