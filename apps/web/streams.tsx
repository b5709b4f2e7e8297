/** The account's managed streams: list, create, edit, watch and delete, with the tier's quotas and the sessions. */
import { useRef, useState } from 'preact/hooks';
import { FillstreamError } from '../client/index.ts';
import type { Account, Streams as Answer, EndedSessions, Sessions, Stream } from './answers.ts';
import { fillstream } from './client.ts';
import { CopyButton, DeleteButton, Skeleton } from './controls.tsx';
import { Tile } from './figures.tsx';
import { capital, count, shortAddress, span } from './format.ts';
import { InCode } from './in-code.tsx';
import { key } from './key.ts';
import { KeyPrompt } from './key-prompt.tsx';
import { query, setQuery } from './route.ts';
import { SessionTables } from './sessions.tsx';
import { FIRST_MATCHES, LiveTape } from './tape.tsx';
import { Problem, useAction, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 4_000;
const ENDED_SHOWN = 20;

export function Streams() {
  if (key.value !== '') return <OwnStreams />;
  return <KeyPrompt why="Streams belong to an account, so they need a key." />;
}

function OwnStreams() {
  const watched = query.value.get('watch');
  const ticks = useTicks(REFRESH_MS);
  const [changes, setChanges] = useState(0);
  const refresh = `${ticks} ${changes}`;
  const streams = useAnswer<Answer>('/streams', { refresh });
  const sessions = useAnswer<Sessions>('/sessions', { refresh });
  const ended = useAnswer<EndedSessions>(`/sessions/history?limit=${ENDED_SHOWN}`, { refresh });
  const account = useAnswer<Account>('/v2/user/me');
  const changed = () => setChanges((last) => last + 1);
  if (watched !== null) {
    // What its rows show depends on its traders.
    if (streams.data === undefined && streams.problem === undefined) {
      return <Skeleton rows={8} what="the stream" />;
    }
    return <Watch id={watched} stream={find(streams.data, watched)} onDone={changed} />;
  }
  const data = streams.data?.data;
  const failed = [streams, account, sessions, ended].find(({ problem }) => problem !== undefined);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Streams</h1>
        <p class="sub">
          Named filters that the service keeps, for programs that listen to <code>/streams/…</code>
        </p>
      </div>
      <Quotas
        account={account.data}
        streams={data ?? []}
        sessions={sessions.data?.data.length ?? 0}
        usedSeconds={sessions.data?.used_seconds_today ?? 0}
      />
      {failed === undefined ? null : <Problem problem={failed.problem} answer={failed} />}
      <StreamForm onDone={changed} />
      {data === undefined ? (
        streams.problem === undefined ? (
          <Skeleton rows={4} what="the streams" />
        ) : null
      ) : data.length === 0 ? (
        <p class="card empty">No streams yet. Create one with a name and a filter.</p>
      ) : (
        <ul class="streams">
          {data.map((stream) => (
            <StreamRow key={stream.id} stream={stream} onDone={changed} />
          ))}
        </ul>
      )}
      {sessions.data === undefined ? null : (
        <SessionTables open={sessions.data} ended={ended.data} streams={data ?? []} />
      )}
    </section>
  );
}

function find(answer: Answer | undefined, id: string): Stream | undefined {
  return answer?.data.find((stream) => stream.id === id);
}

/** One stream, live. Its filters can be edited while it runs. */
function Watch(props: {
  readonly id: string;
  readonly stream: Stream | undefined;
  readonly onDone: () => void;
}) {
  const { id, stream, onDone } = props;
  const [editing, setEditing] = useState(false);
  const followed = stream?.addresses ?? [];
  return (
    <section class="full">
      <LiveTape
        title={stream === undefined ? 'Stream' : stream.name}
        name={[id, ...followed].join(' ')}
        followed={followed}
        open={(options) =>
          fillstream.value.stream(id, { finality: true, last: FIRST_MATCHES }, options)
        }
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
            <InCode request={{ stream: id }} />
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

/** Takes the same room while the account is loading, so that nothing below it moves. */
function Quotas(props: {
  readonly account: Account | undefined;
  readonly streams: readonly Stream[];
  readonly sessions: number;
  readonly usedSeconds: number;
}) {
  const tier = props.account?.tier;
  const most = (limit: number | undefined) => (limit === undefined ? '–' : count(limit));
  const naked = props.streams.filter(isUnfiltered);
  const used = span(props.usedSeconds * 1_000);
  const seconds = tier?.stream_seconds_per_day;
  return (
    <dl class="tiles quotas">
      <Tile name="Tier">{capital(tier?.name ?? '–')}</Tile>
      <Tile name="Streams">
        {count(props.streams.length)} <small>of {most(tier?.max_streams)}</small>
      </Tile>
      <Tile name="Without a filter">
        {count(naked.length)} <small>of {most(tier?.max_naked_streams)}</small>
      </Tile>
      <Tile name="Open sessions">
        {count(props.sessions)} <small>of {most(tier?.max_sessions)}</small>
      </Tile>
      <Tile name="Streamed today">
        {used}{' '}
        <small>
          {seconds === null
            ? 'no limit'
            : `of ${seconds === undefined ? '–' : span(seconds * 1_000)}`}
        </small>
      </Tile>
      <Tile name="Limits: traders, tags, series">
        {most(tier?.max_filter_addrs)} · {most(tier?.max_filter_tags)} ·{' '}
        {most(tier?.max_filter_series)}
      </Tile>
    </dl>
  );
}

const ENTRIES_SHOWN = 6;

function StreamRow({ stream, onDone }: { readonly stream: Stream; readonly onDone: () => void }) {
  const [editing, setEditing] = useState(false);
  const { problem, run } = useAction(onDone);

  return (
    <li class="card stream">
      <div class="stream-head">
        <h2>{stream.name}</h2>
        <span class={`badge${stream.enabled ? ' open' : ''}`}>
          {stream.enabled ? 'Enabled' : 'Disabled'}
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
            void run(fillstream.value.updateStream(stream.id, { enabled: !stream.enabled }))
          }
        >
          {stream.enabled ? 'Disable' : 'Enable'}
        </button>
        <DeleteButton onDelete={() => void run(fillstream.value.deleteStream(stream.id))} />
      </div>
      <p class="tags">
        <List name="traders" entries={stream.addresses.map(shortAddress)} />
        <List name="tags" entries={stream.tags} />
        <List name="series" entries={stream.series} />
        <List name="markets" entries={stream.markets.map(shortAddress)} />
        {isUnfiltered(stream) ? <span class="soft">Every match</span> : null}
      </p>
      <p class="ids">
        Id <code>{stream.id}</code>
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

/** Whether a stream counts against the streams without a filter, as the api counts it. */
function isUnfiltered({ addresses, tags, series, markets }: Stream): boolean {
  const isAll = tags.length === 0 || tags.includes('all');
  return isAll && addresses.length + series.length + markets.length === 0;
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

const LISTS = [
  { name: 'addresses', label: 'Traders (addresses, comma-separated)' },
  { name: 'tags', label: 'Tags (comma-separated)' },
  { name: 'series', label: 'Series (slugs, comma-separated)' },
  { name: 'markets', label: 'Markets (ids, condition ids or slugs, comma-separated)' },
] as const;

type Texts = Readonly<Record<'name' | (typeof LISTS)[number]['name'], string>>;
const EMPTY: Texts = { name: '', addresses: '', tags: '', series: '', markets: '' };

/** The form to edit the name and filters of a stream, or to create one for the traders in the URL. */
function StreamForm(props: { readonly stream?: Stream; readonly onDone: () => void }) {
  const { stream, onDone } = props;
  const [texts, setTexts] = useState<Texts>(
    stream === undefined
      ? { ...EMPTY, addresses: query.value.get('addresses') ?? '' }
      : textsOf(stream),
  );
  /** The stream's values when the form was opened or last saved. Unchanged values are not sent. */
  const saved = useRef(texts);
  const [problem, setProblem] = useState<FillstreamError | undefined>(undefined);
  const [busy, setBusy] = useState(false);

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      if (stream === undefined) {
        await fillstream.value.createStream(bodyOf(texts));
        setTexts(EMPTY);
      } else {
        const { name } = texts;
        const lists = LISTS.filter((list) => texts[list.name] !== saved.current[list.name]);
        if (lists.length > 0) {
          const changed = lists.map((list) => [list.name, listOf(texts[list.name])] as const);
          await fillstream.value.updateSubscription(stream.id, Object.fromEntries(changed));
          saved.current = { ...texts, name: saved.current.name };
        }
        if (name !== saved.current.name) await fillstream.value.updateStream(stream.id, { name });
      }
      onDone();
    } catch (error) {
      if (!(error instanceof FillstreamError)) throw error;
      setProblem(error);
    }
    setBusy(false);
  }

  return (
    <form class="card stream-form" onSubmit={(event) => void send(event)}>
      <label class="field tall">
        <span>Name</span>
        <input
          name="name"
          required
          maxLength={64}
          autocomplete="off"
          value={texts.name}
          onInput={(event) => setTexts({ ...texts, name: event.currentTarget.value })}
        />
      </label>
      {LISTS.map(({ name, label }) => (
        <label key={name} class="field tall">
          <span>{label}</span>
          <input
            name={name}
            autocomplete="off"
            spellcheck={false}
            value={texts[name]}
            onInput={(event) => setTexts({ ...texts, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <button type="submit" class="primary" disabled={busy}>
        {stream === undefined ? 'Create stream' : 'Save'}
      </button>
      {problem === undefined ? null : (
        <div class="form-problem">
          <Problem problem={problem} />
        </div>
      )}
    </form>
  );
}

function textsOf({ name, addresses, tags, series, markets }: Stream): Texts {
  return {
    name,
    addresses: addresses.join(', '),
    tags: tags.join(', '),
    series: series.join(', '),
    markets: markets.join(', '),
  };
}

function bodyOf({ name, addresses, tags, series, markets }: Texts) {
  return {
    ...{ name, addresses: listOf(addresses), tags: listOf(tags) },
    ...{ series: listOf(series), markets: listOf(markets) },
  };
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
