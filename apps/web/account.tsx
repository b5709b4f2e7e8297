/** The visitor's account: its tier and limits, today's usage, and its API keys. */
import { useState } from 'preact/hooks';
import { FillstreamError } from '../client/index.ts';
import type { Account as Answer, ApiKey, Keys, Usage } from './answers.ts';
import { fillstream } from './client.ts';
import { CopyButton, SelectField, Skeleton } from './controls.tsx';
import { Ago, Tile } from './figures.tsx';
import { capital, count, span, timeMs, timeText } from './format.ts';
import { forgetKey, key } from './key.ts';
import { KeyPrompt } from './key-prompt.tsx';
import { CardTable, type Column } from './table.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 4_000;
const DAY_MS = 86_400_000;
const LIFETIMES = [
  ['', 'with this key'],
  ['7', 'in 7 days'],
  ['30', 'in 30 days'],
  ['365', 'in a year'],
] as const;

export function Account() {
  if (key.value !== '') return <Own />;
  return <KeyPrompt why="An account is known by its key." />;
}

function Own() {
  const ticks = useTicks(REFRESH_MS);
  const [changes, setChanges] = useState(0);
  const refresh = `${ticks} ${changes}`;
  const account = useAnswer<Answer>('/v2/user/me');
  const usage = useAnswer<Usage>('/v2/user/telemetry', { refresh });
  const keys = useAnswer<Keys>('/v2/user/keys', { refresh });
  const changed = () => setChanges((last) => last + 1);
  const failed = [account, usage, keys].find(({ problem }) => problem !== undefined);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Account</h1>
        <p class="sub">{account.data === undefined ? '' : account.data.account}</p>
        <button
          type="button"
          class="push"
          onClick={() => forgetKey()}
          title="Forget the key in this browser"
        >
          Sign out
        </button>
      </div>
      {failed === undefined ? null : <Problem problem={failed.problem} answer={failed} />}
      <Limits account={account.data} usage={usage.data} keys={keys.data} />
      <div class="section-head">
        <h2>API keys</h2>
      </div>
      <NewKey onDone={changed} />
      {keys.data === undefined ? (
        <Skeleton rows={4} what="the keys" />
      ) : (
        <KeyTable keys={keys.data.keys} onDone={changed} />
      )}
    </section>
  );
}

function Limits(props: {
  readonly account: Answer | undefined;
  readonly usage: Usage | undefined;
  readonly keys: Keys | undefined;
}) {
  const { account, usage, keys } = props;
  const tier = account?.tier;
  const streamed = usage?.stream_seconds;
  const valid = keys?.keys.filter(({ status }) => status === 'valid').length;
  return (
    <dl class="tiles quotas">
      <Tile name="Tier">{capital(tier?.name ?? '–')}</Tile>
      <Tile name="Requests today">{usage === undefined ? '–' : count(usage.requests.today)}</Tile>
      <Tile name="Requests a second">
        {tier === undefined ? '–' : count(tier.requests_per_second)} <small>a key, </small>
        {tier === undefined ? '–' : count(tier.account_requests_per_second)} <small>in all</small>
      </Tile>
      <Tile name="Open sessions">
        {usage === undefined ? '–' : count(usage.sessions.open)}{' '}
        <small>of {usage === undefined ? '–' : count(usage.sessions.quota)}</small>
      </Tile>
      <Tile name="Streamed today">
        {streamed === undefined ? '–' : span(streamed.today * 1_000)}{' '}
        <small>{streamed?.quota == null ? 'no limit' : `of ${span(streamed.quota * 1_000)}`}</small>
      </Tile>
      <Tile name="Valid keys">
        {valid === undefined ? '–' : count(valid)}{' '}
        <small>of {tier === undefined ? '–' : count(tier.max_keys)}</small>
      </Tile>
    </dl>
  );
}

function NewKey({ onDone }: { readonly onDone: () => void }) {
  const [label, setLabel] = useState('');
  const [days, setDays] = useState('');
  const [made, setMade] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState<FillstreamError | undefined>(undefined);
  const [busy, setBusy] = useState(false);

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      const expires_at =
        days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
      setMade((await fillstream.value.createKey({ label, expires_at })).key);
      setLabel('');
      onDone();
    } catch (error) {
      if (!(error instanceof FillstreamError)) throw error;
      setProblem(error);
    }
    setBusy(false);
  }

  return (
    <form class="card controls key-form" onSubmit={(event) => void send(event)}>
      <label class="field tall">
        <span>Label</span>
        <input
          required
          maxLength={64}
          autocomplete="off"
          placeholder="laptop"
          value={label}
          onInput={(event) => setLabel(event.currentTarget.value)}
        />
      </label>
      <SelectField label="Expires" value={days} choices={LIFETIMES} onValue={setDays} />
      <button type="submit" class="primary" disabled={busy}>
        Create a key
      </button>
      <Problem problem={problem} />
      {made === undefined ? null : (
        <p class="new-key" role="status">
          Store this key now, because it is shown only once: <code>{made}</code>
          <CopyButton text={made} what="the new key" />
        </p>
      )}
    </form>
  );
}

function KeyTable(props: { readonly keys: readonly ApiKey[]; readonly onDone: () => void }) {
  const [asking, setAsking] = useState('');
  const [problem, setProblem] = useState<FillstreamError | undefined>(undefined);

  function revoke(id: string): void {
    setProblem(undefined);
    fillstream.value.deleteKey(id).then(props.onDone, (error: unknown) => {
      if (!(error instanceof FillstreamError)) throw error;
      setProblem(error);
    });
  }
  const columns: readonly Column<ApiKey>[] = [
    { title: 'Label', isHead: true, cell: ({ label }) => label },
    { title: 'Id', class: 'soft wide-only', cell: ({ id }) => <code>{id}</code> },
    {
      title: 'Status',
      cell: ({ status, is_current }) => (
        <span class={`badge${status === 'valid' ? ' open' : ''}`}>
          {is_current ? 'This key' : capital(status)}
        </span>
      ),
    },
    {
      ...{ title: 'Created', class: 'figure wide-only' },
      cell: ({ created_at }) => <Ago time={created_at} />,
    },
    {
      ...{ title: 'Expires', class: 'figure wide-only' },
      cell: ({ expires_at }) => (expires_at === '' ? 'Never' : timeText(timeMs(expires_at) ?? 0)),
    },
    {
      ...{ title: <span class="hidden">Revoke</span>, class: 'figure' },
      cell: ({ id, status }) =>
        status !== 'valid' ? null : asking === id ? (
          <>
            <button type="button" class="danger" onClick={() => revoke(id)}>
              Revoke permanently
            </button>{' '}
            <button type="button" onClick={() => setAsking('')}>
              Keep
            </button>
          </>
        ) : (
          <button type="button" class="danger" onClick={() => setAsking(id)}>
            Revoke
          </button>
        ),
    },
  ];
  return (
    <>
      <Problem problem={problem} />
      <CardTable
        label="API keys"
        columns={columns}
        rows={props.keys}
        keyOf={({ id }) => id}
        empty="No keys."
      />
    </>
  );
}
