/** Creates an alert in two clicks, for what a view shows. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { RuleSentence } from './alert-rule.tsx';
import type { AlertRule, Destinations } from './answers.ts';
import { fillstream } from './client.ts';
import { Choice } from './controls.tsx';
import { DestinationChoice } from './destinations.tsx';
import { isAsking, key } from './key.ts';
import { Problem, useAction, useAnswer } from './use-answer.tsx';

/** The API's limit. */
const NAME_MAX = 64;

type Suggestion = {
  /** To choose it among others. */
  readonly title: string;
  /** Of the alert. */
  readonly name: string;
  readonly rule: AlertRule;
};

type Props = {
  readonly suggestions: readonly [Suggestion, ...Suggestion[]];
  /** Names of the traders and markets in the rules. */
  readonly names?: ReadonlyMap<string, string>;
};

export function AlertMe(props: Props & { readonly refusal?: string | undefined }) {
  const { refusal } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  // After its content is there, the first field of which gets the focus.
  useLayoutEffect(() => {
    if (isOpen) dialog.current?.showModal();
  }, [isOpen]);
  return (
    <>
      <button
        type="button"
        class="alert-button"
        disabled={refusal !== undefined}
        title={refusal ?? 'Send an event when this happens'}
        onClick={() => setOpen(true)}
      >
        Alert me
      </button>
      <dialog
        ref={dialog}
        class="card alert-me"
        aria-label="New alert"
        onClose={() => setOpen(false)}
      >
        {!isOpen ? null : key.value === '' ? <NoKey /> : <NewAlert {...props} />}
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  );
}

function NoKey() {
  return (
    <>
      <p>Alerts belong to an account, so they need a key.</p>
      <button
        type="button"
        class="primary"
        onClick={() => {
          isAsking.value = true;
        }}
      >
        Sign in
      </button>
    </>
  );
}

function NewAlert({ suggestions, names }: Props) {
  const [title, setTitle] = useState(suggestions[0].title);
  const [typed, setTyped] = useState<string | undefined>(undefined);
  /** Ids of the destinations that it does not send to. */
  const [left, setLeft] = useState<readonly string[]>([]);
  const [isCreated, setCreated] = useState(false);
  const { busy, problem, run } = useAction();
  const answer = useAnswer<Destinations>('/v2/destinations');
  const all = answer.data?.data ?? [];
  const chosen = all.map(({ id }) => id).filter((id) => !left.includes(id));
  const { name, rule } = suggestions.find((one) => one.title === title) ?? suggestions[0];

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const body = { name: typed ?? cut(name), rule, destinations: chosen };
    if ((await run(fillstream.value.createAlert(body))) !== undefined) setCreated(true);
  }

  if (isCreated) {
    return (
      <p role="status">
        Created. Test, pause or delete it in <a href="/manage/alerts">Alerts</a>, where its events
        are listed, too.
      </p>
    );
  }
  return (
    <form onSubmit={(event) => void send(event)}>
      {suggestions.length === 1 ? null : (
        <Choice
          name="suggestion"
          legend="What to be alerted about"
          choices={suggestions.map((one) => [one.title, one.title])}
          chosen={title}
          onChoose={setTitle}
        />
      )}
      <p>
        <RuleSentence rule={rule} {...(names && { names })} />
      </p>
      <label class="field tall">
        <span>Name</span>
        <input
          required
          maxLength={NAME_MAX}
          autocomplete="off"
          value={typed ?? cut(name)}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <Problem problem={answer.problem} answer={answer} />
      {answer.data === undefined ? null : all.length === 0 ? (
        <p>
          Events will be in the list in <a href="/manage/alerts">Alerts</a>. To get them elsewhere,
          add a destination there.
        </p>
      ) : (
        <DestinationChoice
          legend="Send to"
          destinations={all}
          chosen={chosen}
          onChoose={(ids) => setLeft(all.map(({ id }) => id).filter((id) => !ids.includes(id)))}
        />
      )}
      <Problem problem={problem} />
      <button type="submit" class="primary" disabled={busy || answer.data === undefined}>
        Create
      </button>
    </form>
  );
}

function cut(name: string): string {
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name;
}
