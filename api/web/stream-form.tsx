/** Name and filters of a stream: to create one, or to change one while it is listened to. */
import { useState } from 'preact/hooks';
import type { Stream } from './answers.ts';
import { ask, ProblemError } from './client.ts';
import { Problem } from './problem.tsx';

const LISTS = [
  { name: 'addresses', label: 'Traders (addresses, by comma)' },
  { name: 'tags', label: 'Tags (by comma)' },
  { name: 'series', label: 'Series (slugs, by comma)' },
] as const;

type Texts = Readonly<Record<'name' | (typeof LISTS)[number]['name'], string>>;
const EMPTY: Texts = { name: '', addresses: '', tags: '', series: '' };

/** Without a stream it creates one. */
export function StreamForm(props: { readonly stream?: Stream; readonly onDone: () => void }) {
  const { stream, onDone } = props;
  const [texts, setTexts] = useState<Texts>(stream === undefined ? EMPTY : textsOf(stream));
  const [problem, setProblem] = useState<ProblemError | undefined>(undefined);
  const [busy, setBusy] = useState(false);

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      if (stream === undefined) {
        await ask('/streams', { method: 'POST', body: bodyOf(texts) });
        setTexts(EMPTY);
      } else {
        const path = `/streams/${stream.id}`;
        const { name, ...lists } = bodyOf(texts);
        await ask(`${path}/subscription`, { method: 'PUT', body: lists });
        if (name !== stream.name) await ask(`${path}/meta`, { method: 'PUT', body: { name } });
      }
      onDone();
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
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

function textsOf({ name, addresses, tags, series }: Stream): Texts {
  return {
    name,
    addresses: addresses.join(', '),
    tags: tags.join(', '),
    series: series.join(', '),
  };
}

function bodyOf({ name, addresses, tags, series }: Texts) {
  return { name, addresses: listOf(addresses), tags: listOf(tags), series: listOf(series) };
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
