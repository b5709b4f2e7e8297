/** The guides as HTML, for browsers. Programs and language models get the Markdown. */
import { readFileSync } from 'node:fs';
import { Marked, type MarkedExtension, Renderer } from 'marked';
import { GUIDES, type Guide } from './guides.ts';
import { htmlPage } from './html.ts';

const PATHS = new Set(GUIDES.map(({ path }) => path));

/** A guide with the list of all guides, and the sections of this one. */
export function guideHtml({ title, path, source }: Guide): string {
  const sections: string[] = [];
  const article = new Marked(rendering(sections)).parse(readFileSync(source, 'utf8'));
  const entries = GUIDES.map((guide) => {
    const isCurrent = guide.path === path;
    const current = isCurrent ? ' aria-current="page"' : '';
    const own = isCurrent && sections.length > 0 ? `<ul>${sections.join('')}</ul>` : '';
    return `<li><a href="${htmlPath(guide.path)}"${current}>${guide.title}</a>${own}</li>`;
  });
  return htmlPage(
    title,
    'Guides',
    `<div class="guide">
<main>${article}</main>
<nav id="guides" aria-label="Guides"><h2>Guides</h2><ul>${entries.join('')}</ul></nav>
</div>`,
  );
}

/** `/docs/streams` for `/docs/streams.md`. */
export function htmlPath(path: string): string {
  return path.replace(/\.md$/, '');
}

/** Adds the headings of the second level to `sections`. */
function rendering(sections: string[]): MarkedExtension {
  return {
    renderer: {
      heading({ tokens, depth, text }) {
        const inner = this.parser.parseInline(tokens);
        const id = anchorOf(text);
        if (depth === 2) sections.push(`<li><a href="#${id}">${inner}</a></li>`);
        return `<h${depth} id="${id}">${inner}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens);
        const address = addressOf(href);
        return address === undefined ? inner : `<a href="${address}">${inner}</a>`;
      },
      // The keyboard can scroll only what it can focus.
      table(token) {
        return `<div class="wide" tabindex="0">${Renderer.prototype.table.call(this, token)}</div>`;
      },
      code(token) {
        // Only GitHub draws it, and the text next to it says the same.
        if (token.lang === 'mermaid') return '';
        return Renderer.prototype.code.call(this, token).replace('<pre', '<pre tabindex="0"');
      },
    },
  };
}

/** The anchor of a heading, as GitHub derives it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** Where a link of a guide leads; undefined if the service does not have that file. */
function addressOf(href: string): string | undefined {
  if (/^(\w+:|#)/.test(href)) return href;
  const { pathname, hash } = new URL(href, 'http://guide/docs/');
  return PATHS.has(pathname) ? htmlPath(pathname) + hash : undefined;
}
