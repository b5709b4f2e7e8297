/**
 * An answer of the API as a component sees it. While the next one is on its way the last one stays,
 * and where that fails it still stays, beside the reason.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, ProblemError } from './client.ts';

export type Answered<Answer> = {
  readonly data: Answer | undefined;
  readonly problem: ProblemError | undefined;
  /** Whether a request is under way. */
  readonly busy: boolean;
};

/**
 * Asks for `path` whenever it changes, and again whenever `refresh` does; null asks for nothing.
 * With another `subject` the last answer is of something else and is dropped.
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
    ask<Answer>(path, { signal: gone.signal }).then(
      (data) => setShown({ data, problem: undefined, busy: false, of: known.current }),
      (error: unknown) => {
        if (gone.signal.aborted) return;
        if (!(error instanceof ProblemError)) throw error;
        setShown((last) => ({ ...last, problem: error, busy: false, of: known.current }));
      },
    );
    return () => gone.abort();
  }, [path, refresh]);
  if (shown.of !== subject) return { data: undefined, problem: undefined, busy: path !== null };
  return shown;
}
