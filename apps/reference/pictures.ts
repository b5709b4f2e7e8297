/**
 * `GET /pictures?url=…`: proxies profile images and market icons, so that the page contacts only this host. It needs no
 * key, because an <img> sends none. So it is restricted: only URLs of the operator's origins, no redirects, only known
 * image formats, and limits on size, time, concurrency and memory.
 */
import { createHash } from 'node:crypto';
import type { RequestHandler } from 'express';
import { LRUCache } from 'lru-cache';
import { Problem } from '../../api/http/errors.ts';
import type { Mount } from '../../api/http/mount.ts';
import { networkOf } from '../../api/http/network.ts';
import { boundedBody } from '../../infra/http-request.ts';
import { createCallerSlots, createSlots } from '../../infra/slots.ts';

export const PICTURE_PATH = '/pictures';

const URL_LENGTH_MAX = 1_000;
const BYTES_MAX = 2 * 1024 * 1024;
const CACHE_BYTES_MAX = 64 * 1024 * 1024;
/** Overhead per cache entry. */
const ENTRY_BYTES = 1_024;
const FETCHES_MAX = 8;
/** So that one address cannot take all turns. */
const FETCHES_OF_ADDRESS_MAX = 4;
/** More than the largest page shows. */
const WAITING_OF_ADDRESS_MAX = 200;
const WAIT_MS_MAX = 15_000;
const FETCH_MS_MAX = 5_000;
const KEPT_SECONDS = 86_400;
/** A failed picture is fetched again after this time. */
const MISSED_MS = 60_000;

type Picture = { readonly type: string; readonly etag: string; readonly bytes: Buffer };
const MISSED = 'missed';

/** `origins` are, for example, https://pictures.example. If there are none, every picture is a 404. */
export function pictureMount(origins: readonly string[]): Mount {
  return { files: { [PICTURE_PATH]: pictureHandler(origins) } };
}

export function pictureHandler(origins: readonly string[]): RequestHandler {
  const slots = createSlots(FETCHES_MAX);
  const addressSlots = createCallerSlots(FETCHES_OF_ADDRESS_MAX, WAITING_OF_ADDRESS_MAX);
  const cache = new LRUCache<string, Picture | typeof MISSED, string>({
    maxSize: CACHE_BYTES_MAX,
    sizeCalculation: (one) => ENTRY_BYTES + (one === MISSED ? 0 : one.bytes.length),
    ttl: KEPT_SECONDS * 1_000,
    async fetchMethod(url, _stale, { options, context: address }) {
      const waited = AbortSignal.timeout(WAIT_MS_MAX);
      let hasSlot = false;
      const fetched = () => {
        hasSlot = true;
        return load(url, AbortSignal.timeout(FETCH_MS_MAX));
      };
      const picture = await addressSlots(address, waited, () => slots(waited, fetched)).catch(
        () => undefined,
      );
      // Not cached: there may be such a picture.
      if (!hasSlot) return undefined;
      if (picture === undefined) options.ttl = MISSED_MS;
      return picture ?? MISSED;
    },
  });
  return async (request, response) => {
    const url = wanted(request.query.url);
    if (url === undefined || !origins.includes(url.origin)) throw missing();
    // It does not change the picture.
    url.hash = '';
    const picture = await cache.fetch(url.href, { context: networkOf(request.ip ?? '') });
    if (picture === undefined || picture === MISSED) throw missing();
    response.set('Cache-Control', `public, max-age=${KEPT_SECONDS}`).set('ETag', picture.etag);
    if (request.fresh) response.status(304).end();
    else response.set('Content-Type', picture.type).send(picture.bytes);
  };
}

function missing(): Problem {
  return new Problem({ error: 'not_found', detail: 'there is no such picture' });
}

function wanted(text: unknown): URL | undefined {
  if (typeof text !== 'string' || text.length > URL_LENGTH_MAX) return undefined;
  return URL.parse(text) ?? undefined;
}

/** Rejects if there is no response or it is too large; undefined if it is not a picture. */
async function load(url: string, signal: AbortSignal): Promise<Picture | undefined> {
  const response = await fetch(url, { signal, redirect: 'error', credentials: 'omit' });
  if (response.status !== 200) {
    await response.body?.cancel();
    return undefined;
  }
  const bytes = await boundedBody(response, BYTES_MAX);
  const type = typeOf(bytes);
  if (type === undefined) return undefined;
  return { type, bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` };
}

/** Detects the type by the first bytes, regardless of the host's Content-Type. SVG is excluded, because it can contain scripts. */
function typeOf(bytes: Buffer): string | undefined {
  const start = bytes.toString('latin1', 0, 12);
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (/^GIF8[79]a/.test(start)) return 'image/gif';
  if (/^RIFF.{4}WEBP/s.test(start)) return 'image/webp';
  if (/^.{4}ftypavi[fs]/s.test(start)) return 'image/avif';
  return undefined;
}
