/** A number that grows at an interval while the tab is visible: what reads itself again follows it. */
import { useEffect, useState } from 'preact/hooks';

export function useTicks(everyMs: number): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setTicks((last) => last + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return ticks;
}
