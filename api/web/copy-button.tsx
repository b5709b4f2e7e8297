/** Copies a text, and says that it did. */
import { useState } from 'preact/hooks';

const TOLD_MS = 1_500;

export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [told, setTold] = useState<'' | 'copied' | 'not allowed'>('');
  function copy(): void {
    navigator.clipboard.writeText(text).then(
      () => setTold('copied'),
      () => setTold('not allowed'),
    );
    setTimeout(() => setTold(''), TOLD_MS);
  }
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{told === '' ? 'copy' : told}</span>
    </button>
  );
}
