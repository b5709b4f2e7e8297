/**
 * Debian's Chromium without a window under Playwright, and the checks of every test of the page: no requests to
 * another host, and no errors in the console. Screenshots go to `.cache/screenshots`.
 */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const CANDIDATES = [
  process.env.CHROMIUM_BIN ?? '',
  // It has no windows of its own, so a tab costs less.
  '/usr/bin/chromium-headless-shell',
  ...['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
];
export const SCREENSHOTS = join(import.meta.dirname, '../../.cache/screenshots');

/** Path of the browser; if there is none, prints the reason and returns undefined. */
export const CHROMIUM = CANDIDATES.find((path) => path !== '' && isExecutable(path));
export const MISSING =
  'Chromium is missing: `apt-get install chromium-headless-shell`, or set CHROMIUM_BIN to the path of one';

/** A container's root has no sandbox of its own; the page under test is ours. */
export const SWITCHES = ['--no-sandbox', '--disable-dev-shm-usage'];

export const PHONE = {
  viewport: { width: 390, height: 844 },
  deviceScaleFactor: 2,
  isMobile: true,
  hasTouch: true,
};

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM ?? '', args: SWITCHES });
}

/** A page's violations, and the last response to each of its requests. */
export type Watched = {
  readonly page: Page;
  readonly foreign: string[];
  readonly errors: string[];
  /** URLs of all requests. */
  readonly urls: string[];
  /**
   * JSON of the newest response of this path. With a query, the query must be equal; without one,
   * any query matches. A path that ends in a slash matches all paths below it.
   */
  answer<Answer>(path: string): Answer;
  close(): Promise<void>;
};

/** A tab of its own session on the page of the service; the key is in the fragment where given. */
export async function open(
  browser: Browser,
  url: string,
  options: {
    readonly key?: string;
    readonly path?: string;
    /** Whether the test can advance its clock. */
    readonly clock?: boolean;
  } & BrowserContextOptions = {},
): Promise<Watched> {
  const { key = '', path = '/', clock = false, ...context } = options;
  const own = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    // Elements that fade in have less contrast at first.
    reducedMotion: 'reduce',
    ...context,
  });
  // Other tests run at the same time.
  own.setDefaultTimeout(120_000);
  if (clock) await own.clock.install();
  const page = await own.newPage();
  const foreign: string[] = [];
  const errors: string[] = [];
  const urls: string[] = [];
  const answers = new Map<string, unknown>();
  page.on('request', (request) => {
    urls.push(request.url());
    if (new URL(request.url()).origin !== url && !request.url().startsWith('data:')) {
      foreign.push(request.url());
    }
  });
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('response', async (response) => {
    if (!response.headers()['content-type']?.startsWith('application/json')) return;
    const { pathname, search } = new URL(response.url());
    // A request that the page aborted has no body.
    const body = await response.json().catch(() => undefined);
    if (body === undefined) return;
    answers.delete(pathname + search);
    answers.set(pathname + search, body);
  });
  await page.goto(`${url}${path}${key === '' ? '' : `#key=${key}`}`);
  return {
    ...{ page, foreign, errors, urls },
    answer<Answer>(start: string): Answer {
      const found = [...answers].findLast(
        ([name]) =>
          name === start ||
          (!start.includes('?') && name.startsWith(start.endsWith('/') ? start : `${start}?`)),
      );
      if (found === undefined) throw new Error(`the page has no answer of ${start}`);
      return found[1] as Answer;
    },
    async close() {
      // A handler of `route` may be waiting for the server.
      if (!page.isClosed()) await page.unrouteAll({ behavior: 'ignoreErrors' });
      await own.close();
    },
  };
}

/** Faults that axe-core calls moderate, serious or critical, WCAG 2.2 A and AA (targets of 24 pixels), as short texts. */
export async function faults(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  // Rows of earlier settings are grey on purpose, for as long as the response takes.
  const run = `axe.run({ exclude: ['.stale'] }, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    resultTypes: ['violations'],
  }).then(({ violations }) => violations)`;
  const violations = (await page.evaluate(run)) as {
    id: string;
    impact: string;
    nodes: { html: string; failureSummary: string }[];
  }[];
  return violations
    .filter(({ impact }) => impact !== 'minor')
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
}

export async function screenshot(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
