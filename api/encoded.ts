/**
 * An answer as bytes: encoded once, compressed at most once in each coding, however often it is
 * sent. Small answers are not compressed: that would cost more than it saves.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import type { z } from 'zod';
import { csvOf } from './csv.ts';

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);

export const GZIP_OPTIONS = { level: 4 };
export const BROTLI_OPTIONS = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

const COMPRESSORS = {
  gzip: (body: Buffer) => gzipAsync(body, GZIP_OPTIONS),
  br: (body: Buffer) => brotliAsync(body, BROTLI_OPTIONS),
};
export type Coding = keyof typeof COMPRESSORS;
/** What a list can be asked for as. */
export type Format = 'json' | 'csv';

/** How an answer becomes bytes. */
export type Encoding = {
  readonly format: Format;
  readonly schema: z.ZodObject;
  /** The answer's list, which is what CSV has. */
  readonly list: string | undefined;
  /** How long a client may keep the answer, seconds; null = not at all. */
  readonly maxAgeSeconds: number | null;
};

/** What stands in the header of an answer with a list. */
export type ListFields = {
  /** `cursor` of the next page; '' where there is none. */
  readonly next: string;
  /** Elements on all pages; undefined where the answer does not tell. */
  readonly totalCount: number | undefined;
  /** Whether the client's `Accept` decided the format. */
  readonly isNegotiated: boolean;
};
const NO_LIST: ListFields = { next: '', totalCount: undefined, isNegotiated: false };

const COMPRESSED_BYTES_MIN = 1_024;

export class Encoded {
  readonly kind = 'encoded';
  readonly type: Format | 'html';
  readonly body: Buffer;
  readonly maxAgeSeconds: number | null;
  readonly fields: ListFields;
  /** Weak, because it is the same in each coding; '' for an answer that is not kept. */
  readonly etag: string;
  readonly #compressed = new Map<Coding, Promise<Buffer>>();

  constructor(
    type: Format | 'html',
    text: string,
    maxAgeSeconds: number | null = null,
    fields: ListFields = NO_LIST,
  ) {
    this.type = type;
    this.body = Buffer.from(text);
    this.maxAgeSeconds = maxAgeSeconds;
    this.fields = fields;
    this.etag = maxAgeSeconds === null ? '' : etagOf(this.body);
  }

  /** The bytes in a coding. */
  compressed(coding: Coding): Promise<Buffer> {
    const known = this.#compressed.get(coding);
    if (known !== undefined) return known;
    const compressed = COMPRESSORS[coding](this.body);
    this.#compressed.set(coding, compressed);
    return compressed;
  }
}

/** An answer, `next` being the cursor of the next page of its list. */
export function encode(answer: object, next: string, how: Encoding): Encoded {
  const { format, schema, list, maxAgeSeconds } = how;
  const fields = listFields(answer, next, how);
  if (format === 'json' || list === undefined) {
    return new Encoded('json', JSON.stringify(answer), maxAgeSeconds, fields);
  }
  const { header, row } = csvOf(schema, list);
  const elements = (answer as Readonly<Record<string, readonly object[]>>)[list] ?? [];
  return new Encoded('csv', header + elements.map(row).join(''), maxAgeSeconds, fields);
}

export function listFields(answer: object, next: string, { list }: Encoding): ListFields {
  const total = 'total_count' in answer ? Number(answer.total_count) : undefined;
  return { next, totalCount: total, isNegotiated: list !== undefined };
}

/** Sends an answer in the coding that the client prefers; 304 where it has it already. */
export async function send(request: Request, response: Response, answer: Encoded): Promise<void> {
  setFields(request, response, answer.type, answer.fields);
  if (answer.maxAgeSeconds !== null) {
    response.setHeader('Cache-Control', `private, max-age=${answer.maxAgeSeconds}`);
    response.setHeader('ETag', answer.etag);
  }
  const coding = answer.body.length < COMPRESSED_BYTES_MIN ? undefined : codingFor(request);
  if (coding === undefined) {
    response.send(answer.body);
    return;
  }
  const body = await answer.compressed(coding);
  response.setHeader('Content-Encoding', coding);
  response.send(body);
}

/** The fields that an answer has whichever way it is sent. */
export function setFields(
  request: Request,
  response: Response,
  type: Encoded['type'],
  { next, totalCount, isNegotiated }: ListFields,
): void {
  response.setHeader('Content-Type', TYPES[type]);
  const vary = isNegotiated ? 'Accept, Accept-Encoding' : 'Accept-Encoding';
  if (response.hasHeader('Vary')) response.vary(vary);
  else response.setHeader('Vary', vary);
  if (totalCount !== undefined) response.setHeader('X-Total-Count', String(totalCount));
  if (next !== '') {
    response.setHeader('Link', `<${pageUrl(request.originalUrl, next)}>; rel="next"`);
  }
}

const TYPES = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  html: 'text/html; charset=utf-8',
} as const;

/** The coding that the client prefers; undefined for none. */
export const codingFor = byHeader('accept-encoding', undefined, (request): Coding | undefined => {
  const preferred = request.acceptsEncodings('br', 'gzip', 'identity');
  return preferred === 'br' || preferred === 'gzip' ? preferred : undefined;
});

/** What the client would rather have of a list. */
export const formatFor = byHeader(
  'accept',
  'json',
  (request): Format => (request.accepts(['json', 'csv']) === 'csv' ? 'csv' : 'json'),
);

const HEADERS_MAX = 200;
const HEADER_CHARACTERS_MAX = 200;

/** What `read` gives of a request by one field alone, remembered for the values that are common. */
function byHeader<Value>(
  name: 'accept' | 'accept-encoding',
  without: Value,
  read: (request: Request) => Value,
): (request: Request) => Value {
  const known = new Map<string, Value>();
  return (request) => {
    const header = request.headers[name];
    if (header === undefined) return without;
    if (known.has(header)) return known.get(header) as Value;
    const value = read(request);
    if (known.size >= HEADERS_MAX) known.clear();
    if (header.length <= HEADER_CHARACTERS_MAX) known.set(header, value);
    return value;
  };
}

/** The URL of a request, for the page behind `cursor`. */
function pageUrl(original: string, cursor: string): string {
  const url = new URL(original, 'http://localhost');
  url.searchParams.delete('offset');
  url.searchParams.set('cursor', cursor);
  return url.pathname + url.search;
}

function etagOf(body: Buffer): string {
  return `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
}
