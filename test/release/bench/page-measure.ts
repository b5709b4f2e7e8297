/**
 * Measurements of a page in Chromium during a benchmark: paints, the time from a click to the next
 * frame and to new figures, frames, and the CPU time of all its processes.
 */
import type { Browser, Page } from 'playwright-core';

/** Runs in the page before its own scripts. */
export const WATCH = `
window.bench = { inputAt: 0, worst: 0, rowsAt: 0, longTasks: 0 };
for (const name of ['pointerdown', 'keydown']) {
  addEventListener(name, (event) => { bench.inputAt = event.timeStamp; }, { capture: true });
}
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) bench.worst = Math.max(bench.worst, entry.duration);
}).observe({ type: 'event', durationThreshold: 16 });
new PerformanceObserver((list) => { bench.longTasks += list.getEntries().length; })
  .observe({ type: 'longtask' });
(function look() {
  if (document.querySelector('main tbody tr') === null) return requestAnimationFrame(look);
  requestAnimationFrame(() => { bench.rowsAt = performance.now(); });
})();`;

export type Opened = { readonly paintMs: number; readonly rowsMs: number };

/** Milliseconds from the navigation to the first content and to the first rows of a table. */
export async function opened(page: Page): Promise<Opened> {
  await until(page, 'bench.rowsAt > 0');
  return (await page.evaluate(`({
    paintMs: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    rowsMs: bench.rowsAt,
  })`)) as Opened;
}

export type Reaction = { readonly frameMs: number; readonly figuresMs: number };

/**
 * Milliseconds from an input to the frame that follows it, as the browser counts (in steps of 8, 0 below
 * 16), and to the frame in which what `seen` computes in the page has changed.
 */
export async function reaction(
  page: Page,
  seen: string,
  act: () => Promise<void>,
): Promise<Reaction> {
  await page.evaluate(`bench.worst = 0; bench.before = ${seen}; bench.changedAt = 0;
    (function look() {
      const now = ${seen};
      if (now === bench.before || now === '') return requestAnimationFrame(look);
      requestAnimationFrame(() => { bench.changedAt = performance.now(); });
    })();`);
  await act();
  await until(page, 'bench.changedAt > 0');
  // The browser reports an event after its next frame.
  await page.waitForTimeout(100);
  return (await page.evaluate(
    '({ frameMs: bench.worst, figuresMs: bench.changedAt - bench.inputAt })',
  )) as Reaction;
}

export type Frames = {
  readonly seconds: number;
  /** Between two frames, milliseconds. */
  readonly gapsMs: readonly number[];
  /** Tasks of more than 50 ms. */
  readonly longTasks: number;
};

export async function frames(page: Page, seconds: number): Promise<Frames> {
  return (await page.evaluate(`new Promise((done) => {
    const gapsMs = [];
    const from = performance.now();
    const before = bench.longTasks;
    let last = from;
    requestAnimationFrame(function frame() {
      const now = performance.now();
      gapsMs.push(now - last);
      last = now;
      if (now - from < ${seconds * 1_000}) requestAnimationFrame(frame);
      else done({ seconds: (now - from) / 1000, gapsMs, longTasks: bench.longTasks - before });
    });
  })`)) as Frames;
}

/** CPU seconds of the browser's processes so far, by kind. */
export async function processorSeconds(browser: Browser): Promise<ReadonlyMap<string, number>> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  const sums = new Map<string, number>();
  for (const { type, cpuTime } of processInfo) sums.set(type, (sums.get(type) ?? 0) + cpuTime);
  return sums;
}

/** Waits with a function of the page, because its Content-Security-Policy forbids evaluating text. */
async function until(page: Page, condition: string): Promise<void> {
  await page.evaluate(`new Promise((done) => {
    (function look() { ${condition} ? done() : requestAnimationFrame(look); })();
  })`);
}
