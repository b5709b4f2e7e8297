/**
 * One POST to a chain node and the text of its answer. Node's own client and not fetch, which copies what it
 * reads twice and makes a stream of its own: half a second of processor time in the 320 MB of a catch-up.
 * Connections are kept and used again; redirects are not followed.
 */
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';

export type HttpAnswer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Empty unless the status is 200. */
  readonly text: string;
};

export type PostOptions = { readonly signal: AbortSignal; readonly bytesMax: number };

/** The answer is longer than was allowed. */
export class TooLongError extends Error {}

/** Rejects when the connection fails or breaks, when the signal aborts, and with TooLongError. */
export async function post(
  url: URL,
  json: string,
  { signal, bytesMax }: PostOptions,
): Promise<HttpAnswer> {
  const response = await send(url, json, signal);
  const { statusCode: status = 0, headers } = response;
  if (status === 200) return { status, headers, text: await textOf(unpacked(response), bytesMax) };
  response.resume();
  return { status, headers, text: '' };
}

function send(url: URL, json: string, signal: AbortSignal): Promise<IncomingMessage> {
  const body = Buffer.from(json);
  const headers = {
    'content-type': 'application/json',
    'content-length': body.length,
    'accept-encoding': 'gzip, br',
  };
  const { request } = url.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    request(url, { method: 'POST', headers, signal }, resolve).on('error', reject).end(body);
  });
}

function unpacked(response: IncomingMessage): Readable {
  const encoding = response.headers['content-encoding'];
  // What breaks before the end breaks the unpacked stream as well, where it is read.
  if (encoding === 'gzip') return pipeline(response, createGunzip(), () => undefined);
  if (encoding === 'br') return pipeline(response, createBrotliDecompress(), () => undefined);
  return response;
}

async function textOf(stream: Readable, bytesMax: number): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > bytesMax) throw new TooLongError(`more than ${bytesMax} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts, bytes).toString();
}
