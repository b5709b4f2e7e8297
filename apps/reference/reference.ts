/**
 * `/openapi.json` is the OpenAPI document in version 3.1, which generators read; `/openapi-3.2.json` also describes the events
 * of streams. `/docs` is its viewer, the Scalar API reference, served from its npm package.
 * `/docs/…` are the guides as plain Markdown, and `/llms.txt` is a summary for language models (llmstxt.org). The viewer
 * loads nothing from other hosts: its fonts, telemetry, proxy and agent are switched off, and the Content-Security-Policy
 * allows no other origin. No path needs a key.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { RequestHandler } from 'express';
import { asDocument, type Mount } from '../../api/http/mount.ts';
import { Encoded, privateFor, send } from '../../api/http/response.ts';
import { asVersion31, type OpenApi } from '../../api/service/openapi.ts';
import { ENDPOINTS, OPEN_API } from './document.ts';
import { GUIDES } from './guides.ts';

const MAX_AGE_SECONDS = 300;
const FOREVER = 'public, max-age=31536000, immutable';

/** The package's entry point. The bundle for browsers is next to it. */
const PACKAGE = import.meta.resolve('@scalar/api-reference');
const { version } = JSON.parse(await readFile(new URL('../package.json', PACKAGE), 'utf8'));

/** The name contains the version, so that browsers may cache the file forever. */
const VIEWER_PATH = `/assets/api-reference-${version}.js`;

/** The viewer sets `style` attributes, which no nonce or hash can allow. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'unsafe-inline'", "img-src 'self' data:"],
  ...["connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

/** The colours of the page (apps/web/style.css). */
const STYLE = `
.light-mode {
  --scalar-background-1: #ffffff; --scalar-background-2: #f4f5f7; --scalar-background-3: #eef2fb;
  --scalar-color-1: #11161d; --scalar-color-2: #566072; --scalar-color-3: #566072;
  --scalar-border-color: #e2e5ea; --scalar-color-accent: #1d4ed8;
  --scalar-color-green: #07703f; --scalar-color-red: #b9202c; --scalar-color-orange: #8a5200;
}
.dark-mode {
  --scalar-background-1: #0b0e13; --scalar-background-2: #11151c; --scalar-background-3: #1a2130;
  --scalar-color-1: #e8ebf1; --scalar-color-2: #98a3b5; --scalar-color-3: #98a3b5;
  --scalar-border-color: #222a36; --scalar-color-accent: #7aa5ff;
  --scalar-color-green: #42d392; --scalar-color-red: #ff7a80; --scalar-color-orange: #f2b84b;
}
:root { --scalar-font: system-ui, sans-serif; --scalar-font-code: ui-monospace, monospace; }
`;

const CONFIGURATION = {
  // Only this version describes the events of streams.
  url: '/openapi-3.2.json',
  theme: 'none',
  customCss: STYLE,
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
};

const ICON = await readFile(new URL('../web/icon.svg', import.meta.url), 'base64');

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Fillstream API</title>
<link rel="icon" href="data:image/svg+xml;base64,${ICON}">
</head>
<body>
<noscript>This page needs JavaScript to show <a href="/openapi.json">the OpenAPI document</a>.</noscript>
<script id="api-reference" type="application/json" data-configuration="${attribute(CONFIGURATION)}"></script>
<script src="${VIEWER_PATH}"></script>
</body>
</html>
`;

const DOCUMENT = encodedDocument(asVersion31(OPEN_API));
const DOCUMENT_32 = encodedDocument(OPEN_API);
const DOCS = new Encoded('html', PAGE, privateFor(MAX_AGE_SECONDS));
const GUIDE_TEXTS = new Map(
  GUIDES.map(({ path, source }) => [
    path,
    new Encoded('text', readFileSync(source), privateFor(MAX_AGE_SECONDS)),
  ]),
);
const LLMS = new Encoded('text', llmsText(), privateFor(MAX_AGE_SECONDS));
let viewer: Promise<Encoded> | undefined;

const documentHandler: RequestHandler = async (request, response) => {
  await send(request, response, DOCUMENT);
};

const document32Handler: RequestHandler = async (request, response) => {
  await send(request, response, DOCUMENT_32);
};

const llmsHandler: RequestHandler = async (request, response) => {
  await send(request, response, LLMS);
};

const guideHandler: RequestHandler = async (request, response, next) => {
  const text = GUIDE_TEXTS.get(request.path);
  if (text === undefined) next();
  else await send(request, response, text);
};

const docsHandler: RequestHandler = async (request, response) => {
  response.set('Content-Security-Policy', CONTENT_SECURITY_POLICY);
  await send(request, response, DOCS);
};

/** Serves the viewer's script, which is read and compressed on first use. */
const viewerHandler: RequestHandler = async (request, response) => {
  viewer ??= readFile(new URL('browser/standalone.js', PACKAGE)).then(
    (bytes) => new Encoded('js', bytes, FOREVER),
  );
  await send(request, response, await viewer);
};

export const REFERENCE: Mount = {
  files: { [VIEWER_PATH]: viewerHandler },
  open: {
    '/openapi.json': documentHandler,
    '/openapi-3.2.json': document32Handler,
    '/docs': [asDocument, docsHandler],
    ...Object.fromEntries(GUIDES.map(({ path }) => [path, guideHandler])),
    '/llms.txt': llmsHandler,
  },
};

function encodedDocument(document: OpenApi): Encoded {
  return new Encoded('json', JSON.stringify(document), privateFor(MAX_AGE_SECONDS));
}

function attribute(value: object): string {
  return JSON.stringify(value).replaceAll('&', '&amp;').replaceAll('"', '&quot;');
}

function llmsText(): string {
  const lines = ENDPOINTS.map(({ method = 'get', path, summary }) => {
    return `- \`${method.toUpperCase()} ${path}\`: ${summary}`;
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
