/**
 * A long answer that is sent while it is read, so that its size costs no memory. Its first 64 KiB
 * are awaited before anything is sent: a short answer is an ordinary one, and a store that does not
 * answer at all is still a 503. Behind that, a failure can only cut the connection, which a client
 * sees as an answer without its end.
 */
import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliCompress, createGzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { csvOf } from './csv.ts';
import {
  BROTLI_OPTIONS,
  type Coding,
  codingFor,
  Encoded,
  type Encoding,
  type Format,
  fieldsOfList,
  GZIP_OPTIONS,
  type ListFields,
  listFields,
  setFields,
} from './response.ts';

const AWAITED_CHARACTERS = 65_536;
const CHUNK_CHARACTERS = 16_384;

const COMPRESSORS: Readonly<Record<Coding, () => Transform>> = {
  gzip: () => createGzip(GZIP_OPTIONS),
  br: () => createBrotliCompress(BROTLI_OPTIONS),
};

export type Streamed = {
  readonly kind: 'streamed';
  readonly type: Format;
  readonly fields: ListFields;
  readonly chunks: AsyncIterable<string>;
};

/** `answer` has its list empty; `elements` are what is in it. Throws what the elements throw. */
export async function beginStream(
  answer: object,
  elements: AsyncIterable<object>,
  next: string,
  how: Encoding,
): Promise<Encoded | Streamed> {
  const fields = listFields(answer, next, how);
  const texts = how.format === 'csv' ? csvTexts(elements, how) : jsonTexts(answer, elements, how);
  const chunks = grouped(texts);
  let awaited = '';
  while (awaited.length < AWAITED_CHARACTERS) {
    const { done, value } = await chunks.next();
    if (done) return new Encoded(how.format, awaited, null, fields);
    awaited += value;
  }
  return { kind: 'streamed', type: how.format, fields, chunks: joined(awaited, chunks) };
}

/** Sends it to the end. Rejects where it cannot be read or the client goes away. */
export async function sendStream(
  request: Request,
  response: Response,
  { type, fields, chunks }: Streamed,
): Promise<void> {
  setFields(response, fieldsOfList(type, fields, request.originalUrl));
  const coding = codingFor(request);
  if (coding !== undefined) response.set('Content-Encoding', coding);
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  const source = Readable.from(chunks, { objectMode: true });
  await (coding === undefined
    ? pipeline(source, response)
    : pipeline(source, COMPRESSORS[coding](), response));
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

/** The same texts in fewer pieces. */
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
