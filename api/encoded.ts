/**
 * An answer as bytes: encoded once, compressed at most once in each coding, however often it is
 * sent. Small answers are not compressed: that would cost more than it saves.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Request, Response } from 'express';

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);

const COMPRESSORS = {
  gzip: (body: Buffer) => gzipAsync(body, { level: 4 }),
  br: (body: Buffer) => brotliAsync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
};
type Coding = keyof typeof COMPRESSORS;

const COMPRESSED_BYTES_MIN = 1_024;

export class Encoded {
  readonly type: 'json' | 'html';
  readonly body: Buffer;
  /** How long a client may keep the answer, seconds; null = not at all. */
  readonly maxAgeSeconds: number | null;
  /** Weak, because it is the same in each coding; '' for an answer that is not kept. */
  readonly etag: string;
  readonly #compressed = new Map<Coding, Promise<Buffer>>();

  constructor(type: 'json' | 'html', text: string, maxAgeSeconds: number | null = null) {
    this.type = type;
    this.body = Buffer.from(text);
    this.maxAgeSeconds = maxAgeSeconds;
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

/** An answer as JSON; `maxAgeSeconds` as in Encoded. */
export function encodeJson(answer: unknown, maxAgeSeconds: number | null = null): Encoded {
  return new Encoded('json', JSON.stringify(answer), maxAgeSeconds);
}

/** Sends an answer in the coding that the client prefers; 304 where it has it already. */
export async function send(request: Request, response: Response, answer: Encoded): Promise<void> {
  response.type(answer.type).vary('Accept-Encoding');
  if (answer.maxAgeSeconds !== null) {
    response.set('Cache-Control', `private, max-age=${answer.maxAgeSeconds}`);
    response.set('ETag', answer.etag);
  }
  const coding = codingFor(request, answer);
  if (coding === undefined) {
    response.send(answer.body);
    return;
  }
  const body = await answer.compressed(coding);
  response.set('Content-Encoding', coding).send(body);
}

function codingFor(request: Request, answer: Encoded): Coding | undefined {
  if (answer.body.length < COMPRESSED_BYTES_MIN) return undefined;
  const preferred = request.acceptsEncodings('br', 'gzip', 'identity');
  return preferred === 'br' || preferred === 'gzip' ? preferred : undefined;
}

function etagOf(body: Buffer): string {
  return `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
}
