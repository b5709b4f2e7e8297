/**
 * The web page (`web`), bundled once at startup, kept in memory in both codings, and served next to
 * the API. Nothing is written to disk, so there is no build step to forget. Scripts, styles and fonts
 * have a hash in their names and are cached forever; the document is revalidated. Loading it needs no key:
 * the page asks the user for one, unless reading needs none.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build, stop } from 'esbuild';
import type { Request, RequestHandler, Response } from 'express';
import { Problem } from '../api/http/errors.ts';
import { asDocument, type Mount } from '../api/http/mount.ts';
import { codingFor } from '../api/http/response.ts';
import { foreignRequest, isLoopback } from '../infra/loopback.ts';
import { VIEWS } from './web/views.ts';

const WEB = join(import.meta.dirname, 'web');
const ASSETS = '/assets/';
/** At the root, because a service worker only serves pages below its own path. */
const WORKER = 'push-worker.js';

/** Allows only this host, and no inline script or style. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "font-src 'self'", "img-src 'self' data:"],
  ...[
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ],
].join('; ');

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
/** Formats that are already compressed. */
const COMPRESSED_TYPES = new Set(['.woff2']);
const FOREVER = 'public, max-age=31536000, immutable';

type File = {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly coded: Readonly<Partial<Record<'br' | 'gzip', Buffer>>>;
};

export type Page = {
  /** The document with placeholders, which `documentOf` fills in. */
  readonly template: string;
  readonly assets: ReadonlyMap<string, File>;
  /** The service worker, which shows push notifications. */
  readonly worker: File;
};

/** Facts about the service that the document passes to the page. */
export type PageFacts = {
  /** Whether reading needs no key. */
  readonly isPublic: boolean;
  /** For browsers on this machine; undefined: the page has no key of its own. */
  readonly pageKey: string | undefined;
  /** Whether all data comes from the devnet. */
  readonly isSimulated: boolean;
  /** Origins of pictures that the api serves; they contain no HTML characters. */
  readonly pictureOrigins: readonly string[];
};

let page: Promise<Page> | undefined;

/** The bundled page; the first call of the process bundles it. */
export function pageOnce(): Promise<Page> {
  page ??= bundle();
  return page;
}

export function documentOf(page: Page, facts: PageFacts): Promise<File> {
  const { isPublic, isSimulated, pageKey = '', pictureOrigins } = facts;
  const html = page.template
    .replace('{{public_tier}}', isPublic ? 'demo' : 'none')
    .replace('{{page_key}}', pageKey)
    .replace('{{simulated}}', isSimulated ? 'yes' : 'no')
    .replace('{{picture_origins}}', pictureOrigins.join(','));
  return compressed(Buffer.from(html), '.html');
}

export function pageMount(facts: PageFacts): Mount {
  const page = pageHandler(facts);
  return {
    ready: pageOnce,
    files: { [`${ASSETS}:name`]: assetHandler, [`/${WORKER}`]: workerHandler },
    open: Object.fromEntries(VIEWS.map(({ path }) => [path, [asDocument, page]])),
    // The page shows the 404 itself.
    unknown: (request, response, next) =>
      asDocument(request, response, () => page(request, response, next)),
  };
}

function pageHandler(facts: PageFacts): RequestHandler {
  const documents = new Map<string | undefined, Promise<File>>();
  return async (request, response) => {
    const pageKey = isOfThisMachine(request) ? facts.pageKey : undefined;
    let document = documents.get(pageKey);
    document ??= pageOnce().then((page) => documentOf(page, { ...facts, pageKey }));
    documents.set(pageKey, document);
    const file = await document;
    response.set('Content-Security-Policy', CONTENT_SECURITY_POLICY);
    // A cache must not keep a key.
    if (pageKey === undefined) response.set('Cache-Control', 'no-cache').set('ETag', file.etag);
    if (pageKey === undefined && request.fresh) response.status(304).end();
    else sendFile(response, file, codingFor(request));
  };
}

/** Headers of a proxy, behind which a browser elsewhere seems to be on this machine. */
const FORWARDED = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip'];

/** Whether a browser on this machine sends the request, and neither a page of another site nor a proxy. */
function isOfThisMachine({ headers, socket }: Request): boolean {
  const address = socket.remoteAddress?.replace(/^::ffff:/, '') ?? '';
  const isForwarded = FORWARDED.some((name) => headers[name] !== undefined);
  return isLoopback(address) && !isForwarded && foreignRequest(headers) === undefined;
}

const assetHandler: RequestHandler = async (request, response) => {
  const { assets } = await pageOnce();
  const file = assets.get(String(request.params.name));
  if (file === undefined) {
    throw new Problem({ error: 'not_found', detail: 'the page has no such file' });
  }
  response.set('Cache-Control', FOREVER);
  sendFile(response, file, codingFor(request));
};

/** Browsers look for a new version by its path, so it has no hash in its name. */
const workerHandler: RequestHandler = async (request, response) => {
  const { worker } = await pageOnce();
  response.set('Cache-Control', 'no-cache').set('ETag', worker.etag);
  if (request.fresh) response.status(304).end();
  else sendFile(response, worker, codingFor(request));
};

function sendFile(response: Response, file: File, coding: 'br' | 'gzip' | undefined): void {
  const coded = coding === undefined ? undefined : file.coded[coding];
  response.set('Content-Type', file.type).vary('Accept-Encoding');
  if (coded === undefined) response.send(file.plain);
  else response.set('Content-Encoding', String(coding)).send(coded);
}

/** Rejects with esbuild's error if the sources are broken. */
async function bundle(): Promise<Page> {
  const { outputFiles } = await build({
    entryPoints: [join(WEB, 'main.tsx')],
    outdir: WEB,
    bundle: true,
    write: false,
    minify: true,
    format: 'esm',
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    publicPath: ASSETS,
    loader: { '.woff2': 'file', '.svg': 'file' },
    legalComments: 'none',
    logLevel: 'silent',
  });
  // Otherwise esbuild's child process would keep running.
  await stop();
  const files = await Promise.all(
    outputFiles.map(async ({ path, contents }) => {
      const name = basename(path);
      return [name, await compressed(Buffer.from(contents), extname(name))] as const;
    }),
  );
  const assets = new Map(files);
  const named = (ending: string) => {
    const name = [...assets.keys()].find((asset) => asset.endsWith(ending));
    if (name === undefined) throw new Error(`the page has no ${ending} file`);
    return ASSETS + name;
  };
  const template = (await readFile(join(WEB, 'index.html'), 'utf8'))
    .replaceAll('{{script}}', named('.js'))
    .replaceAll('{{style}}', named('.css'))
    .replaceAll('{{font}}', named('.woff2'))
    .replaceAll('{{icon}}', named('.svg'));
  const worker = await compressed(await readFile(join(WEB, WORKER)), '.js');
  return { template, assets, worker };
}

async function compressed(plain: Buffer, extension: string): Promise<File> {
  const type = TYPES[extension];
  if (type === undefined) throw new Error(`the page has a file of unknown type ${extension}`);
  const etag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
  if (COMPRESSED_TYPES.has(extension)) return { type, etag, plain, coded: {} };
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(plain, { params }),
    promisify(gzip)(plain, { level: 9 }),
  ]);
  return { type, etag, plain, coded: { br, gzip: gz } };
}
