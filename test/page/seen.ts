/** Reads what the page shows: texts of tables, and the rows of a tape. */
import type { Locator, Page } from 'playwright-core';
import { expect, vi } from 'vitest';
import type { Watched } from './browser.ts';

/** The part of a table row that these tests read, because Node has no types of the browser. */
type TableRow = {
  readonly cells: Iterable<{ readonly innerText: string }>;
  readonly dataset: { readonly cursor?: string };
};

/** From now on, the document declares that its data is not simulated, as on a real chain. */
export async function asOnRealChain(page: Page): Promise<void> {
  await page.route(
    (url) => !url.pathname.startsWith('/v'),
    async (route) => {
      if (route.request().resourceType() !== 'document') return route.fallback();
      const response = await route.fetch();
      const body = (await response.text()).replace('name="simulated" content="yes"', '');
      return route.fulfill({ response, body });
    },
  );
}

/** Texts of the cells of each row. */
export async function texts(rows: Locator): Promise<string[][]> {
  return await rows.evaluateAll((all) =>
    (all as unknown as TableRow[]).map((row) =>
      [...row.cells].map((cell) => cell.innerText.trim().replace(/\s+/g, ' ')),
    ),
  );
}

/** Expects that the table shows in these columns what `rows` computes from the page's newest response, which it returns. */
export async function compareRows<Answer>(
  { page, answer }: Watched,
  path: string,
  table: string,
  columns: readonly number[],
  rows: (answer: Answer) => readonly (readonly string[])[],
): Promise<Answer> {
  const newest = answer<Answer>(path);
  const shown = await texts(page.locator(`${table} tbody tr`));
  expect(shown.map((cells) => columns.map((column) => cells[column]))).toEqual(rows(newest));
  return newest;
}

/** Repeats `compareRows` until table and response are of the same moment. */
export function expectRows<Answer>(
  ...table: Parameters<typeof compareRows<Answer>>
): Promise<Answer> {
  return agree(() => compareRows(...table));
}

/** Scrolls the tape to this many pixels from its top. */
export async function scrollTo(page: Page, top: number): Promise<void> {
  await page.locator('.tape-scroll').evaluate((element, to) => {
    (element as unknown as { scrollTop: number }).scrollTop = to;
  }, top);
}

/** Passes as soon as the page shows its newest response. */
export function agree<Value>(check: () => Promise<Value>): Promise<Value> {
  return vi.waitFor(check, { timeout: 120_000, interval: 100 });
}

/** Waits until the text is among those of the elements. */
export async function expectText(locator: Locator, text: string): Promise<void> {
  await expect.poll(async () => (await locator.allInnerTexts()).join(' ')).toContain(text);
}

/** How many matches the tape has. */
export async function rowCount(page: Page): Promise<number> {
  const text = await page.locator('[data-stream]').innerText();
  return Number(/([\d,]+) rows/.exec(text)?.[1]?.replaceAll(',', '') ?? 0);
}

/** Transaction of the newest match that the page received. */
export async function position(page: Page): Promise<string> {
  const text = await page.locator('[data-stream]').innerText();
  return /cursor (\d+)/.exec(text)?.[1] ?? '';
}

/** Transactions of the rendered rows, newest first. */
export async function positions(page: Page): Promise<string[]> {
  return await page
    .locator('tr[data-cursor]')
    .evaluateAll((all) => (all as unknown as TableRow[]).map((row) => row.dataset.cursor ?? ''));
}

/** Whether each row is struck through. */
export async function struck(rows: Locator): Promise<boolean[]> {
  return await rows.locator('.c-market').evaluateAll((all) => {
    const { getComputedStyle } = globalThis as unknown as {
      getComputedStyle: (one: unknown) => { textDecorationLine: string };
    };
    return all.map((one) => getComputedStyle(one).textDecorationLine === 'line-through');
  });
}
