/**
 * Hooks that load API responses. While a new response loads, or if it fails, the last one stays; a failure adds
 * its reason.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, FillstreamError } from '../client/index.ts';
import { fillstream } from './client.ts';

export type Answered<Answer> = {
  readonly data: Answer | undefined;
  readonly problem: FillstreamError | undefined;
  /** Whether a request is in flight. */
  readonly busy: boolean;
};

/**
 * Loads `path` whenever it or `refresh` changes; null loads nothing. When `subject` changes, the last response is
 * dropped, because it is about something else.
 */
export function useAnswer<Answer>(
  path: string | null,
  { refresh, subject }: { readonly refresh?: unknown; readonly subject?: string } = {},
): Answered<Answer> {
  const [shown, setShown] = useState<Answered<Answer> & { readonly of: string | undefined }>({
    ...{ data: undefined, problem: undefined, busy: path !== null, of: subject },
  });
  const known = useRef(subject);
  known.current = subject;
  useEffect(() => {
    if (path === null) return;
    const gone = new AbortController();
    setShown((last) => ({ ...last, busy: true }));
    const { signal } = gone;
    fillstream.value.request<Answer>('GET', path, {}, { signal }).then(
      (data) => setShown({ data, problem: undefined, busy: false, of: known.current }),
      (error: unknown) => {
        if (gone.signal.aborted) return;
        if (!(error instanceof FillstreamError)) throw error;
        setShown((last) => ({ ...last, problem: error, busy: false, of: known.current }));
      },
    );
    return () => gone.abort();
  }, [path, refresh]);
  if (shown.of !== subject) return { data: undefined, problem: undefined, busy: path !== null };
  return shown;
}

/** A number that increases at an interval while the tab is visible, to trigger reloads. */
export function useTicks(everyMs: number): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setTicks((last) => last + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return ticks;
}

/** Shows the server's error message. */
export function Problem({ problem }: { readonly problem: FillstreamError | undefined }) {
  if (problem === undefined || problem.status === 401) return null;
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
        {problem.status === 0 ? 'no answer' : `${problem.status} ${problem.code}`}
        {problem.requestId === '' ? '' : `, request ${problem.requestId}`}
      </p>
    </div>
  );
}
