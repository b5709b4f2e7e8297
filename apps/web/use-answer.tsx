/**
 * Hooks that load API responses. While a new response is loading, or if it fails, the last one stays; a failure adds
 * its reason. A response for earlier settings is stale and displayed as such.
 */
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError, ConnectionError, FillstreamError } from '../client/index.ts';
import type { Search } from './answers.ts';
import { fillstream } from './client.ts';
import { Skeleton } from './controls.tsx';
import { clock } from './format.ts';
import { checkService, isAway, isUnfinished } from './status-strip.tsx';

const LATE_MS = 200;
const TYPED_MS = 120;
/** A request without a response for this long, attempts and waits together, is reported as a problem. */
const ANSWER_SECONDS_MAX = 8;

export type Answered<Answer> = {
  readonly data: Answer | undefined;
  readonly problem: FillstreamError | undefined;
  /** Whether a request is in flight. */
  readonly busy: boolean;
  /** Whether `data` belongs to an earlier path, because the current one is loading or failed. */
  readonly isStale: boolean;
  /** When `data` was received, Unix milliseconds. */
  readonly atMs: number;
  /** Loads again. */
  readonly retry: () => void;
};

type Shown<Answer> = Omit<Answered<Answer>, 'isStale' | 'retry'> & {
  readonly of: string | undefined;
  /** The path of `data`. */
  readonly path: string | null;
  /** The last path that loaded or failed. */
  readonly settled: string | null;
};

/**
 * Loads `path` whenever it or `refresh` changes; null loads nothing. A new `refresh` waits for the request in flight, so
 * that a slow response still arrives. When `subject` changes, the last response is dropped, because it is about
 * something else. With a `body` (JSON text), sends it as a read-only POST.
 */
export function useAnswer<Answer>(
  path: string | null,
  options: { readonly refresh?: unknown; readonly subject?: string; readonly body?: string } = {},
): Answered<Answer> {
  const { refresh, subject, body } = options;
  const [shown, setShown] = useState<Shown<Answer>>({
    ...{ data: undefined, problem: undefined, busy: false, of: subject, atMs: 0 },
    ...{ path: null, settled: null },
  });
  const [tries, setTries] = useState(0);
  const retry = useCallback(() => setTries((last) => last + 1), []);
  const known = useRef({ subject, refresh });
  known.current = { subject, refresh };
  const loadAgain = useRef<(() => void) | undefined>(undefined);
  // Runs before the first paint, which shows no response yet.
  useLayoutEffect(() => {
    if (path === null) return;
    const gone = new AbortController();
    let isLoading = false;
    function load(path: string): void {
      isLoading = true;
      const asked = known.current.refresh;
      // A new path counts as busy at once.
      setShown((last) => (last.settled === path ? { ...last, busy: true } : last));
      ask<Answer>(path, gone.signal, body).then(
        (data) => {
          isLoading = false;
          if (gone.signal.aborted) return;
          const of = known.current.subject;
          const settled = { data, path, settled: path, atMs: Date.now() };
          setShown({ ...settled, problem: undefined, busy: false, of });
          if (known.current.refresh !== asked) load(path);
        },
        (error: unknown) => {
          isLoading = false;
          if (gone.signal.aborted) return;
          if (!(error instanceof FillstreamError)) throw error;
          const of = known.current.subject;
          setShown((last) => {
            // Nothing of another subject may be shown.
            const kept = last.of === of ? last : { ...last, data: undefined };
            return { ...kept, problem: error, busy: false, of, settled: path };
          });
        },
      );
    }
    load(path);
    loadAgain.current = () => {
      if (!isLoading) load(path);
    };
    return () => {
      loadAgain.current = undefined;
      gone.abort();
    };
  }, [path, tries, body, subject]);
  useLayoutEffect(() => loadAgain.current?.(), [refresh]);
  const busy = path !== null && (shown.busy || shown.settled !== path);
  if (shown.of !== subject) {
    return { data: undefined, problem: undefined, busy, isStale: false, atMs: 0, retry };
  }
  const { data, atMs } = shown;
  const problem = path === null ? undefined : shown.problem;
  return { data, problem, busy, isStale: data !== undefined && shown.path !== path, atMs, retry };
}

/** Requests JSON. Rejects after the time limit, also if the client would try again. */
async function ask<Answer>(path: string, gone: AbortSignal, body?: string): Promise<Answer> {
  const late = AbortSignal.timeout(ANSWER_SECONDS_MAX * 1_000);
  const signal = AbortSignal.any([gone, late]);
  try {
    return await (body === undefined
      ? fillstream.value.request<Answer>('GET', path, {}, { signal })
      : fillstream.value.request<Answer>('POST', path, { body: JSON.parse(body) }, { signal }));
  } catch (error) {
    if (gone.aborted || !late.aborted) throw error;
    throw new ConnectionError(`The service has not answered within ${ANSWER_SECONDS_MAX} s.`);
  }
}

/** Runs requests that change something, and keeps the problem of the last one. */
export function useAction(onDone?: () => void) {
  const [problem, setProblem] = useState<FillstreamError | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  /** Returns the response, or undefined if the request failed. */
  async function run<Answer>(request: Promise<Answer>): Promise<Answer | undefined> {
    setBusy(true);
    setProblem(undefined);
    try {
      const answer = await request;
      onDone?.();
      return answer;
    } catch (error) {
      if (!(error instanceof FillstreamError)) throw error;
      setProblem(error);
      return undefined;
    } finally {
      setBusy(false);
    }
  }
  return { busy, problem, run };
}

/**
 * The successful responses of several paths, by path, and the problem of the first one whose last request failed. As with
 * `useAnswer`, a new `refresh` does not abort requests in flight. Responses of paths that are no longer listed are dropped.
 */
export function useAnswers<Answer>(
  paths: readonly string[],
  { refresh }: { readonly refresh?: unknown } = {},
): {
  readonly data: ReadonlyMap<string, Answer>;
  readonly problem: FillstreamError | undefined;
  /** When the response was received of the path that has the problem, Unix milliseconds; 0 for none. */
  readonly atMs: number;
  /** Loads again. */
  readonly retry: () => void;
} {
  const [data, setData] = useState<ReadonlyMap<string, Answer>>(new Map());
  const receivedMs = useRef(new Map<string, number>()).current;
  const [tries, setTries] = useState(0);
  const retry = useCallback(() => setTries((last) => last + 1), []);
  const inFlight = useRef(new Map<string, AbortController>()).current;
  /** Until the path succeeds. */
  const [problems, setProblems] = useState<ReadonlyMap<string, FillstreamError | undefined>>(
    new Map(),
  );
  useLayoutEffect(() => {
    const isAsked = (path: string) => paths.includes(path);
    for (const [path, gone] of inFlight) {
      if (isAsked(path)) continue;
      gone.abort();
      inFlight.delete(path);
    }
    setData((last) => {
      const kept = [...last].filter(([path]) => isAsked(path));
      return kept.length === last.size ? last : new Map(kept);
    });
    for (const path of paths) {
      if (inFlight.has(path)) continue;
      const gone = new AbortController();
      inFlight.set(path, gone);
      ask<Answer>(path, gone.signal).then(
        (answer) => {
          if (gone.signal.aborted) return;
          inFlight.delete(path);
          receivedMs.set(path, Date.now());
          setData((last) => new Map(last).set(path, answer));
          setProblems((last) => new Map(last).set(path, undefined));
        },
        (error: unknown) => {
          if (gone.signal.aborted) return;
          inFlight.delete(path);
          if (!(error instanceof FillstreamError)) throw error;
          setProblems((last) => new Map(last).set(path, error));
        },
      );
    }
  }, [paths.join(' '), refresh, tries]);
  useEffect(
    () => () => {
      for (const gone of inFlight.values()) gone.abort();
      inFlight.clear();
    },
    [],
  );
  const failed = paths.find((path) => problems.get(path) !== undefined);
  if (failed === undefined) return { data, problem: undefined, atMs: 0, retry };
  const atMs = data.has(failed) ? (receivedMs.get(failed) ?? 0) : 0;
  return { data, problem: problems.get(failed), atMs, retry };
}

/** Finds markets and traders as the user types, up to `limit` of each. */
export function useSearch(typed: string, limit: number) {
  const [asked, setAsked] = useState('');
  const wanted = typed.trim();
  useEffect(() => {
    const timer = setTimeout(() => setAsked(wanted), TYPED_MS);
    return () => clearTimeout(timer);
  }, [wanted]);
  const answer = useAnswer<Search>(
    asked === '' ? null : `/v2/search?limit=${limit}&q=${encodeURIComponent(asked)}`,
  );
  return {
    ...{ wanted, answer },
    /** Whether the answer is to the typed words; there is none for no words. */
    isCurrent:
      wanted === asked &&
      (asked === '' || !(answer.busy || answer.isStale || answer.problem !== undefined)),
    /** The words of the last search, '' for none. */
    asked,
    /** Searches at once, also again after a failure. */
    ask(words: string) {
      setAsked(words);
      if (answer.problem !== undefined) answer.retry();
    },
  };
}

/**
 * A number that increases to trigger reloads: at an interval while the tab is visible, when it becomes visible, and when
 * the service has caught up.
 */
export function useTicks(everyMs: number): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const tick = () => {
      if (!document.hidden) setTicks((last) => last + 1);
    };
    const timer = setInterval(tick, everyMs);
    document.addEventListener('visibilitychange', tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', tick);
    };
  }, [everyMs]);
  const wasUnfinished = useRef(false);
  useEffect(() => {
    if (wasUnfinished.current && !isUnfinished.value) setTicks((last) => last + 1);
    wasUnfinished.current = isUnfinished.value;
  }, [isUnfinished.value]);
  return ticks;
}

/** Shows the server's error message with a retry button and, if an older response is shown below, its time. */
export function Problem(props: {
  readonly problem: FillstreamError | undefined;
  readonly answer?: Pick<Answered<unknown>, 'atMs' | 'data' | 'retry'> & {
    readonly busy?: boolean;
  };
  /** Retries what is not an answer. */
  readonly onRetry?: () => void;
}) {
  const { problem, answer, onRetry = answer?.retry } = props;
  const isShown = useChecked(problem, onRetry);
  if (problem === undefined || problem.status === 401 || !isShown) return null;
  const issues = problem instanceof ApiError ? problem.issues : [];
  return (
    <div class="problem" role="alert">
      <strong>{problem.message}</strong>
      {issues.length < 2 ? null : (
        <ul>
          {issues.map((issue) => (
            <li key={issue.path}>
              <code>{issue.path}</code> {issue.message}
            </li>
          ))}
        </ul>
      )}
      <p>
        {problem.status === 0 ? 'No response' : `${problem.status} ${problem.code}`}
        {problem.requestId === '' ? '' : `, request ${problem.requestId}`}
        {answer?.data === undefined || answer.atMs === 0
          ? ''
          : `. The data below was loaded at ${clock(answer.atMs)} UTC`}
      </p>
      {onRetry === undefined ? null : (
        <button type="button" disabled={answer?.busy ?? false} onClick={onRetry}>
          Retry
        </button>
      )}
    </div>
  );
}

/**
 * Whether to show a problem. If the service does not respond at all, the banner says so for all views, and they load again
 * when it does.
 */
function useChecked(problem: FillstreamError | undefined, onRetry: (() => void) | undefined) {
  const isTransient = problem !== undefined && (problem.status === 0 || problem.status >= 500);
  const [checked, setChecked] = useState<FillstreamError | undefined>(undefined);
  const wasAway = useRef(false);
  useEffect(() => {
    if (!isTransient) return;
    let isGone = false;
    void checkService().then(() => {
      if (!isGone) setChecked(problem);
    });
    return () => {
      isGone = true;
    };
  }, [problem]);
  useEffect(() => {
    if (wasAway.current && !isAway.value && isTransient) onRetry?.();
    wasAway.current = isAway.value;
  }, [isAway.value]);
  return !isTransient || (checked === problem && !isAway.value);
}

/**
 * Shows a skeleton until the first response, then the response, and any problem. The response is grey while it is stale
 * or the service does not respond.
 */
export function Loaded<Answer>(props: {
  readonly answer: Answered<Answer>;
  readonly what: string;
  /** Rows of the skeleton. */
  readonly rows: number;
  readonly pixels?: number;
  readonly tall?: boolean;
  readonly children: (data: Answer) => ComponentChildren;
}) {
  const { answer, children, ...skeleton } = props;
  const { data, problem, isStale } = answer;
  const isLate = useLate(isStale);
  const isGrey = isAway.value || (isStale && (isLate || problem !== undefined));
  return (
    <>
      <Problem problem={problem} answer={answer} />
      {data !== undefined ? (
        <div class={isGrey ? 'stale' : ''}>{children(data)}</div>
      ) : problem === undefined || isAway.value ? (
        <Skeleton {...skeleton} />
      ) : null}
    </>
  );
}

/** Whether a condition has lasted for a while. Most responses arrive fast, so rows should not turn grey and back. */
function useLate(is: boolean): boolean {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    if (!is) return;
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => {
      clearTimeout(timer);
      setLate(false);
    };
  }, [is]);
  return isLate;
}
