/** Small controls that several views use: pager, scroll area, choices, typed field, copy button. */

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Turns the pages of a list. A direction without a function is disabled. */
export function Pager(props: {
  readonly label: string;
  readonly first: (() => void) | undefined;
  readonly previous: (() => void) | undefined;
  readonly next: (() => void) | undefined;
  /** Whether the page that is shown is one of other settings. */
  readonly isStale: boolean;
  /** Describes what is shown. */
  readonly children: ComponentChildren;
}) {
  const { label, first, previous, next, isStale, children } = props;
  return (
    <nav class="pager" aria-label={label}>
      <span>{children}</span>
      <button type="button" disabled={first === undefined} onClick={first}>
        First
      </button>
      <button type="button" disabled={previous === undefined} onClick={previous}>
        Previous
      </button>
      <button
        type="button"
        disabled={next === undefined}
        // It keeps the focus, unlike with `disabled`.
        aria-disabled={isStale}
        onClick={isStale ? undefined : next}
      >
        Next
      </button>
    </nav>
  );
}

/** Reserves the space of loading content, rows of a table or a number of pixels, so that nothing moves later. */
export function Skeleton(props: {
  readonly rows: number;
  readonly what: string;
  readonly pixels?: number;
  /** Whether the rows have two lines on a phone. */
  readonly tall?: boolean;
}) {
  const { rows, what, pixels, tall = false } = props;
  return (
    <div
      class={`card skeleton ${tall ? 'tall' : ''}`}
      role="status"
      aria-label={`Loading ${what}`}
      style={pixels === undefined ? undefined : { height: `${pixels}px` }}
    >
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  );
}

/** Scrolls content that is wider than the screen; reachable by keyboard. */
export function Scroll(props: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a section would be a landmark of the same name as the one around it
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
    <div class="card scroll" role="group" aria-label={props.label} tabIndex={0}>
      {props.children}
    </div>
  );
}

/** Deletes something after a second click, on another button. */
export function DeleteButton({ onDelete }: { readonly onDelete: () => void }) {
  const [asking, setAsking] = useState(false);
  if (!asking) {
    return (
      <button type="button" class="danger" onClick={() => setAsking(true)}>
        Delete
      </button>
    );
  }
  return (
    <>
      <button type="button" class="danger" onClick={onDelete}>
        Delete permanently
      </button>
      <button type="button" onClick={() => setAsking(false)}>
        Keep
      </button>
    </>
  );
}

/** A choice between a few values, as a row of segments. */
export function Choice<Value extends string>(props: {
  readonly name: string;
  readonly legend: string;
  readonly class?: string;
  readonly choices: readonly (readonly [value: Value, title: string])[];
  readonly chosen: string;
  readonly onChoose: (value: Value) => void;
}) {
  return (
    <fieldset class={`segments ${props.class ?? ''}`}>
      <legend class="hidden">{props.legend}</legend>
      {props.choices.map(([value, title]) => (
        <label key={value}>
          <input
            type="radio"
            name={props.name}
            value={value}
            checked={value === props.chosen}
            onChange={() => props.onChoose(value)}
          />
          <span>{title}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** A choice between many values. */
export function SelectField(props: {
  readonly label: string;
  readonly class?: string;
  readonly value: string;
  readonly choices: readonly (readonly [value: string, title: string])[];
  readonly onValue: (value: string) => void;
}) {
  return (
    <label class={`field ${props.class ?? ''}`}>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onValue(event.currentTarget.value)}>
        {props.choices.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A text field that takes effect when the user pauses, leaves it or presses Enter. */

const TYPED_MS = 400;

export function TypedField(props: {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly type: 'text' | 'number';
  readonly wide?: boolean | undefined;
  /** Gets it without spaces around it. */
  readonly onValue: (value: string) => void;
}) {
  const { name, label, value, type, wide = false, onValue } = props;
  const [typed, setTyped] = useState(value);
  /** The value that this field gave, or got, last. */
  const own = useRef(value);
  function give(text: string): void {
    own.current = text.trim();
    onValue(own.current);
  }
  // Its own value may come back after the next key. Text that is typed, such as a space at the end, stays.
  useEffect(() => {
    if (value === own.current) return;
    own.current = value;
    setTyped(value);
  }, [value]);
  useEffect(() => {
    if (typed.trim() === value) return;
    const timer = setTimeout(() => give(typed), TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed, value]);
  return (
    <label class={`field tall${wide ? ' wide' : ''}`}>
      <span>{label}</span>
      <input
        type="text"
        inputMode={type === 'number' ? 'decimal' : 'text'}
        name={name}
        spellcheck={false}
        autocomplete="off"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => give(event.currentTarget.value)}
      />
    </label>
  );
}

/** Copies text to the clipboard and confirms it. */

const TOLD_MS = 1_500;

export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [outcome, setOutcome] = useState<'Copy' | 'Copied' | 'Not allowed'>('Copy');
  function copy(): void {
    copied(text).then(
      () => setOutcome('Copied'),
      () => setOutcome('Not allowed'),
    );
    setTimeout(() => setOutcome('Copy'), TOLD_MS);
  }
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{outcome}</span>
    </button>
  );
}

async function copied(text: string): Promise<void> {
  if (isSecureContext) return navigator.clipboard.writeText(text);
  // Without HTTPS there is no clipboard API, but selected text can be copied.
  const area = document.createElement('textarea');
  area.className = 'hidden';
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  if (!isDone) throw new Error('the browser refused to copy');
}
