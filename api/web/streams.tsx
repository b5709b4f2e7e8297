/**
 * The managed streams of the account: list, create, change while they are listened to, watch, delete;
 * beside them the quotas of the tier and the sessions, open and ended.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Account, Streams as Answer, EndedSessions, Sessions, Stream } from './answers.ts';
import { count, span } from './format.ts';
import { Problem } from './problem.tsx';
import { query, setQuery } from './route.ts';
import { SessionTables } from './sessions.tsx';
import { StreamForm } from './stream-form.tsx';
import { StreamRow } from './stream-row.tsx';
import { LiveTape } from './tape.tsx';
import { useAnswer } from './use-answer.ts';
import { useTicks } from './use-ticks.ts';

const REFRESH_MS = 4_000;
const ENDED_SHOWN = 20;

export function Streams() {
  const watched = query.value.get('watch');
  const ticks = useTicks(REFRESH_MS);
  const [changes, setChanges] = useState(0);
  const refresh = `${ticks} ${changes}`;
  const streams = useAnswer<Answer>('/streams', { refresh });
  const sessions = useAnswer<Sessions>('/sessions', { refresh });
  const ended = useAnswer<EndedSessions>(`/sessions/history?limit=${ENDED_SHOWN}`, { refresh });
  const account = useAnswer<Account>('/v2/user/me');
  useEffect(() => {
    if (watched === null) document.title = 'Streams – Fillstream';
  }, [watched]);
  const changed = () => setChanges((last) => last + 1);
  if (watched !== null) {
    return <Watch id={watched} stream={find(streams.data, watched)} onDone={changed} />;
  }
  const data = streams.data?.data;
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Streams</h1>
        <p class="sub">
          named filters that the service keeps, for programs that listen to <code>/streams/…</code>
        </p>
      </div>
      {account.data === undefined ? null : (
        <Quotas
          account={account.data}
          streams={data ?? []}
          sessions={sessions.data?.data.length ?? 0}
          usedSeconds={sessions.data?.used_seconds_today ?? 0}
        />
      )}
      <Problem problem={streams.problem ?? account.problem ?? sessions.problem} />
      <StreamForm onDone={changed} />
      {data === undefined ? null : data.length === 0 ? (
        <p class="card empty">No stream yet. The first one is a name and a filter away.</p>
      ) : (
        <ul class="streams">
          {data.map((stream) => (
            <StreamRow key={stream.id} stream={stream} onDone={changed} />
          ))}
        </ul>
      )}
      <SessionTables open={sessions.data} ended={ended.data} streams={data ?? []} />
    </section>
  );
}

function find(answer: Answer | undefined, id: string): Stream | undefined {
  return answer?.data.find((stream) => stream.id === id);
}

/** One stream, live; its filters change while it is watched. */
function Watch(props: {
  readonly id: string;
  readonly stream: Stream | undefined;
  readonly onDone: () => void;
}) {
  const { id, stream, onDone } = props;
  const [editing, setEditing] = useState(false);
  return (
    <section class="full">
      <LiveTape
        title={stream === undefined ? 'Stream' : stream.name}
        path={`/streams/${encodeURIComponent(id)}`}
        controls={
          <>
            <button
              type="button"
              aria-expanded={editing}
              disabled={stream === undefined}
              onClick={() => setEditing(!editing)}
            >
              Edit
            </button>
            <button type="button" onClick={() => setQuery({ watch: '' })}>
              Back to the list
            </button>
          </>
        }
        below={
          editing && stream !== undefined ? (
            <StreamForm
              stream={stream}
              onDone={() => {
                setEditing(false);
                onDone();
              }}
            />
          ) : null
        }
      />
    </section>
  );
}

function Quotas(props: {
  readonly account: Account;
  readonly streams: readonly Stream[];
  readonly sessions: number;
  readonly usedSeconds: number;
}) {
  const { tier } = props.account;
  const naked = props.streams.filter(
    ({ addresses, tags, series }) => addresses.length + tags.length + series.length === 0,
  );
  const used = span(props.usedSeconds * 1_000);
  return (
    <dl class="tiles quotas">
      <Quota name="Tier">{tier.name}</Quota>
      <Quota name="Streams">
        {count(props.streams.length)} <small>of {count(tier.max_streams)}</small>
      </Quota>
      <Quota name="Without a filter">
        {count(naked.length)} <small>of {count(tier.max_naked_streams)}</small>
      </Quota>
      <Quota name="Open sessions">
        {count(props.sessions)} <small>of {count(tier.max_sessions)}</small>
      </Quota>
      <Quota name="Streamed today">
        {used}{' '}
        <small>
          {tier.stream_seconds_per_day === null
            ? 'no limit'
            : `of ${span(tier.stream_seconds_per_day * 1_000)}`}
        </small>
      </Quota>
      <Quota name="Most traders, tags, series">
        {count(tier.max_filter_addrs)} · {count(tier.max_filter_tags)} ·{' '}
        {count(tier.max_filter_series)}
      </Quota>
    </dl>
  );
}

function Quota(props: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
