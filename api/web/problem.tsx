/** What the server said where there is no answer, in its own words. */
import type { ProblemError } from './client.ts';

export function Problem({ problem }: { readonly problem: ProblemError | undefined }) {
  if (problem === undefined || problem.status === 401) return null;
  return (
    <div class="problem" role="alert">
      <strong>{problem.message}</strong>
      {problem.issues.length < 2 ? null : (
        <ul>
          {problem.issues.map((issue) => (
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
