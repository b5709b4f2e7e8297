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

/** Header fields by name. */
export type Fields = ReadonlyMap<string, string>;

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
  readonly #coded = new Map<Coding, Buffer | Promise<Buffer>>();

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

  /** The bytes in a coding, plain where it is undefined. */
  async bytes(coding: Coding | undefined): Promise<Buffer> {
    if (coding === undefined) return this.body;
    const known = this.#coded.get(coding);
    if (known !== undefined) return await known;
    const coded = COMPRESSORS[coding](this.body);
    this.#coded.set(coding, coded);
    const bytes = await coded;
    this.#coded.set(coding, bytes);
    return bytes;
  }

  /** The same without waiting; undefined where they are not made yet. */
  madeBytes(coding: Coding | undefined): Buffer | undefined {
    if (coding === undefined) return this.body;
    const known = this.#coded.get(coding);
    return known instanceof Promise ? undefined : known;
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
  const coding = codingOf(request, answer);
  const body = await answer.bytes(coding);
  setFields(response, fieldsOf(answer, request.originalUrl, coding));
  response.send(body);
}

/** The coding in which the client of a request gets this answer; undefined for none. */
export function codingOf(request: Request, answer: Encoded): Coding | undefined {
  return answer.body.length < COMPRESSED_BYTES_MIN ? undefined : codingFor(request);
}

/** The fields of an answer to a request with this URL, but for its length. */
export function fieldsOf(answer: Encoded, url: string, coding: Coding | undefined): Fields {
  const fields = fieldsOfList(answer.type, answer.fields, url);
  if (answer.maxAgeSeconds !== null) {
    fields.set('Cache-Control', `private, max-age=${answer.maxAgeSeconds}`);
    fields.set('ETag', answer.etag);
  }
  if (coding !== undefined) fields.set('Content-Encoding', coding);
  return fields;
}

/** The fields that an answer has whichever way it is sent. */
export function fieldsOfList(
  type: Encoded['type'],
  { next, totalCount, isNegotiated }: ListFields,
  url: string,
): Map<string, string> {
  const fields = new Map([
    ['Content-Type', TYPES[type]],
    ['Vary', isNegotiated ? 'Accept, Accept-Encoding' : 'Accept-Encoding'],
  ]);
  if (totalCount !== undefined) fields.set('X-Total-Count', String(totalCount));
  if (next !== '') fields.set('Link', `<${pageUrl(url, next)}>; rel="next"`);
  return fields;
}

/** Sets fields over those that are set; what the answer varies with is added. */
export function setFields(response: Response, fields: Fields): void {
  for (const [name, value] of fields) {
    if (name === 'Vary') response.vary(value);
    else response.setHeader(name, value);
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
