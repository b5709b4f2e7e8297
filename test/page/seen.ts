/** What a reader sees on the page: texts of tables, and the rows of a tape. */
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { until } from '../support/service.ts';

/** What of a table's row these tests read; the types of the browser are not those of Node. */
type TableRow = {
  readonly cells: Iterable<{ readonly innerText: string }>;
  readonly dataset: { readonly cursor?: string };
};

/** Texts of the cells of each row. */
export async function texts(rows: Locator): Promise<string[][]> {
  return await rows.evaluateAll((all) =>
    (all as unknown as TableRow[]).map((row) =>
      [...row.cells].map((cell) => cell.innerText.trim()),
    ),
  );
}

/** Scrolls the tape to so many pixels from its top. */
export async function scrollTo(page: Page, top: number): Promise<void> {
  await page.locator('.tape-scroll').evaluate((element, to) => {
    (element as unknown as { scrollTop: number }).scrollTop = to;
  }, top);
}

/** Holds as soon as what is shown and what was answered last are of the same moment. */
export async function agree(check: () => Promise<void>): Promise<void> {
  let last: unknown;
  const deadline = Date.now() + 30_000;
  await until(async () => {
    try {
      await check();
      return true;
    } catch (error) {
      last = error;
      if (Date.now() > deadline) throw last;
      return undefined;
    }
  });
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

/** Of the newest match that the page received. */
export async function position(page: Page): Promise<string> {
  const text = await page.locator('[data-stream]').innerText();
  return /cursor (\d+)/.exec(text)?.[1] ?? '';
}

/** Of the rows that are built, newest first. */
export async function positions(page: Page): Promise<string[]> {
  return await page
    .locator('tr[data-cursor]')
    .evaluateAll((all) => (all as unknown as TableRow[]).map((row) => row.dataset.cursor ?? ''));
}

export const SETTLED_ROWS = 21;

/** How many of the oldest rows of the tape are neither final nor void. */
export async function pendingAmongOldest(page: Page): Promise<number> {
  await scrollTo(page, 1e9);
  const rows = (await texts(page.locator('tr[data-cursor]'))).slice(-SETTLED_ROWS);
  return SETTLED_ROWS - rows.filter(([, state = '']) => /final|void/.test(state)).length;
}

type Shown = {
  readonly position: string;
  readonly state: string;
  readonly price: string;
  readonly usdc: string;
  readonly struck: boolean;
};

/** Whether each row is struck through. */
export async function struck(rows: Locator): Promise<boolean[]> {
  return await rows.locator('.c-market').evaluateAll((all) => {
    const { getComputedStyle } = globalThis as unknown as {
      getComputedStyle: (one: unknown) => { textDecorationLine: string };
    };
    return all.map((one) => getComputedStyle(one).textDecorationLine === 'line-through');
  });
}

/** Whether there is a row in the middle of what is seen of the tape, and not only the space of one. */
const IS_BUILT = `(() => {
  const { x, y, width, height } = document.querySelector('.tape-scroll').getBoundingClientRect();
  const there = document.elementFromPoint(x + width / 2, y + height / 2);
  return there?.closest('tr[data-cursor]') !== null;
})()`;

/** Read at once: rows may be built between two readings. */
const BUILT_ROWS = `[...document.querySelectorAll('tr[data-cursor]')].map((row) => {
  const [, state, , price, usdc] = [...row.cells].map((cell) => cell.innerText);
  const { textDecorationLine } = getComputedStyle(row.querySelector('.c-market'));
  const struck = textDecorationLine === 'line-through';
  return { position: row.dataset.cursor, state, price, usdc, struck };
})`;

/** Every row of a paused tape, newest first, by scrolling through it. */
export async function allRows(page: Page): Promise<Shown[]> {
  const found = new Map<string, Shown>();
  const height = await page
    .locator('.tape-scroll')
    .evaluate((element) => (element as unknown as { scrollHeight: number }).scrollHeight);
  for (let top = 0; top <= height; top += 300) {
    await scrollTo(page, top);
    // Its rows are built after it is scrolled. Frames do not show when: a test may hold the page's clock.
    await expect.poll(() => page.evaluate(IS_BUILT)).toBe(true);
    for (const row of await page.evaluate<Shown[]>(BUILT_ROWS)) found.set(row.position, row);
  }
  return [...found.values()].sort((a, b) => Number(BigInt(b.position) - BigInt(a.position)));
}
