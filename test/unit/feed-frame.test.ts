// What is written to sockets: blocks in their chunk, and events packed in one form.
import { describe, expect, test } from 'vitest';
import { position } from '../../api/feed/cursor.ts';
import { FeedEvent } from '../../api/feed/event.ts';
import { NO_FILTER } from '../../api/feed/filter.ts';
import { Frame, joined } from '../../api/feed/frame.ts';
import { PackedEvents } from '../../api/feed/packed.ts';
import { TailMessage } from '../../infra/nats/reader.ts';
import { encodeFeedEvent } from '../../ingest/contract-feed.ts';
import { match } from './feed-matches.ts';

function message(sequence: number, text: string): TailMessage {
  const fields = { sequence, subject: 'feed.match', data: Buffer.from(text), timestampMs: 0 };
  return new TailMessage(fields, () => 'id');
}

describe('Frame', () => {
  test('is the blocks behind their number of bytes in hexadecimal', () => {
    const frame = Frame.of('data: Zürich 雨\n\n');
    expect(String(frame.chunk)).toBe('13\r\ndata: Zürich 雨\n\n\r\n');
    expect(String(frame.blocks)).toBe('data: Zürich 雨\n\n');
  });

  test('is never empty, as that would end the stream', () => {
    expect(() => Frame.of('')).toThrow(RangeError);
  });
});

describe('joined', () => {
  test('is all the bytes in order, and no copy where they lie so in memory', () => {
    const whole = Buffer.from('abcdef');
    const [ab, cd, ef] = [whole.subarray(0, 2), whole.subarray(2, 4), whole.subarray(4)];
    expect(String(joined([ab, cd, ef]))).toBe('abcdef');
    expect(joined([ab, cd]).buffer).toBe(whole.buffer);
    expect(String(joined([cd, ab]))).toBe('cdab');
    expect(String(joined([ab, ef]))).toBe('abef');
    expect(String(joined([ab, Buffer.from('x')]))).toBe('abx');
    expect(String(joined([ef]))).toBe('ef');
  });
});

describe('PackedEvents', () => {
  const texts = [1, 2, 3].map((n) => encodeFeedEvent(match(n)));
  const [first = '', second = '', third = ''] = texts;
  // The second message is none of ours, and sequence 8 was removed.
  const messages = [message(6, first), message(7, '{'), message(9, second), message(10, third)];

  test.each(['compact', 'json', 'tx'] as const)('are the events themselves, as %s', (format) => {
    for (const isFiltered of [false, true]) {
      const packed = new PackedEvents(messages, { format, isFiltered });
      const offered = packed.after(0);
      const whole = messages.map((one) => new FeedEvent(one));
      for (const [n, event] of whole.entries()) {
        expect(offered[n]?.sequence).toBe(event.sequence);
        expect(offered[n]?.position).toBe(event.position);
        expect(offered[n]?.passes(NO_FILTER)).toBe(n !== 1);
        if (n !== 1) expect(offered[n]?.frame(format)).toEqual(event.frame(format));
        else expect(() => offered[n]?.frame(format)).toThrow();
      }
    }
  });

  test('are found by sequence, though some were removed', () => {
    const packed = new PackedEvents(messages, { format: 'compact', isFiltered: false });
    const behind = (sequence: number) => packed.after(sequence).map((event) => event.sequence);
    expect(behind(0)).toEqual([6, 7, 9, 10]);
    expect(behind(7)).toEqual([9, 10]);
    expect(behind(8)).toEqual([9, 10]);
    expect(behind(10)).toEqual([]);
    expect(packed.last).toBe(10);
    expect(packed.positionAt(9)).toBe(position(9, 'id'));
    expect(packed.positionAt(8)).toBeUndefined();
  });

  test('pass filters where they were read for one, and refuse one otherwise', () => {
    const filter = { ...NO_FILTER, traders: new Set([match(2).taker.trader.address]) };
    const read = (isFiltered: boolean) => new PackedEvents(messages, { format: 'tx', isFiltered });
    const whole = messages.map((one) => new FeedEvent(one).passes(filter));
    expect(
      read(true)
        .after(0)
        .map((event) => event.passes(filter)),
    ).toEqual(whole);
    expect(() => read(false).after(0)[0]?.passes(filter)).toThrow('not kept for filters');
  });
});
