/**
 * Alerts for matches of the traders that the user follows, shown in every view. While the page is in the background,
 * they are system notifications, if the user allows them. One tab listens for all.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { FillstreamError, type LabelledMatch, traded } from '../client/index.ts';
import { fillstream } from './client.ts';
import { Ago } from './figures.tsx';
import { followed } from './follow.tsx';
import { amount, cents, count, nameOf } from './format.ts';
import { go, route } from './route.ts';
import { sharedFeed } from './shared-feed.ts';
import { readStored, tabChannel, writeStored } from './stored.ts';

const NAME = 'fillstream.alerts';

type Alert = {
  /** The match; '' for none. */
  readonly id: string;
  readonly isVoid: boolean;
  readonly title: string;
  readonly text: string;
  readonly path: string;
  /** ISO 8601. */
  readonly time: string;
};

/** What becomes of a match. */
type Sequel = Pick<Alert, 'id' | 'isVoid'>;

const isWanted = signal(readStored(NAME) === 'on');
const NO_MATCH: Sequel = { id: '', isVoid: false };
const alert = signal<Alert | undefined>(undefined);
/** Number of alerts since the user last dismissed one. */
const others = signal(0);

const tabs = tabChannel(NAME);
tabs.addEventListener('message', ({ data }: MessageEvent<Alert | Sequel>) =>
  'title' in data ? show(data) : settle(data),
);
addEventListener('storage', ({ key, newValue }) => {
  if (key === NAME) isWanted.value = newValue === 'on';
});

export function AlertSwitch() {
  return (
    <button
      type="button"
      aria-pressed={isWanted.value}
      title="Show each match of the traders you follow in every view, and as a system notification while this page is in the background"
      onClick={() => {
        want(!isWanted.value);
        if (isWanted.value && 'Notification' in globalThis) void Notification.requestPermission();
      }}
    >
      Alert me
    </button>
  );
}

function want(is: boolean): void {
  isWanted.value = is;
  writeStored(NAME, is ? 'on' : 'off');
}

/** Listens while it is mounted, and shows the newest alert. */
export function Alerts() {
  const traders = followed.trader.value.map(({ id }) => id).join(',');
  const client = fillstream.value;
  useEffect(() => {
    if (!isWanted.value || traders === '') return;
    const gone = new AbortController();
    void listenAlone(traders.split(','), gone.signal);
    return () => gone.abort();
  }, [isWanted.value, traders, client]);
  return (
    <div class="alerts" role="status">
      {alert.value === undefined || route.value.view === 'following' ? null : (
        <Shown {...alert.value} />
      )}
    </div>
  );
}

/** Stays until it is dismissed, opened, or replaced by the next. */
function Shown({ title, text, path, time, isVoid }: Alert) {
  return (
    <div class="card alert">
      <a href={path} onClick={dismiss}>
        <b>
          {isVoid ? 'Void: ' : ''}
          {title}
        </b>
        {text}
      </a>
      <p class="soft" aria-live="off">
        <Ago time={time} />
        {others.value === 0 ? null : (
          <a href="/following" onClick={dismiss}>
            and {count(others.value)} more
          </a>
        )}
      </p>
      <button type="button" class="icon" aria-label="Dismiss" onClick={dismiss}>
        <span aria-hidden="true">×</span>
      </button>
    </div>
  );
}

function dismiss(): void {
  alert.value = undefined;
  others.value = 0;
}

function show(next: Alert): void {
  if (alert.value !== undefined) others.value += 1;
  alert.value = next;
}

/** A match that was shown did not settle, or did after all. */
function settle({ id, isVoid }: Sequel): void {
  if (alert.value?.id === id) alert.value = { ...alert.value, isVoid };
}

/** Waits until no other tab listens. Browsers offer locks only in secure contexts, and not if storage is blocked. */
async function listenAlone(traders: readonly string[], signal: AbortSignal): Promise<void> {
  try {
    if ('locks' in navigator) {
      await navigator.locks
        .request(NAME, { signal }, () => listen(traders, signal))
        .catch(async (error: unknown) => {
          const isBlocked = error instanceof DOMException && error.name === 'SecurityError';
          if (!isBlocked) throw error;
          await listen(traders, signal);
        });
    } else {
      await listen(traders, signal);
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof FillstreamError)) throw error;
    want(false);
    const time = new Date().toISOString();
    show({ ...NO_MATCH, title: 'Alerts stopped', text: error.message, path: '/following', time });
  }
}

async function listen(traders: readonly string[], signal: AbortSignal): Promise<void> {
  for await (const event of sharedFeed({ traders: traders.join(',') }, { signal })) {
    if (event.type === 'void' || event.type === 'restored') {
      const sequel = { id: event.data.match_id, isVoid: event.type === 'void' };
      settle(sequel);
      tabs.postMessage(sequel);
    }
    if (event.type !== 'order') continue;
    const next = alertOf(event.data, new Set(traders));
    show(next);
    tabs.postMessage(next);
    if (document.hidden) notify(next);
  }
}

function notify({ title, text, path }: Alert): void {
  if (!('Notification' in globalThis) || Notification.permission !== 'granted') return;
  const shown = notificationOf(title, { body: text, tag: NAME });
  shown?.addEventListener('click', () => {
    shown.close();
    window.focus();
    go(path);
  });
}

/** Undefined on Android, where Chrome shows notifications of service workers only. */
function notificationOf(title: string, options: NotificationOptions): Notification | undefined {
  try {
    return new Notification(title, options);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function alertOf(match: LabelledMatch, traders: ReadonlySet<string>): Alert {
  const { market, maker_orders, taker_order } = match;
  const { outcome, shares, side, trader, usdc } = traded(taker_order, maker_orders, traders);
  const what = `${side === 'BUY' ? 'bought' : 'sold'} ${outcome} at ${cents(usdc, shares)}`;
  return {
    ...{ id: match.match_id, isVoid: false },
    title: `${nameOf(trader)} ${what} for ${amount(usdc)} USDC`,
    text: market.question,
    path: market.id === '0' ? `/trader/${trader.address}` : `/market/${market.id}`,
    time: match.timestamp,
  };
}
