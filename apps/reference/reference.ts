/**
 * `/openapi.json` is the OpenAPI document in version 3.1, which generators read; `/openapi-3.2.json` also describes the events
 * of streams. `/docs` is its viewer, the Scalar API reference. `/docs/streams` and so on are the
 * guides as HTML, `/docs/streams.md` as Markdown, and `/llms.txt` is a summary for language models (llmstxt.org). The viewer
 * loads nothing from other hosts: its fonts, telemetry, proxy and agent are switched off, and the Content-Security-Policy
 * allows no other origin. No path needs a key.
 */
import { readFileSync } from 'node:fs';
import type { RequestHandler } from 'express';
import { asDocument, type Mount } from '../../api/http/mount.ts';
import { Encoded, privateFor, send } from '../../api/http/response.ts';
import { asVersion31, type OpenApi } from '../../api/service/openapi.ts';
import { SERVER } from './code-samples.ts';
import { ENDPOINTS, OPEN_API } from './document.ts';
import { guideHtml, htmlPath } from './guide-html.ts';
import { GUIDES } from './guides.ts';
import { asset, htmlPage, STYLE, sends } from './html.ts';

const MAX_AGE_SECONDS = 300;

const VIEWER = import.meta.resolve('@scalar/fastify-api-reference');
const { version } = JSON.parse(readFileSync(new URL('../package.json', VIEWER), 'utf8'));

/** The name contains the version, so that browsers may cache the file forever. */
const VIEWER_PATH = `/assets/api-reference-${version}.js`;
const START = asset('viewer', 'js');

const policy = (...sources: readonly string[]) =>
  [
    ...["default-src 'none'", ...sources, "img-src 'self' data:"],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join('; ');

/** The viewer sets `style` attributes, which no nonce or hash can allow. */
const VIEWER_POLICY = policy(
  ...["script-src 'self'", "style-src 'self' 'unsafe-inline'", "connect-src 'self'"],
);
const GUIDE_POLICY = policy("style-src 'self'");

const PAGE = htmlPage(
  'API reference',
  'Reference',
  `<noscript>This page needs JavaScript to show <a href="/openapi.json">the OpenAPI document</a>.</noscript>
<div id="reference" data-placeholder="${SERVER}"></div>
<script src="${VIEWER_PATH}"></script>
<script type="module" src="${START.path}"></script>`,
);

const DOCUMENT = encodedDocument(asVersion31(OPEN_API));
const DOCUMENT_32 = encodedDocument(OPEN_API);
const DOCS = new Encoded('html', PAGE, privateFor(MAX_AGE_SECONDS));
const LLMS = new Encoded('text', llmsText(), privateFor(MAX_AGE_SECONDS));
let viewer: Promise<RequestHandler> | undefined;

const documentHandler: RequestHandler = async (request, response) => {
  await send(request, response, DOCUMENT);
};

const document32Handler: RequestHandler = async (request, response) => {
  await send(request, response, DOCUMENT_32);
};

const llmsHandler: RequestHandler = async (request, response) => {
  await send(request, response, LLMS);
};

const docsHandler: RequestHandler = async (request, response) => {
  response.set('Content-Security-Policy', VIEWER_POLICY);
  await send(request, response, DOCS);
};

/** Serves the viewer's script, which is loaded and compressed on first use. */
const viewerHandler: RequestHandler = async (request, response, next) => {
  viewer ??= viewerScript().then((script) => sends('js', Buffer.from(script)));
  await (await viewer)(request, response, next);
};

/**
 * The script that Scalar's plugin for Fastify would serve. That package contains the viewer as one file; `@scalar/api-reference`
 * has the same file, and 250 packages that we do not need.
 */
async function viewerScript(): Promise<string> {
  const { default: plugin } = await import('@scalar/fastify-api-reference');
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const reply = { header: () => reply, send: resolve };
  const route = ({ url, handler }: FastifyRoute) => {
    if (url.endsWith('.js')) handler(undefined, reply);
  };
  const options = { configuration: { url: '/openapi.json' } };
  plugin({ route }, options, () => reject(new Error('the viewer has no script')));
  return promise;
}

/** What we use of the routes that the plugin registers. */
type FastifyRoute = {
  readonly url: string;
  handler(request: undefined, reply: { header(): unknown; send(body: string): void }): unknown;
};

/** A guide at both of its paths. A browser that asks for the Markdown, for example by an old link, gets the HTML. */
const guideRoutes = GUIDES.map((guide): NonNullable<Mount['open']> => {
  const markdown = new Encoded('text', readFileSync(guide.source), privateFor(MAX_AGE_SECONDS));
  const html = new Encoded('html', guideHtml(guide), privateFor(MAX_AGE_SECONDS));
  const path = htmlPath(guide.path);
  return {
    [guide.path]: async (request, response) => {
      response.vary('Accept');
      if (request.accepts(['text', 'html']) === 'html') response.redirect(path);
      else await send(request, response, markdown);
    },
    [path]: [
      asDocument,
      async (request, response) => {
        response.set('Content-Security-Policy', GUIDE_POLICY);
        await send(request, response, html);
      },
    ],
  };
});

export const REFERENCE: Mount = {
  files: { [VIEWER_PATH]: viewerHandler, ...filesOf(START, STYLE) },
  open: {
    '/openapi.json': documentHandler,
    '/openapi-3.2.json': document32Handler,
    '/docs': [asDocument, docsHandler],
    ...Object.assign({}, ...guideRoutes),
    '/llms.txt': llmsHandler,
  },
};

function filesOf(...assets: readonly ReturnType<typeof asset>[]) {
  return Object.fromEntries(assets.map(({ path, handler }) => [path, handler]));
}

function encodedDocument(document: OpenApi): Encoded {
  return new Encoded('json', JSON.stringify(document), privateFor(MAX_AGE_SECONDS));
}

function llmsText(): string {
  const lines = ENDPOINTS.map(({ method = 'get', path, description }) => {
    return `- \`${method.toUpperCase()} ${path}\`: ${firstSentence(description)}`;
  });
  const { description, title } = OPEN_API.info;
  return `# ${title}

> Trader analytics and a resumable order stream of a prediction-market exchange.

[/openapi.json](/openapi.json) describes every parameter and field. [/docs](/docs) shows it to people.

${description}

## Endpoints

- \`GET /v1/stream/orders\`: every match when it is first seen, as server-sent events
- \`GET /streams/:id\`: the matches of a managed stream, as server-sent events
${lines.join('\n')}
`;
}

/** What the endpoint is for, in one line. */
function firstSentence(description: string): string {
  return description.replaceAll('\n', ' ').replace(/\. .*$/, '.');
}
