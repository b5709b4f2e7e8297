/** Values in tables and tiles: amounts, ratios, sides and ages, with sign and colour together. */
import type { ComponentChildren } from 'preact';
import {
  amount,
  exact,
  type Micro,
  percent,
  signed,
  span,
  timeMs,
  timeText,
  tone,
} from './format.ts';
import { isSimulated } from './simulated.ts';
import { now } from './status-strip.tsx';

/** A PnL, in USDC. */
export function Pnl({ micro, decimals }: { readonly micro: Micro; readonly decimals?: number }) {
  const text = signed(micro, decimals);
  return (
    <span class={tone(micro, text)} title={exact(micro)}>
      {text}
    </span>
  );
}

/** An amount without direction, in USDC. */
export function Usdc({
  micro,
  decimals = 0,
}: {
  readonly micro: Micro;
  readonly decimals?: number;
}) {
  return <span title={exact(micro)}>{amount(micro, decimals)}</span>;
}

export function Roi({ value }: { readonly value: number }) {
  const text = percent(value, { sign: true });
  return <span class={tone(value, text)}>{text}</span>;
}

/** A percentage from 0 to 100, with a bar behind it. */
export function Share({ value, title }: { readonly value: number; readonly title: string }) {
  return (
    <span class="share" title={title}>
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${value}%` }} />
      </span>
      {percent(value)}
    </span>
  );
}

export function WinRate(props: {
  readonly of: {
    readonly win_rate: number;
    readonly wins_count: number;
    readonly markets_count: number;
  };
}) {
  const { win_rate, wins_count, markets_count } = props.of;
  return <Share value={win_rate} title={`${wins_count} of ${markets_count} markets won`} />;
}

export function Side({ side }: { readonly side: 'BUY' | 'SELL' }) {
  return <span class={`side ${side === 'BUY' ? 'gain' : 'loss'}`}>{side}</span>;
}

export function TransactionLink({ hash }: { readonly hash: string }) {
  if (isSimulated) return null;
  return (
    <a
      href={`https://polygonscan.com/tx/${hash}`}
      target="_blank"
      rel="noreferrer"
      aria-label="Transaction on Polygonscan"
      title="Transaction on Polygonscan"
    >
      ↗
    </a>
  );
}

/** A figure with its name, in a `<dl class="tiles">`. */
export function Tile(props: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** How long ago a time was, updated every second; hovering shows the time. */
export function Ago({ time }: { readonly time: string }) {
  const ms = timeMs(time);
  if (ms === undefined) return <span>Never</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeText(ms)}>
      {span(now.value - ms)} ago
    </time>
  );
}
