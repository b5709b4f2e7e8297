/** What the reference and the guides share: the head, the header and the stylesheet. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { RequestHandler } from 'express';
import { Encoded, send } from '../../api/http/response.ts';

const FOREVER = 'public, max-age=31536000, immutable';

/** A file of this folder. Its path contains a hash, so browsers may cache it forever. */
export function asset(name: string, type: 'css' | 'js') {
  const bytes = readFileSync(new URL(`${name}.${type}`, import.meta.url));
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 8);
  return { path: `/assets/${name}-${hash}.${type}`, handler: sends(type, bytes) };
}

/** Sends bytes that never change. */
export function sends(type: 'css' | 'js', bytes: Buffer): RequestHandler {
  const encoded = new Encoded(type, bytes, FOREVER);
  return (request, response) => send(request, response, encoded);
}

const icon = readFileSync(new URL('../web/icon.svg', import.meta.url), 'base64');
const ICON = `data:image/svg+xml;base64,${icon}`;

export const STYLE = asset('style', 'css');

const LINKS = [
  ['/', 'Page'],
  ['/docs', 'Reference'],
  ['/docs/quick-start#guides', 'Guides'],
  ['/openapi.json', 'OpenAPI'],
] as const;

/** A whole document; `body` is HTML. */
export function htmlPage(title: string, current: 'Reference' | 'Guides', body: string): string {
  const links = LINKS.map(([path, name]) => {
    return `<a href="${path}"${name === current ? ' aria-current="true"' : ''}>${name}</a>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Fillstream</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${STYLE.path}">
</head>
<body>
<header class="top">
<a class="brand" href="/"><img src="${ICON}" alt="" width="22" height="22">Fillstream</a>
<nav aria-label="Fillstream">${links.join('')}</nav>
</header>
${body}
</body>
</html>
`;
}
