/** A time by its distance from now, which grows while it is shown. */
import { span, timeMs, timeText } from './format.ts';
import { now } from './status-strip.tsx';

/** How long ago a time was; the time itself on hovering. */
export function Ago({ time }: { readonly time: string }) {
  const ms = timeMs(time);
  if (ms === undefined) return <span>never</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeText(ms)}>
      {span(now.value - ms)} ago
    </time>
  );
}
