/** One stream of the list with what can be done to it. Deleting asks again in place. */
import { useState } from 'preact/hooks';
import type { Stream } from './answers.ts';
import { ask, ProblemError } from './client.ts';
import { CopyButton } from './copy-button.tsx';
import { count, shortAddress } from './format.ts';
import { Problem } from './problem.tsx';
import { setQuery } from './route.ts';
import { StreamForm } from './stream-form.tsx';

const ENTRIES_SHOWN = 6;

export function StreamRow({
  stream,
  onDone,
}: {
  readonly stream: Stream;
  readonly onDone: () => void;
}) {
  const [editing, setEditing] = useState(false);
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemError | undefined>(undefined);
  const path = `/streams/${stream.id}`;

  function change(request: Promise<unknown>): void {
    setProblem(undefined);
    request.then(onDone, (error: unknown) => {
      if (!(error instanceof ProblemError)) throw error;
      setProblem(error);
    });
  }

  return (
    <li class="card stream">
      <div class="stream-head">
        <h2>{stream.name}</h2>
        <span class={`badge${stream.enabled ? ' open' : ''}`}>
          {stream.enabled ? 'enabled' : 'disabled'}
        </span>
        <span class="soft">
          {count(stream.active_sessions)} {stream.active_sessions === 1 ? 'listener' : 'listeners'}
        </span>
        <span class="push" />
        <button
          type="button"
          class="primary"
          disabled={!stream.enabled}
          onClick={() => setQuery({ watch: stream.id })}
        >
          Watch
        </button>
        <button type="button" aria-expanded={editing} onClick={() => setEditing(!editing)}>
          Edit
        </button>
        <button
          type="button"
          onClick={() =>
            change(ask(`${path}/meta`, { method: 'PUT', body: { enabled: !stream.enabled } }))
          }
        >
          {stream.enabled ? 'Disable' : 'Enable'}
        </button>
        {asking ? (
          <>
            <button
              type="button"
              class="danger"
              onClick={() => change(ask(path, { method: 'DELETE' }))}
            >
              Delete for good
            </button>
            <button type="button" onClick={() => setAsking(false)}>
              Keep
            </button>
          </>
        ) : (
          <button type="button" class="danger" onClick={() => setAsking(true)}>
            Delete
          </button>
        )}
      </div>
      <p class="tags">
        <List name="traders" entries={stream.addresses.map(shortAddress)} />
        <List name="tags" entries={stream.tags} />
        <List name="series" entries={stream.series} />
        {stream.addresses.length + stream.tags.length + stream.series.length === 0 ? (
          <span class="soft">every match</span>
        ) : null}
      </p>
      <p class="ids">
        id <code>{stream.id}</code>
        <CopyButton text={stream.id} what="the stream's id" />
      </p>
      <Problem problem={problem} />
      {editing ? (
        <StreamForm
          stream={stream}
          onDone={() => {
            setEditing(false);
            onDone();
          }}
        />
      ) : null}
    </li>
  );
}

function List({ name, entries }: { readonly name: string; readonly entries: readonly string[] }) {
  if (entries.length === 0) return null;
  const more = entries.length - ENTRIES_SHOWN;
  return (
    <>
      <span class="soft">{name}</span>
      {entries.slice(0, ENTRIES_SHOWN).map((entry) => (
        <span key={entry} class="tag">
          {entry}
        </span>
      ))}
      {more > 0 ? <span class="soft">and {count(more)} more</span> : null}
    </>
  );
}
