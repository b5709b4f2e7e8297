/** Events at a steady rate that carry the time at which they were published. */
import { setTimeout as delay } from 'node:timers/promises';

const TICK_MS = 10;

/** Calls `send` `eventsPerSecond` times a second, with the number of the event. Resolves with the number of calls. */
export async function paced(
  eventsPerSecond: number,
  seconds: number,
  send: (n: number) => unknown,
): Promise<number> {
  const startedAtMs = performance.now();
  for (let sent = 0; ; ) {
    const elapsed = (performance.now() - startedAtMs) / 1_000;
    if (elapsed > seconds) return sent;
    for (; sent < elapsed * eventsPerSecond; sent += 1) await send(sent);
    await delay(TICK_MS);
  }
}

/** Microseconds of a clock that all processes of the machine share. */
export function microsecondsNow(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

let microseconds = 0;

/** An event's hash is its publishing time in hexadecimal; each one is later than the last. */
export function timeHash(): `0x${string}` {
  microseconds = Math.max(microsecondsNow(), microseconds + 1);
  return `0x${microseconds.toString(16).padStart(64, '0')}`;
}
