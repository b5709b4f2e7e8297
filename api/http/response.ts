/**
 * Response bodies as bytes: JSON or CSV. A body is compressed once per coding, however often it is sent. A
 * long list is streamed while it is read, so it is never in memory as a whole. The first 64 KiB of a
 * streamed list are read before anything is sent: a short list becomes an ordinary response, and an
 * unavailable store still returns 503. A later failure cuts the connection, so no client mistakes a partial
 * response for a complete one.
 */
import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import type { z } from 'zod';
import { csvOf } from './csv.ts';

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);

const GZIP_OPTIONS = { level: 4 };
const BROTLI_OPTIONS = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };
/** Below this size, compression costs more than it saves. */
const COMPRESSED_BYTES_MIN = 1_024;
const AWAITED_CHARACTERS = 65_536;
const CHUNK_CHARACTERS = 16_384;

const COMPRESSORS = {
  gzip: {
    compress: (body: Buffer) => gzipAsync(body, GZIP_OPTIONS),
    stream: () => createGzip(GZIP_OPTIONS),
  },
  br: {
    compress: (body: Buffer) => brotliAsync(body, BROTLI_OPTIONS),
    stream: () => createBrotliCompress(BROTLI_OPTIONS),
  },
};
export type Coding = keyof typeof COMPRESSORS;
const OBJECTS_BYTES = 1_024;
const CODINGS = Object.keys(COMPRESSORS).length;

const CONTENT_TYPES = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  text: 'text/plain; charset=utf-8',
} as const;
type ContentType = keyof typeof CONTENT_TYPES;

/** The formats of a list. */
export type Format = 'json' | 'csv';

/** How a response body is encoded. */
export type Encoding = {
  readonly format: Format;
  readonly schema: z.ZodObject;
  /** The member that is a list; CSV contains nothing else. */
  readonly list: string | undefined;
  /** How long a client may use the response without revalidating, seconds; null = it may not cache it. */
  readonly maxAgeSeconds: number | null;
  /** Parent path of the resource that was created with the response's `id`; null if nothing was created. */
  readonly createdUnder: string | null;
  /** When the response was computed, milliseconds since the epoch; undefined: just now. */
  readonly asOfMs: number | undefined;
};

/** The values of headers about a list, or about a created resource. */
type ListHeaders = {
  /** `cursor` of the next page; '' on the last one. */
  readonly next: string;
  /** Elements on all pages; undefined if the response does not count them. */
  readonly totalCount: number | undefined;
  /** Whether `Accept` decides the format. */
  readonly isNegotiated: boolean;
  /** '' if nothing was created. */
  readonly location: string;
};
const NO_LIST: ListHeaders = {
  next: '',
  totalCount: undefined,
  isNegotiated: false,
  location: '',
};

export class Encoded {
  readonly kind = 'encoded';
  readonly type: ContentType;
  readonly body: Buffer;
  /** Undefined for a response that clients may not cache. */
  readonly cacheControl: string | undefined;
  readonly list: ListHeaders;
  /** Weak, because it is the same in every coding; '' for a response that clients may not cache. */
  readonly etag: string;
  /** When the response was computed, milliseconds since the epoch; undefined: just now. */
  readonly asOfMs: number | undefined;
  readonly #compressed = new Map<Coding, Promise<Buffer>>();
  /** The `Link` header for the URL of the last request. Clients that poll repeat their URL. */
  #link = { original: '', value: '' };

  constructor(
    type: ContentType,
    body: string | Buffer,
    cacheControl?: string | undefined,
    list: ListHeaders = NO_LIST,
    asOfMs?: number | undefined,
  ) {
    this.type = type;
    this.body = typeof body === 'string' ? unpooled(body) : body;
    this.cacheControl = cacheControl;
    this.list = list;
    this.asOfMs = asOfMs;
    this.etag = cacheControl === undefined ? '' : etagOf(this.body);
  }

  /** Maximum memory of the response in bytes: the plain body, each coding, and their objects. */
  get bytesMax(): number {
    const bodies = this.body.length < COMPRESSED_BYTES_MIN ? 1 : 1 + CODINGS;
    return OBJECTS_BYTES + bodies * this.body.length;
  }

  /** The `Link` header for a request of this URL, if the list has a next page. */
  linkFrom(original: string): string {
    if (this.#link.original !== original) {
      this.#link = { original, value: linkHeader(original, this.list.next) };
    }
    return this.#link.value;
  }

  /** The bytes in a coding; plain if it is undefined. */
  async bytes(coding: Coding | undefined): Promise<Buffer> {
    if (coding === undefined) return this.body;
    const known = this.#compressed.get(coding);
    if (known !== undefined) return await known;
    const compressed = COMPRESSORS[coding].compress(this.body).then(unpooled);
    this.#compressed.set(coding, compressed);
    return await compressed;
  }
}

/** Copies the bytes, because a short buffer in Node's pool would keep 64 KiB in memory. */
function unpooled(bytes: string | Buffer): Buffer {
  const own = Buffer.allocUnsafeSlow(Buffer.byteLength(bytes));
  if (typeof bytes === 'string') own.write(bytes);
  else bytes.copy(own);
  return own;
}

/** A long list that is encoded while it is sent. */
export type Streamed = {
  readonly kind: 'streamed';
  readonly type: Format;
  readonly list: ListHeaders;
  readonly chunks: AsyncIterable<string>;
};

/** `Cache-Control` that lets the client use a response for so long; 0 = it must revalidate each time. */
export function privateFor(seconds: number): string {
  return seconds === 0 ? 'private, no-cache' : `private, max-age=${seconds}`;
}

/** Encodes a response; `next` is the cursor of the next page. */
export function encode(answer: object, next: string, how: Encoding): Encoded {
  const { asOfMs, format, schema, list, maxAgeSeconds } = how;
  const cacheControl = maxAgeSeconds === null ? undefined : privateFor(maxAgeSeconds);
  const headers = listHeaders(answer, next, how);
  if (format === 'json' || list === undefined) {
    return new Encoded('json', JSON.stringify(answer), cacheControl, headers, asOfMs);
  }
  const { header, row } = csvOf(schema, list);
  const elements = (answer as Readonly<Record<string, readonly object[]>>)[list] ?? [];
  const rows = elements.map(row).join('');
  return new Encoded('csv', header + rows, cacheControl, headers, asOfMs);
}

/**
 * Encodes a response whose list is empty in `answer` and read from `elements`. Rejects with the
 * errors of `elements`.
 */
export async function encodeStream(
  answer: object,
  elements: AsyncIterable<object>,
  next: string,
  how: Encoding,
): Promise<Encoded | Streamed> {
  const list = listHeaders(answer, next, how);
  const texts = how.format === 'csv' ? csvTexts(elements, how) : jsonTexts(answer, elements, how);
  const chunks = grouped(texts);
  let awaited = '';
  while (awaited.length < AWAITED_CHARACTERS) {
    const { done, value } = await chunks.next();
    if (done) return new Encoded(how.format, awaited, undefined, list);
    awaited += value;
  }
  return { kind: 'streamed', type: how.format, list, chunks: joined(awaited, chunks) };
}

/**
 * Sends a response in the coding that the client prefers, or 304 if the client already has it.
 * Rejects if a streamed list cannot be read completely or the client disconnects.
 */
export async function send(
  request: Request,
  response: Response,
  answer: Encoded | Streamed,
): Promise<void> {
  const coding = codingFor(request);
  if (answer.kind === 'streamed') {
    await sendStreamed(request, response, answer, coding);
    return;
  }
  const isCompressed = coding !== undefined && answer.body.length >= COMPRESSED_BYTES_MIN;
  const body = await answer.bytes(isCompressed ? coding : undefined);
  setHeaders(request, response, answer, isCompressed ? coding : undefined);
  if (answer.cacheControl !== undefined) {
    response.setHeader('Cache-Control', answer.cacheControl);
    response.setHeader('ETag', answer.etag);
    // A browser keeps it, and another key may be of another tier.
    if (answer.cacheControl.startsWith('private')) response.vary('X-Service-Key');
  }
  if (answer.asOfMs !== undefined) {
    const seconds = Math.max(0, Math.floor((Date.now() - answer.asOfMs) / 1_000));
    response.setHeader('Age', String(seconds));
  }
  response.send(body);
}

async function sendStreamed(
  request: Request,
  response: Response,
  answer: Streamed,
  coding: Coding | undefined,
): Promise<void> {
  setHeaders(request, response, answer, coding);
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  await (coding === undefined
    ? pipeline(answer.chunks, response)
    : pipeline(answer.chunks, COMPRESSORS[coding].stream(), response));
}

/** The coding that the client prefers; undefined for none. */
export function codingFor(request: Request): Coding | undefined {
  const preferred = request.acceptsEncodings('br', 'gzip', 'identity');
  return preferred === 'br' || preferred === 'gzip' ? preferred : undefined;
}

/** The format that the client prefers for a list. */
export function formatFor(request: Request): Format {
  return request.accepts(['json', 'csv']) === 'csv' ? 'csv' : 'json';
}

function setHeaders(
  request: Request,
  response: Response,
  answer: Encoded | Streamed,
  coding: Coding | undefined,
): void {
  const { type, list } = answer;
  response.setHeader('Content-Type', CONTENT_TYPES[type]);
  response.vary(list.isNegotiated ? 'Accept, Accept-Encoding' : 'Accept-Encoding');
  if (list.totalCount !== undefined) {
    response.setHeader('X-Total-Count', String(list.totalCount));
  }
  if (list.next !== '') {
    const { originalUrl } = request;
    const isEncoded = answer.kind === 'encoded';
    const link = isEncoded ? answer.linkFrom(originalUrl) : linkHeader(originalUrl, list.next);
    response.setHeader('Link', link);
  }
  if (list.location !== '') response.setHeader('Location', list.location);
  if (coding !== undefined) response.setHeader('Content-Encoding', coding);
}

function listHeaders(answer: object, next: string, how: Encoding): ListHeaders {
  const totalCount = 'total_count' in answer ? Number(answer.total_count) : undefined;
  const isCreated = how.createdUnder !== null && 'id' in answer;
  const location = isCreated ? `${how.createdUnder}/${answer.id}` : '';
  return { next, totalCount, isNegotiated: how.list !== undefined, location };
}

/** Links to the same URL with `cursor`, which is the next page. */
function linkHeader(original: string, cursor: string): string {
  const url = new URL(original, 'http://localhost');
  url.searchParams.delete('offset');
  url.searchParams.set('cursor', cursor);
  return `<${url.pathname}${url.search}>; rel="next"`;
}

function etagOf(body: Buffer): string {
  return `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
}

async function* jsonTexts(answer: object, elements: AsyncIterable<object>, { list }: Encoding) {
  const { [list ?? '']: _, ...rest } = answer as Readonly<Record<string, unknown>>;
  const head = JSON.stringify(rest).slice(0, -1);
  let opening = `${head}${head === '{' ? '' : ','}${JSON.stringify(list)}:[`;
  for await (const element of elements) {
    yield opening + JSON.stringify(element);
    opening = ',';
  }
  yield opening === ',' ? ']}' : `${opening}]}`;
}

async function* csvTexts(elements: AsyncIterable<object>, { schema, list }: Encoding) {
  const { header, row } = csvOf(schema, list ?? '');
  yield header;
  for await (const element of elements) yield row(element);
}

/** The same texts in larger chunks. */
async function* grouped(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  let chunk = '';
  for await (const text of texts) {
    chunk += text;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk !== '') yield chunk;
}

async function* joined(first: string, rest: AsyncIterable<string>) {
  yield first;
  yield* rest;
}
