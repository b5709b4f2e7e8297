/** Where the alerts of the account send events: list, create, enable, rotate the secret, deliveries, delete. */
import { useState } from 'preact/hooks';
import type { CreateDestinationBody } from '../client/index.ts';
import type { Deliveries, Delivery, Destination } from './answers.ts';
import { fillstream } from './client.ts';
import { CopyButton, DeleteButton, SelectField } from './controls.tsx';
import { Ago } from './figures.tsx';
import { clock, count } from './format.ts';
import { forgetDestination, keepDestination, pushObstacle, subscribe } from './push.ts';
import { CardTable, type Column } from './table.tsx';
import { Loaded, Problem, useAction, useAnswer } from './use-answer.tsx';

const DELIVERIES_SHOWN = 20;

type Kind = Destination['kind'];

/** Its fields are the members of its target. */
const KINDS: Readonly<
  Record<
    Kind,
    {
      readonly title: string;
      readonly help: string;
      readonly fields: readonly {
        readonly name: string;
        readonly label: string;
        readonly example: string;
      }[];
    }
  >
> = {
  webhook: {
    title: 'Webhook',
    help: 'Your own server. It gets each event as a signed POST; verify it with a library of Standard Webhooks.',
    fields: [{ name: 'url', label: 'URL', example: 'https://bot.example/fillstream' }],
  },
  telegram: {
    title: 'Telegram',
    help: 'Create a bot with @BotFather to get its token, and write to it. The bot’s getUpdates method shows the id of the chat.',
    fields: [
      { name: 'bot_token', label: 'Bot token', example: '123456789:AA…' },
      { name: 'chat_id', label: 'Chat id', example: '-1001234567890' },
    ],
  },
  discord: {
    title: 'Discord',
    help: 'In the settings of a channel, open Integrations, create a webhook and copy its URL.',
    fields: [{ name: 'url', label: 'Webhook URL', example: 'https://discord.com/api/webhooks/…' }],
  },
  slack: {
    title: 'Slack',
    help: 'In the settings of your Slack app, open Incoming Webhooks, add one to a channel and copy its URL.',
    fields: [{ name: 'url', label: 'Webhook URL', example: 'https://hooks.slack.com/services/…' }],
  },
  push: {
    title: 'Browser',
    help: 'Notifications of this browser, also while the page is closed. They are encrypted, so the push service of the browser cannot read them.',
    fields: [],
  },
};

/** A browser can only subscribe itself. */
const choiceOf = (kind: string, title: string) => (kind === 'push' ? 'This browser' : title);

export function NewDestination({ onDone }: { readonly onDone: () => void }) {
  const [kind, setKind] = useState<Kind>('webhook');
  const [name, setName] = useState('');
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [made, setMade] = useState<string | null>(null);
  /** Why the browser did not subscribe. */
  const [refusal, setRefusal] = useState('');
  const { busy, problem, run } = useAction(onDone);
  const { fields, help } = KINDS[kind];
  const obstacle = kind === 'push' ? pushObstacle() : undefined;

  async function create() {
    const target =
      kind === 'push'
        ? await subscribe()
        : Object.fromEntries(fields.map((one) => [one.name, texts[one.name]?.trim()]));
    const body = { name, target: { kind, ...target } } as CreateDestinationBody;
    const created = await fillstream.value.createDestination(body);
    if (kind === 'push') keepDestination(created.destination.id);
    return created;
  }

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setRefusal('');
    try {
      const created = await run(create());
      if (created === undefined) return;
      setMade(created.secret);
      setName('');
      setTexts({});
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      setRefusal(error.message);
    }
  }

  return (
    <form class="card alert-form" onSubmit={(event) => void send(event)}>
      <SelectField
        label="Kind"
        class="tall"
        value={kind}
        choices={Object.entries(KINDS).map(([one, { title }]) => [one, choiceOf(one, title)])}
        onValue={(chosen) => {
          setKind(chosen as Kind);
          setTexts({});
          setRefusal('');
        }}
      />
      <label class="field tall">
        <span>Name</span>
        <input
          required
          maxLength={64}
          autocomplete="off"
          placeholder={kind === 'push' ? 'my laptop' : 'my bot'}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      {fields.map((field) => (
        <label key={field.name} class="field tall wide">
          <span>{field.label}</span>
          <input
            required
            autocomplete="off"
            spellcheck={false}
            placeholder={field.example}
            value={texts[field.name] ?? ''}
            onInput={(event) => setTexts({ ...texts, [field.name]: event.currentTarget.value })}
          />
        </label>
      ))}
      {obstacle === undefined ? (
        <button type="submit" class="primary" disabled={busy}>
          {kind === 'push' ? 'Add this browser' : 'Add destination'}
        </button>
      ) : null}
      <p class="form-rest soft">{obstacle ?? help}</p>
      {refusal === '' ? null : (
        <p class="form-rest loss" role="alert">
          The browser did not subscribe: {refusal}
        </p>
      )}
      {problem === undefined ? null : (
        <div class="form-rest">
          <Problem problem={problem} />
        </div>
      )}
      <Secret secret={made} />
    </form>
  );
}

/** The signing secret of a webhook, after it was created. */
function Secret({ secret }: { readonly secret: string | null }) {
  if (secret === null) return null;
  return (
    <p class="new-key form-rest" role="status">
      Store this signing secret now, because it is not shown again: <code>{secret}</code>{' '}
      <CopyButton text={secret} what="the signing secret" />
    </p>
  );
}

export function DestinationRow(props: {
  readonly destination: Destination;
  readonly refresh: unknown;
  readonly onDone: () => void;
}) {
  const { destination, refresh, onDone } = props;
  const { enabled, id, kind, name, target, waiting } = destination;
  const [isOpen, setOpen] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const { busy, problem, run } = useAction(onDone);

  async function remove(): Promise<void> {
    if ((await run(fillstream.value.deleteDestination(id))) === undefined) return;
    if (kind === 'push') await forgetDestination(id);
  }

  async function rotate(): Promise<void> {
    const rotated = await run(fillstream.value.rotateSecret(id));
    if (rotated !== undefined) setSecret(rotated.secret);
  }

  return (
    <li class="card stream">
      <div class="stream-head">
        <h3>{name}</h3>
        <State destination={destination} />
        <span class="soft">{count(waiting)} waiting</span>
        <span class="push" />
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Deliveries
        </button>
        <button
          type="button"
          class={enabled ? '' : 'primary'}
          disabled={busy}
          onClick={() => void run(fillstream.value.updateDestination(id, { enabled: !enabled }))}
        >
          {enabled ? 'Pause' : 'Enable'}
        </button>
        {kind === 'webhook' ? (
          <button
            type="button"
            disabled={busy}
            title="Makes a new signing secret. The former one also signs for 24 hours."
            onClick={() => void rotate()}
          >
            Rotate secret
          </button>
        ) : null}
        <DeleteButton onDelete={() => void remove()} />
      </div>
      <p class="rule soft">
        {KINDS[kind].title}: {target}
      </p>
      <Secret secret={secret} />
      <Problem problem={problem} />
      {isOpen ? <DeliveryTable id={id} refresh={refresh} onDone={onDone} /> : null}
    </li>
  );
}

function State({ destination }: { readonly destination: Destination }) {
  const { disabled_because, enabled, failing_since } = destination;
  if (!enabled) {
    const why =
      disabled_because === 'gone'
        ? 'It no longer exists'
        : disabled_because === 'failing'
          ? 'Nothing could be delivered for three days'
          : '';
    return (
      <>
        <span class="badge">{disabled_because === null ? 'Paused' : 'Disabled'}</span>
        {why === '' ? null : <span class="loss">{why}</span>}
      </>
    );
  }
  if (failing_since === null) return <span class="badge open">Working</span>;
  return (
    <span class="loss">
      Failing since <Ago time={failing_since} />
    </span>
  );
}

function DeliveryTable(props: {
  readonly id: string;
  readonly refresh: unknown;
  readonly onDone: () => void;
}) {
  const { id, refresh, onDone } = props;
  const answer = useAnswer<Deliveries>(
    `/v2/destinations/${id}/deliveries?limit=${DELIVERIES_SHOWN}`,
    { refresh },
  );
  const { busy, problem, run } = useAction(onDone);
  const columns: readonly Column<Delivery>[] = [
    { title: 'Event', class: 'wrap', isHead: true, cell: ({ event }) => event.text },
    { title: 'Status', cell: statusText },
    { title: 'Attempt', class: 'figure', cell: ({ attempt }) => count(attempt) },
    { title: 'Time', class: 'figure', cell: ({ time }) => <Ago time={time} /> },
    { title: 'Response', class: 'wrap soft', cell: ({ response }) => response || '–' },
    {
      ...{ title: <span class="hidden">Deliver again</span>, class: 'figure' },
      cell: ({ event }) => (
        <button
          type="button"
          disabled={busy}
          onClick={() => void run(fillstream.value.redeliver(id, event.id))}
        >
          Deliver again
        </button>
      ),
    },
  ];
  return (
    <div class="deliveries">
      <Problem problem={problem} />
      <Loaded answer={answer} rows={2} what="the deliveries">
        {({ data }) => (
          <CardTable
            label="Latest deliveries"
            columns={columns}
            rows={data}
            keyOf={({ attempt, event, time }) => `${event.id} ${attempt} ${time}`}
            empty="No deliveries in the last seven days. Test an alert that sends here."
          />
        )}
      </Loaded>
    </div>
  );
}

function statusText({ delivered, retry_at, status }: Delivery) {
  const code = status === null ? '' : ` ${status}`;
  if (delivered) return <span class="gain">Delivered{code}</span>;
  return (
    <span class="loss">
      Failed{code}
      {retry_at === null ? '' : `, next attempt ${clock(Date.parse(retry_at))} UTC`}
    </span>
  );
}

/** The destinations of one alert. */
export function DestinationChoice(props: {
  readonly legend: string;
  readonly destinations: readonly Destination[];
  readonly chosen: readonly string[];
  readonly onChoose: (chosen: readonly string[]) => void;
}) {
  const { legend, destinations, chosen, onChoose } = props;
  return (
    <fieldset class="checks">
      <legend>{legend}</legend>
      {destinations.map(({ id, kind, name }) => (
        <label key={id}>
          <input
            type="checkbox"
            checked={chosen.includes(id)}
            onChange={(event) => {
              const others = chosen.filter((one) => one !== id);
              onChoose(event.currentTarget.checked ? [...others, id] : others);
            }}
          />{' '}
          {name} <span class="soft">{KINDS[kind].title}</span>
        </label>
      ))}
    </fieldset>
  );
}
