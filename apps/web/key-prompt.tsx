/** Prompts for the API key, and validates it before storing it. */
import { useState } from 'preact/hooks';
import { FillstreamError } from '../client/index.ts';
import { clientWith } from './client.ts';
import { isAsking, isKey, isPublic, isRemembered, refusal, useKey } from './key.ts';
import { REFERENCE } from './route.ts';

/** What a key opens, for visitors who have none. */
const VIEWS = [
  ['Markets', 'odds over time, every trade, who holds what, who won and lost'],
  ['Leaderboard', 'traders by PnL, ROI, win rate or volume, from one hour to 30 days, by topic'],
  ['Traders', 'open positions at their prices, PnL, every trade, results by market'],
  ['Tape', 'each match when it enters the mempool, seconds before its block, with filters'],
  ['Following', 'the traders and markets you choose, with alerts'],
  [
    'Alerts',
    'events for your bot, Telegram, Discord or Slack, taken back if a match never settles',
  ],
  ['API', 'all of this as JSON and CSV, and an event stream that resumes after a disconnect'],
] as const;

export function KeyPrompt({ why }: { readonly why?: string }) {
  const [typed, setTyped] = useState('');
  const [remember, setRemember] = useState(isRemembered);
  const [busy, setBusy] = useState(false);

  async function tryKey(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const given = typed.trim();
    if (!isKey(given)) {
      refusal.value = 'This is not a key. Keys consist of letters, digits, “_” and “-”.';
      return;
    }
    setBusy(true);
    try {
      await clientWith(given).status();
      useKey(given, { remember });
    } catch (error) {
      if (!(error instanceof FillstreamError)) throw error;
      refusal.value = error.message;
    }
    setBusy(false);
  }

  return (
    <section class="prompt card">
      <h1>Your API key</h1>
      <p>
        {why ?? 'The page uses your own key.'} The key is only sent as a header, and it is forgotten
        when you close the last tab of this page, unless you let this device remember it.
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
        <label class="remember">
          <input
            type="checkbox"
            checked={remember}
            onChange={(event) => setRemember(event.currentTarget.checked)}
          />
          Remember on this device
        </label>
      </form>
      {refusal.value === '' ? null : (
        <p class="error" role="alert">
          {refusal.value}
        </p>
      )}
      {isPublic ? (
        <p class="hint">
          Without a key, the page runs as a <b>demo</b>: you can read everything, within the demo
          limits, but you cannot create streams or alerts.{' '}
          <button type="button" class="plain" onClick={continueWithout}>
            Continue without a key
          </button>
        </p>
      ) : (
        <p class="hint">
          The operator of this service issues keys. On the machine where <code>npm start</code>{' '}
          runs, this page needs none.
        </p>
      )}
      <h2>What is here</h2>
      <dl class="behind">
        {VIEWS.map(([title, text]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        The <a href={REFERENCE}>API reference</a> is open to everyone.
      </p>
    </section>
  );
}

function continueWithout(): void {
  refusal.value = '';
  isAsking.value = false;
}
