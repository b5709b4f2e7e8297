/** Asks for the API key, once per tab, and checks it before storing it. */
import { useState } from 'preact/hooks';
import { FillstreamError } from '../client/index.ts';
import { clientWith } from './client.ts';
import { forgetKey, refusal, useKey } from './key.ts';

export function KeyPrompt() {
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);

  async function tryKey(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const given = typed.trim();
    setBusy(true);
    try {
      await clientWith(given).status();
      useKey(given);
    } catch (error) {
      if (!(error instanceof FillstreamError)) throw error;
      forgetKey(error.message);
    }
    setBusy(false);
  }

  return (
    <section class="prompt card">
      <h1>Your API key</h1>
      <p>
        The page uses your own key. It stays in this tab, is only sent as a header, and is forgotten
        when the tab closes.
      </p>
      <form onSubmit={(event) => void tryKey(event)}>
        <label for="key">Key</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="fs_pro_…"
          required
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={busy}>
          Open
        </button>
      </form>
      {refusal.value === '' ? null : (
        <p class="error" role="alert">
          {refusal.value}
        </p>
      )}
      <p class="hint">
        <code>npm start</code> prints a key of each tier, and a link that opens this page with one.
      </p>
    </section>
  );
}
