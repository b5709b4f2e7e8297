/** The account's alerts, their destinations, and the events of the last day. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { FillstreamError } from '../client/index.ts';
import { matchRule, type Names, RuleSentence, useNames } from './alert-rule.tsx';
import type { Alert, AlertEvent, Alerts, Destination, Destinations } from './answers.ts';
import { fillstream } from './client.ts';
import { DeleteButton, Skeleton } from './controls.tsx';
import { DestinationChoice, DestinationRow, NewDestination } from './destinations.tsx';
import { Ago } from './figures.tsx';
import { capital } from './format.ts';
import { key } from './key.ts';
import { KeyPrompt } from './key-prompt.tsx';
import { CardTable, type Column } from './table.tsx';
import { Loaded, Problem, useAction, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 4_000;
const EVENTS_SHOWN = 100;
/** The API's limit. */
const EVENTS_PER_PAGE = 500;
/** As high as the text of an empty list. */
const EMPTY_PIXELS = 77;

export function ManagedAlerts() {
  if (key.value !== '') return <OwnAlerts />;
  return <KeyPrompt why="Alerts belong to an account, so they need a key." />;
}

function OwnAlerts() {
  const ticks = useTicks(REFRESH_MS);
  const [changes, setChanges] = useState(0);
  const refresh = `${ticks} ${changes}`;
  const changed = () => setChanges((last) => last + 1);
  const alerts = useAnswer<Alerts>('/v2/alerts', { refresh });
  const destinations = useAnswer<Destinations>('/v2/destinations', { refresh });
  const names = useNames((alerts.data?.data ?? []).map(({ rule }) => rule));
  const all = destinations.data?.data ?? [];
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Alerts</h1>
        <p class="sub">
          An event when something happens, from the mempool on, and another one if the match never
          settles. <a href="/docs/alerts">Guide</a>
        </p>
      </div>
      <AlertForm destinations={all} onDone={changed} />
      <Loaded answer={alerts} rows={0} pixels={EMPTY_PIXELS} what="the alerts">
        {({ data }) =>
          data.length === 0 ? (
            <p class="card empty">
              No alerts yet. Create one above, or use “Alert me” on a trader, on a market or on the
              tape.
            </p>
          ) : (
            <ul class="streams">
              {data.map((alert) => (
                <AlertRow
                  key={alert.id}
                  alert={alert}
                  names={names}
                  destinations={all}
                  onDone={changed}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
      <div class="section-head">
        <h2>Destinations</h2>
      </div>
      <NewDestination onDone={changed} />
      <Loaded answer={destinations} rows={0} pixels={EMPTY_PIXELS} what="the destinations">
        {({ data }) =>
          data.length === 0 ? (
            <p class="card empty">
              No destinations yet. Events are only in the list below. Add one above to get them
              elsewhere.
            </p>
          ) : (
            <ul class="streams">
              {data.map((one) => (
                <DestinationRow key={one.id} destination={one} refresh={refresh} onDone={changed} />
              ))}
            </ul>
          )
        }
      </Loaded>
      <LatestEvents refresh={refresh} />
    </section>
  );
}

const FIELDS = [
  { name: 'traders', label: 'Traders (addresses, comma-separated)' },
  { name: 'markets', label: 'Markets (ids or slugs, comma-separated)' },
  { name: 'tags', label: 'Tags (comma-separated)' },
  { name: 'series', label: 'Series (slugs, comma-separated)' },
  { name: 'min_usdc', label: 'Min size, USDC' },
] as const;

/** An alert about matches that pass filters. */
function AlertForm(props: {
  readonly destinations: readonly Destination[];
  readonly onDone: () => void;
}) {
  const { destinations, onDone } = props;
  const [name, setName] = useState('');
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  /** Ids of the destinations that it does not send to. */
  const [left, setLeft] = useState<readonly string[]>([]);
  const { busy, problem, run } = useAction(onDone);
  const ids = destinations.map(({ id }) => id);
  const chosen = ids.filter((id) => !left.includes(id));

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const body = { name, rule: matchRule(texts), destinations: chosen };
    if ((await run(fillstream.value.createAlert(body))) === undefined) return;
    setName('');
    setTexts({});
    setLeft([]);
  }

  return (
    <form class="card alert-form" onSubmit={(event) => void send(event)}>
      <label class="field tall wide">
        <span>Name of the alert</span>
        <input
          required
          maxLength={64}
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      {FIELDS.map((field) => (
        <label key={field.name} class={`field tall${field.name === 'min_usdc' ? '' : ' wide'}`}>
          <span>{field.label}</span>
          <input
            inputMode={field.name === 'min_usdc' ? 'decimal' : 'text'}
            autocomplete="off"
            spellcheck={false}
            value={texts[field.name] ?? ''}
            onInput={(event) => setTexts({ ...texts, [field.name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <button type="submit" class="primary" disabled={busy}>
        Create alert
      </button>
      {destinations.length === 0 ? null : (
        <DestinationChoice
          legend="Send to"
          destinations={destinations}
          chosen={chosen}
          onChoose={(now) => setLeft(ids.filter((id) => !now.includes(id)))}
        />
      )}
      {problem === undefined ? null : (
        <div class="form-rest">
          <Problem problem={problem} />
        </div>
      )}
    </form>
  );
}

function AlertRow(props: {
  readonly alert: Alert;
  readonly names: Names;
  readonly destinations: readonly Destination[];
  readonly onDone: () => void;
}) {
  const { alert, names, destinations, onDone } = props;
  const { enabled, id, name, rule } = alert;
  const [isTested, setTested] = useState(false);
  /** The destinations that the user chose, until the list has the change. */
  const [wanted, setWanted] = useState({ destinations: alert.destinations, since: '' });
  const { busy, problem, run } = useAction(onDone);

  async function choose(destinations: string[]): Promise<void> {
    setWanted({ destinations, since: alert.updated_at });
    const changed = await run(fillstream.value.updateAlert(id, { destinations }));
    if (changed === undefined) setWanted({ destinations: [], since: '' });
  }

  async function test(): Promise<void> {
    if ((await run(fillstream.value.testAlert(id))) !== undefined) setTested(true);
  }

  return (
    <li class="card stream">
      <div class="stream-head">
        <h2>{name}</h2>
        <span class={`badge${enabled ? ' open' : ''}`}>{enabled ? 'On' : 'Paused'}</span>
        <span class="push" />
        <button type="button" disabled={busy} onClick={() => void test()}>
          Test
        </button>
        <button
          type="button"
          disabled={busy}
          onClick={() => void run(fillstream.value.updateAlert(id, { enabled: !enabled }))}
        >
          {enabled ? 'Pause' : 'Resume'}
        </button>
        <DeleteButton onDelete={() => void run(fillstream.value.deleteAlert(id))} />
      </div>
      <p class="rule">
        <RuleSentence rule={rule} names={names} />
      </p>
      {destinations.length === 0 ? (
        <p class="soft">Its events are only in the list below.</p>
      ) : (
        <DestinationChoice
          legend="Sends to"
          destinations={destinations}
          chosen={wanted.since === alert.updated_at ? wanted.destinations : alert.destinations}
          onChoose={(chosen) => void choose([...chosen])}
        />
      )}
      {isTested ? (
        <p class="soft" role="status">
          Test sent. It is among the latest events and the deliveries.
        </p>
      ) : null}
      <Problem problem={problem} />
    </li>
  );
}

const EVENT: readonly Column<AlertEvent>[] = [
  { title: 'Time', class: 'soft', cell: ({ timestamp }) => <Ago time={timestamp} /> },
  { title: 'Alert', class: 'wide-only', cell: ({ alert }) => alert.name },
  { title: 'Event', class: 'wrap', cell: ({ text }) => text },
  {
    ...{ title: 'State', class: 'c-state' },
    cell: ({ state, type }) => (type === 'test' ? 'Test' : capital(state)),
  },
];

const ROW_CLASSES: Readonly<Record<AlertEvent['state'], string>> = {
  ...{ pending: 'pending', final: 'final', confirmed: 'final', restored: 'final' },
  retracted: 'void',
};

function LatestEvents({ refresh }: { readonly refresh: unknown }) {
  const { events, problem } = useEvents(refresh);
  return (
    <section aria-labelledby="events-title">
      <div class="section-head">
        <h2 id="events-title">Latest events</h2>
        <p class="soft">Of the last day; one that was retracted is struck through</p>
      </div>
      <Problem problem={problem} />
      {events === undefined ? (
        problem === undefined ? (
          <Skeleton rows={0} pixels={EMPTY_PIXELS} what="the events" />
        ) : null
      ) : (
        <CardTable
          label="Latest events"
          class="events"
          columns={EVENT}
          rows={events.toReversed()}
          keyOf={({ id }) => id}
          rowClass={({ state }) => ROW_CLASSES[state]}
          empty="No events yet. Test an alert to see one."
        />
      )}
    </section>
  );
}

/** The newest events, oldest first. Each refresh continues after the last one that was read. */
function useEvents(refresh: unknown) {
  const [events, setEvents] = useState<readonly AlertEvent[] | undefined>(undefined);
  const [problem, setProblem] = useState<FillstreamError | undefined>(undefined);
  const cursor = useRef<number | undefined>(undefined);
  const isReading = useRef(false);
  const gone = useMemo(() => new AbortController(), []);
  useEffect(() => () => gone.abort(), []);

  async function read(): Promise<void> {
    const query = { cursor: cursor.current, limit: EVENTS_PER_PAGE };
    const list = fillstream.value.alertEvents(query, { signal: gone.signal });
    for await (const { events: more, next_cursor } of list.pages()) {
      if (next_cursor !== '') cursor.current = Number(next_cursor);
      setEvents((last = []) => (more.length === 0 ? last : folded([...last, ...more])));
    }
  }

  useEffect(() => {
    if (isReading.current) return;
    isReading.current = true;
    read()
      .then(
        () => setProblem(undefined),
        (error: unknown) => {
          if (gone.signal.aborted) return;
          if (!(error instanceof FillstreamError)) throw error;
          setProblem(error);
        },
      )
      .finally(() => {
        isReading.current = false;
      });
  }, [refresh]);
  return { events, problem };
}

/** What became of an event is the state of its row, unless that is too old to be in the list. */
function folded(events: readonly AlertEvent[]): readonly AlertEvent[] {
  const rows = new Map<string, AlertEvent>();
  for (const event of events) {
    const first = rows.get(event.refers_to ?? '');
    if (first !== undefined) rows.set(first.id, { ...first, state: event.state });
    else if (!rows.has(event.id)) rows.set(event.id, event);
  }
  return [...rows.values()].slice(-EVENTS_SHOWN);
}
