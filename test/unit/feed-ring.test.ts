// Compares the ring of the newest events with a simple list.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LogEvent, Ring } from '../../api/feed/feed-log.ts';

function event(sequence: number, bytes: number): LogEvent {
  const fields = { sequence, subject: 'feed.match', data: new Uint8Array(bytes), timestampMs: 0 };
  return new LogEvent({ ...fields, messageId: `id-${sequence}`, header: () => '' });
}

describe('Ring', () => {
  test('holds the newest events without gaps, within both limits', () => {
    const steps = fc.array(
      fc.record({ jump: fc.constantFrom(1, 1, 1, 1, 2, 9), bytes: fc.nat(40) }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 8 }), fc.nat(120), (given, count, bytesMax) => {
        const ring = new Ring(count, bytesMax);
        let kept: LogEvent[] = [];
        let sequence = 0;
        for (const { jump, bytes } of given) {
          sequence += jump;
          const next = event(sequence, bytes);
          kept = jump === 1 ? [...kept, next].slice(-count) : [next];
          while (kept.length > 1 && kept.reduce((sum, one) => sum + one.bytes, 0) > bytesMax) {
            kept.shift();
          }
          ring.push(next);
          expect(ring.oldest).toBe(kept[0]);
          for (let at = 0; at <= sequence + 1; at += 1) {
            expect(ring.at(at)).toBe(kept.find((one) => one.sequence === at));
          }
        }
      }),
    );
  });
});
