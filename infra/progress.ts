/** Progress output of long commands. */

const PROGRESS_MS = 1_000;

/** Prints what a phase did, and sends the event to the parent process if there is one. */
export function report(
  event: { readonly event: string } & Readonly<Record<string, unknown>>,
  text: string,
): void {
  if (process.connected) process.send?.(event);
  console.log(text);
}

/** Prints how many of `all` blocks are done, at most once a second, with the rate and the time left. */
export function createProgress(all: number): (done: number) => void {
  const startedAt = performance.now();
  let printedAt = Number.NEGATIVE_INFINITY;
  return (done) => {
    const now = performance.now();
    if (now - printedAt < PROGRESS_MS && done < all) return;
    printedAt = now;
    const rate = done / Math.max(0.001, (now - startedAt) / 1_000);
    const share = Math.floor((100 * done) / all);
    const left = Math.ceil((all - done) / rate);
    const blocks = `${count(done)} of ${count(all)} blocks`;
    console.log(`${share} % · ${blocks} · ${count(rate)}/s · ${left} s left`);
  };
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
