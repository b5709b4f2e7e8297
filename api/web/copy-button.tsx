/** Copies a text, and says that it did. */
import { useState } from 'preact/hooks';

const TOLD_MS = 1_500;

export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [told, setTold] = useState<'' | 'copied' | 'not allowed'>('');
  function copy(): void {
    copied(text).then(
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

async function copied(text: string): Promise<void> {
  if (isSecureContext) return navigator.clipboard.writeText(text);
  // Over plain HTTP from another machine there is no clipboard, but a selection can be copied.
  const area = document.createElement('textarea');
  area.className = 'hidden';
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  if (!isDone) throw new Error('the browser does not copy');
}
