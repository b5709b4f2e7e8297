/** A field that takes effect when its user pauses, leaves it or presses Enter. */
import { useEffect, useState } from 'preact/hooks';

const TYPED_MS = 400;

export function TypedField(props: {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly type: 'text' | 'number';
  readonly wide?: boolean;
  readonly onValue: (value: string) => void;
}) {
  const { name, label, value, type, wide = false, onValue } = props;
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onValue(typed), TYPED_MS);
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
        onChange={(event) => onValue(event.currentTarget.value)}
      />
    </label>
  );
}
