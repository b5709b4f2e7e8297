/**
 * The short way to an answer that is kept. A GET with a valid key, of a URL that was answered before, is
 * answered at once where the answer is fresh and made in the client's coding: with the same fields that
 * the ordinary way sets one by one, here written as one list. It is there for speed alone (ADR 14).
 * Whatever is otherwise (no rate left, a condition, an origin, a page to be read) goes on as it came.
 */
import type { Request, RequestHandler } from 'express';
import { knownCaller } from './admission.ts';
import {
  type Coding,
  codingOf,
  type Encoded,
  type Fields,
  fieldsOf,
  formatFor,
} from './encoded.ts';
import type { Context, Endpoint } from './endpoint.ts';
import type { Keys } from './keys.ts';
import type { Limits } from './limits.ts';
import { requestIdOf } from './problems.ts';
import type { Usage } from './usage.ts';

/** Answers what `endpoint` has at hand; `fixed` are the fields that every answer has. */
export function answerAtOnce<Call extends Context>(
  endpoint: Endpoint<Call>,
  shared: Omit<Call, keyof Context>,
  {
    keys,
    limits,
    usage,
    fixed,
  }: {
    readonly keys: Keys;
    readonly limits: Limits;
    readonly usage: Pick<Usage, 'count'>;
    readonly fixed: Fields;
  },
): RequestHandler {
  const headOf = rememberedHeads(fixed);
  return (request, response, next) => {
    const caller = isPlain(request) ? knownCaller(keys, request) : undefined;
    if (caller === undefined) return next();
    const url = request.originalUrl;
    const context: Context = { caller, signal: null };
    const call = { ...shared, ...context } as Call;
    const answer = endpoint.atHand(call, { url, format: formatFor(request) });
    if (answer === undefined) return next();
    const coding = codingOf(request, answer);
    const body = answer.madeBytes(coding);
    const rate =
      body === undefined ? undefined : limits.take({ name: caller.account, policy: caller.tier });
    if (rate === undefined) return next();
    usage.count(caller.account);
    response.locals.caller = caller;
    const id = requestIdOf(response);
    response.writeHead(200, [...headOf(answer, url, coding), 'X-Request-Id', id, ...rate]);
    response.end(body);
  };
}

/** Of one answer: URLs that mean the same, in each coding. */
const HEADS_MAX = 20;
/** Fields that change an answer to what it has at hand. */
const DECISIVE = ['if-none-match', 'if-modified-since', 'origin'] as const;

function isPlain({ method, headers }: Request): boolean {
  return method === 'GET' && DECISIVE.every((name) => headers[name] === undefined);
}

/** Name and value in turn of what an answer has each time, kept as long as the answer. */
function rememberedHeads(fixed: Fields) {
  const known = new WeakMap<Encoded, Map<string, readonly string[]>>();
  return (answer: Encoded, url: string, coding: Coding | undefined): readonly string[] => {
    const heads = known.get(answer) ?? new Map<string, readonly string[]>();
    const name = `${coding} ${url}`;
    const found = heads.get(name);
    if (found !== undefined) return found;
    if (heads.size >= HEADS_MAX) heads.clear();
    const made = headOf(fixed, answer, url, coding);
    known.set(answer, heads.set(name, made));
    return made;
  };
}

function headOf(fixed: Fields, answer: Encoded, url: string, coding: Coding | undefined) {
  const own = fieldsOf(answer, url, coding);
  const vary = [fixed.get('Vary'), own.get('Vary')].filter((value) => value !== undefined);
  const length = String(answer.madeBytes(coding)?.length);
  const fields = [...fixed, ...own, ['Vary', vary.join(', ')], ['Content-Length', length]] as const;
  return [...new Map(fields)].flat();
}
