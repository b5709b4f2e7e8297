/**
 * Shows at the bottom of every view how old the figures are, and one banner above every view if the service has a problem or
 * is catching up. Polls /v2/status and /readyz while the tab is visible; ages keep counting between polls.
 */
import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { ConnectionError, FillstreamError } from '../client/index.ts';
import type { Status } from './answers.ts';
import { fillstream } from './client.ts';
import { count, span, spanInWords } from './format.ts';
import { isSimulated } from './simulated.ts';

const READ_EVERY_MS = 5_000;
/** Without a response for this long, the service is reported. */
const ANSWER_MS_MAX = 5_000;

type Readiness = {
  readonly checks: Readonly<Record<string, { readonly ready: boolean; readonly detail: string }>>;
};

type Reading = Status & {
  readonly readAtMs: number;
  /** Whether the analytics are nearer to the present than at the last poll. True at the first one. */
  readonly isGaining: boolean;
};

/** Result of the last poll; undefined before the first. */
export const status = signal<Reading | undefined>(undefined);
const problem = signal('');
const unready = signal<readonly string[]>([]);
/** The current time, updated every second while ages are shown. */
export const now = signal(Date.now());

/** Age of the leaderboard of a time frame in milliseconds; undefined if unknown. */
export function boardAgeMs(frame: string): number | undefined {
  const reading = status.value;
  const board = reading?.boards.find((one) => one.time_frame === frame);
  if (reading === undefined || board === undefined || board.refreshed_at === '') return undefined;
  return board.age_seconds * 1_000 + Math.max(0, now.value - reading.readAtMs);
}

export function StatusStrip() {
  useEffect(keepReading, []);
  const reading = status.value;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls on a phone
    <footer class="strip" tabIndex={0}>
      {trouble.value !== undefined ? (
        <span class="state bad">
          <b aria-hidden="true">▲</b> Not live
        </span>
      ) : reading === undefined ? (
        <span class="soft">Loading status</span>
      ) : (
        <span class="state ok">
          <b aria-hidden="true">●</b> Live
        </span>
      )}
      {reading === undefined ? null : <Figures reading={reading} />}
      {isSimulated ? (
        <span
          class="badge"
          title="The traders, markets, prices and results of this demo are made up"
        >
          Simulated data
        </span>
      ) : null}
    </footer>
  );
}

function Figures({ reading }: { readonly reading: NonNullable<typeof status.value> }) {
  const later = Math.max(0, now.value - reading.readAtMs);
  const age = (seconds: number) => span(seconds * 1_000 + later);
  const { chain, feed, projection } = reading;
  return (
    <details class="ages">
      <summary title="How old what is shown may be; opens the details">
        {projection.age_seconds === 0
          ? 'No figures yet'
          : `Figures ${age(projection.age_seconds)} old`}
      </summary>
      <dl class="card">
        <Figure name="Order feed" title="Age of its newest event">
          {feed.newest_at === '' ? 'Empty' : age(feed.age_seconds)}
        </Figure>
        <Figure name="Final block" title="The newest one, and its age">
          {count(chain.final_block)} · {age(chain.age_seconds)}
        </Figure>
        <Figure name="Analytics" title="How far they are behind the newest final trade">
          {projection.behind_seconds === 0
            ? 'Current'
            : `${span(projection.behind_seconds * 1_000)} behind`}
        </Figure>
        <Figure name="Leaderboards" title="Their ages, by time frame">
          {reading.boards.map((board) => (
            <span key={board.time_frame} class="board">
              {board.time_frame} {board.refreshed_at === '' ? '–' : age(board.age_seconds)}
            </span>
          ))}
        </Figure>
      </dl>
    </details>
  );
}

function Figure(props: {
  readonly name: string;
  readonly title: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div title={props.title}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** Whether the service does not respond. Views then keep what they have, and the banner says so once. */
export const isAway = computed(() => problem.value !== '');

/** What the service still has to do before lists are complete; '' if nothing. */
const unfinished = computed(() => {
  const reading = status.value;
  if (reading === undefined) return '';
  const { chain, markets, projection } = reading;
  if (chain.block_at === '') return 'Starting: the first blocks are being read.';
  if (projection.age_seconds > projection.age_seconds_max) {
    const age = spanInWords(projection.age_seconds * 1_000);
    return reading.isGaining ? `Catching up: ${age} behind.` : `The figures are ${age} old.`;
  }
  return markets.refreshed_at === '' ? 'Starting: the first markets are being computed.' : '';
});

/** Whether lists may be incomplete, so that an empty one says nothing. */
export const isUnfinished = computed(() => unfinished.value !== '');

const trouble = computed(() => {
  if (isAway.value) {
    return `${problem.value}. What you see was loaded before; the page tries again every ${READ_EVERY_MS / 1_000} seconds.`;
  }
  if (isUnfinished.value && (status.value?.isGaining ?? false)) return unfinished.value;
  if (unready.value.length === 0) return unfinished.value || undefined;
  return `${unfinished.value} Not ready: ${unready.value.join(' · ')}`;
});

/** The one message about the state of the service. */
export function Banner() {
  if (trouble.value === undefined) return null;
  return (
    <p class={`trouble ${isAway.value ? 'bad' : ''}`} role="status">
      <b aria-hidden="true">▲</b> {trouble.value}
    </p>
  );
}

function keepReading(): () => void {
  const gone = new AbortController();
  const reading = setInterval(() => void read(gone.signal), READ_EVERY_MS);
  const ticking = setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
  const onVisible = () => void read(gone.signal);
  document.addEventListener('visibilitychange', onVisible);
  void read(gone.signal);
  return () => {
    gone.abort();
    clearInterval(reading);
    clearInterval(ticking);
    document.removeEventListener('visibilitychange', onVisible);
  };
}

/** Finds out at once whether the service responds, for a request that got no response. */
export function checkService(): Promise<void> {
  return read(new AbortController().signal);
}

let isReading = false;

async function read(gone: AbortSignal): Promise<void> {
  if (document.hidden || isReading) return;
  isReading = true;
  const late = AbortSignal.timeout(ANSWER_MS_MAX);
  const abort = AbortSignal.any([gone, late]);
  try {
    const [answer, readiness] = await Promise.all([
      fillstream.value.status({ signal: abort, retry: false }),
      readReadiness(abort),
    ]);
    if (gone.aborted) return;
    const last = status.peek()?.projection.age_seconds ?? Number.POSITIVE_INFINITY;
    const isGaining = answer.projection.age_seconds < last;
    status.value = { ...answer, readAtMs: Date.now(), isGaining };
    unready.value = Object.entries(readiness.checks).flatMap(([name, check]) =>
      check.ready ? [] : [`${name}: ${check.detail}`],
    );
    problem.value = '';
  } catch (error) {
    if (gone.aborted) return;
    if (late.aborted) problem.value = 'The service does not respond';
    else if (!(error instanceof FillstreamError)) throw error;
    // The page has sent too many requests, which says nothing about the service.
    else if (error.status !== 429) {
      problem.value =
        error instanceof ConnectionError ? 'The service cannot be reached' : error.message;
    }
  } finally {
    isReading = false;
  }
}

/** A 503 has the same body as a 200. */
async function readReadiness(abort: AbortSignal): Promise<Readiness> {
  try {
    const response = await fetch('/readyz', { signal: abort });
    return (await response.json()) as Readiness;
  } catch (error) {
    if (abort.aborted) throw error;
    throw new ConnectionError('no readiness', { cause: error });
  }
}
