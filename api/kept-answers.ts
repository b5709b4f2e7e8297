/**
 * The short way to an answer that is kept. A GET with a valid key, of a URL that was answered before, is
 * answered at once where the answer is fresh and made in the client's coding: with the same fields that
 * the ordinary way sets one by one, here put together once. It is there for speed alone (ADR 14).
 * Whatever is otherwise (no rate left, a condition, an origin, a page to be read) goes on as it came.
 */
import { type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { knownCaller } from './auth/authenticate.ts';
import type { Keys } from './auth/keys.ts';
import type { Limits } from './auth/rate-limit.ts';
import type { Usage } from './auth/usage.ts';
import type { Context, Endpoint } from './endpoint.ts';
import { requestIdOf } from './errors.ts';
import {
  type Coding,
  codingOf,
  type Encoded,
  type Fields,
  fieldsOf,
  formatFor,
} from './response.ts';

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
    const length = String(body?.length);
    const own = ['Content-Length', length, 'X-Request-Id', requestIdOf(response), ...rate];
    writeHead(response, headOf(answer, url, coding), own);
    response.end(body);
  };
}

/**
 * Writes the line of the status and fields that are proved, and proves and writes the others; writeHead
 * proves and joins all of them each time (ADR 14). It is the method that writeHead itself calls, which
 * Node does not document.
 */
function writeHead(response: ServerResponse, proved: string, others: readonly string[]): void {
  const { _storeHeader: store } = response as ServerResponse & {
    readonly _storeHeader: (begin: string, fields: readonly string[]) => void;
  };
  store.call(response, proved, others);
}

/** Of one answer: URLs that mean the same. */
const HEADS_MAX = 20;
/** Fields that change an answer to what it has at hand. */
const DECISIVE = ['if-none-match', 'if-modified-since', 'origin'] as const;

function isPlain({ method, headers }: Request): boolean {
  return method === 'GET' && DECISIVE.every((name) => headers[name] === undefined);
}

/** What the head of an answer has each time, by URL and coding, kept as long as the answer. */
function rememberedHeads(fixed: Fields) {
  type Heads = Partial<Record<Coding | 'plain', string>>;
  const known = new WeakMap<Encoded, Map<string, Heads>>();
  return (answer: Encoded, url: string, coding: Coding | undefined): string => {
    const ofAnswer = known.get(answer) ?? new Map<string, Heads>();
    const heads = ofAnswer.get(url) ?? {};
    const found = heads[coding ?? 'plain'];
    if (found !== undefined) return found;
    if (ofAnswer.size >= HEADS_MAX) ofAnswer.clear();
    const made = headOf(fixed, answer, url, coding);
    heads[coding ?? 'plain'] = made;
    known.set(answer, ofAnswer.set(url, heads));
    return made;
  };
}

/** Throws TypeError for what may not stand in a field. */
function headOf(fixed: Fields, answer: Encoded, url: string, coding: Coding | undefined): string {
  const own = fieldsOf(answer, url, coding);
  const vary = [fixed.get('Vary'), own.get('Vary')].filter((value) => value !== undefined);
  const fields = new Map([...fixed, ...own, ['Vary', vary.join(', ')] as const]);
  for (const [name, value] of fields) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
  const lines = [...fields].map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 200 OK\r\n${lines.join('')}`;
}
