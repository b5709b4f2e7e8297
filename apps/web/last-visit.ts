/**
 * When the user was last here, in the browser's storage. A visit ends with half an hour without the page, so that a reload does not
 * begin another one.
 */
import { readStored, writeStored } from './stored.ts';

const SEEN = 'fillstream.seen';
const BEFORE = 'fillstream.seen.before';
const PAUSE_MS = 1_800_000;
const MINUTE_MS = 60_000;

/** The end of the visit before this one, ISO 8601; undefined on the first. */
export const lastVisit: string | undefined = begin();

function begin(): string | undefined {
  const seen = Number(readStored(SEEN) ?? Number.NaN);
  if (seen > 0 && Date.now() - seen > PAUSE_MS) writeStored(BEFORE, String(seen));
  see();
  setInterval(see, MINUTE_MS);
  addEventListener('pagehide', see);
  const before = Number(readStored(BEFORE) ?? Number.NaN);
  return before > 0 ? `${new Date(before).toISOString().slice(0, 19)}Z` : undefined;
}

function see(): void {
  if (document.visibilityState === 'visible') writeStored(SEEN, String(Date.now()));
}
