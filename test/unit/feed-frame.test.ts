// What is written to sockets: blocks in their chunk, and events kept in one form only.
import { describe, expect, test } from 'vitest';
import { encodeMatch, matchBlock } from '../../api/feed/encode.ts';
import { FeedEvent } from '../../api/feed/event.ts';
import { Frame } from '../../api/feed/frame.ts';
import { TailMessage } from '../../infra/nats-tail.ts';
import { encodeFeedEvent } from '../../ingest/contract-feed.ts';
import { match } from './feed-matches.ts';

function message(text: string): TailMessage {
  const fields = { sequence: 7, subject: 'feed.match', data: Buffer.from(text), timestampMs: 0 };
  return new TailMessage(fields, () => 'id');
}

describe('Frame', () => {
  test('is the blocks behind their number of bytes in hexadecimal', () => {
    const frame = new Frame('data: Zürich 雨\n\n');
    expect(String(frame.chunk)).toBe('13\r\ndata: Zürich 雨\n\n\r\n');
    expect(String(frame.blocks)).toBe('data: Zürich 雨\n\n');
  });

  test('is never empty, as that would end the stream', () => {
    expect(() => new Frame('')).toThrow(RangeError);
  });
});

describe('FeedEvent', () => {
  test.each(['compact', 'json', 'tx'] as const)(
    'kept as %s only is the same in that form',
    (form) => {
      const whole = new FeedEvent(message(encodeFeedEvent(match(1))));
      const kept = new FeedEvent(message(encodeFeedEvent(match(1))), form);
      expect(kept.facts).toEqual(whole.facts);
      expect(kept.frame(form)).toEqual(whole.frame(form));
      const block = matchBlock(kept.position, encodeMatch(match(1), form), form);
      expect(String(kept.frame(form).blocks)).toBe(block);
      for (const other of (['compact', 'json', 'tx'] as const).filter((one) => one !== form)) {
        expect(() => kept.frame(other)).toThrow(`not kept as ${other}`);
      }
    },
  );

  test('of a message that cannot be read has no facts, whichever way it is kept', () => {
    for (const event of [new FeedEvent(message('{')), new FeedEvent(message('{'), 'tx')]) {
      expect(event.facts).toBeUndefined();
      expect(() => event.frame('tx')).toThrow();
    }
  });
});
