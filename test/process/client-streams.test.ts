/**
 * The client's event streams against the feed on a real nats-server: regardless of its connection, a
 * program gets each event once and in order, or a gap.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test, vi } from 'vitest';
import {
  ApiError,
  ConnectionError,
  type FeedEvent,
  Fillstream,
  type Options,
  type StreamEvent,
  type StreamState,
} from '../../apps/client/index.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import { encodeFeedEvent, feedMessageId, feedSequelId } from '../../ingest/contract.ts';
import {
  type Api,
  hashes,
  positionOf,
  publish,
  publishFinal,
  startFeeds,
} from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Front } from '../support/front.ts';
import { serve } from '../support/http-server.ts';
import { generator, SEED as TEST_SEED } from '../support/seed.ts';
import { address, fill, hash, match, naivelyPasses, randomMatch } from '../unit/feed-matches.ts';

const feeds = forFile(startFeeds);
const fronts: Front[] = [];

afterAll(async () => {
  for (const front of fronts) front.close();
});

async function frontOf(api: Api): Promise<Front> {
  const front = await Front.listen();
  front.target = `http://127.0.0.1:${api.port}`;
  fronts.push(front);
  return front;
}

function client(url: string, options: Partial<Options> = {}): Fillstream {
  return new Fillstream({ url, key: 'unused', ...options });
}

const clientOf = ({ port }: Api, options: Partial<Options> = {}) =>
  client(`http://127.0.0.1:${port}`, options);

/** The first events of a stream. */
async function take<Event>(events: AsyncIterable<Event>, count: number): Promise<Event[]> {
  const taken: Event[] = [];
  for await (const event of events) if (taken.push(event) === count) break;
  return taken;
}

function hashOf(event: FeedEvent | StreamEvent): string {
  return event.type === 'order' || event.type === 'tx' ? event.data.tx_hash : event.type;
}

describe('a stream', () => {
  test.each([
    '',
    'tags=sports,5m&min_price=25',
    'traders=0x0000000000000000000000000000000000000003',
  ])('yields each event once and in order, wherever it is cut (%j)', async (query) => {
    const seed = TEST_SEED;
    console.info(`TEST_SEED=${seed}`);
    const random = generator(seed);
    const { api, stream } = await feeds.over(1, { ringEventsMax: 64 });
    const matches = Array.from({ length: 400 }, (_, n) => randomMatch(n + 2, random));
    const wanted = matches.filter((one) => naivelyPasses(query, one)).map((one) => one.txHash);
    const front = await frontOf(api);
    let cuts = 0;
    front.bytesMax = () => {
      cuts += 1;
      // Responses begin with about 300 bytes of headers.
      return cuts > 12 ? Number.POSITIVE_INFINITY : Math.floor(random() * 20_000);
    };
    const events = client(front.url).feed(Object.fromEntries(new URLSearchParams(query)), {
      from: positionOf(1),
    });
    const [seen] = await Promise.all([
      take(events, wanted.length),
      (async () => {
        for (let n = 0; n < matches.length; n += 20) {
          await publish(feeds.nats, stream, matches.slice(n, n + 20));
          await delay(20);
        }
      })(),
    ]);
    expect(seen.map(hashOf)).toEqual(wanted);
    expect(events.cursor).toBe(seen.at(-1)?.cursor);
    expect(cuts).toBeGreaterThan(1);
  });

  test('yields the outcome of a match, and the reason when the server ends the stream', async () => {
    const { api, stream } = await feeds.over(1);
    const front = await frontOf(api);
    const states: StreamState['kind'][] = [];
    const events = client(front.url).feed(
      { finality: true },
      { from: positionOf(1), onState: ({ kind }) => states.push(kind) },
    );
    const seen: FeedEvent[] = [];
    const one = match(2);
    await publish(feeds.nats, stream, [one]);
    await publishFinal(feeds.nats, stream, [one]);
    await retract(stream);
    for await (const event of events) {
      seen.push(event);
      if (event.type === 'void') void api.feed.stop(100);
      if (event.type === 'end') {
        front.target = `http://127.0.0.1:${(await feeds.serve(stream)).port}`;
        // The process would be gone.
        front.cut();
        await publish(feeds.nats, stream, [match(4)]);
      }
      if (seen.length === 5) break;
    }
    const matchId = feedMessageId(one.txHash, one.taker.orderHash, 0);
    expect(seen.map(({ type, data }) => ({ type, ...data }))).toMatchObject([
      { type: 'order', match_id: matchId, taker_order: { usdc: String(one.taker.usdc) } },
      { type: 'final', match_id: matchId, block_number: 77 },
      { type: 'void', match_id: matchId, reason: 'never_mined' },
      { type: 'end', reason: 'shutdown' },
      { type: 'order', tx_hash: hash(4) },
    ]);
    expect(states.filter((kind) => kind !== 'waiting')).toEqual(['connecting', 'live', 'live']);
  });

  /** Stores that match 2 was never mined. */
  async function retract(stream: string): Promise<void> {
    const writer = await openWriter(feeds.nats, { stream });
    const { txHash, conditionId, taker } = match(2);
    const matchId = feedMessageId(txHash, taker.orderHash, 0);
    const data = encodeFeedEvent({
      ...{ kind: 'void', reason: 'never_mined', matchId, txHash, conditionId, detectedAtMs: 0 },
      ...{ traders: [], tags: [], seriesSlug: '', usdc: 1n, shares: 1n },
    });
    await writer.append({ id: feedSequelId('void', matchId), subject: `${stream}.match`, data });
    writer.close();
  }

  test('reconnects when a connection is silent', async () => {
    const { api, stream } = await feeds.over(1, { heartbeatMs: 100 });
    const front = await frontOf(api);
    const states: StreamState[] = [];
    const options = { from: positionOf(1), onState: (state: StreamState) => states.push(state) };
    const seen: string[] = [];
    await publish(feeds.nats, stream, [match(2)]);
    for await (const event of client(front.url, { silenceMs: 500 }).feed({}, options)) {
      seen.push(hashOf(event));
      if (seen.length === 2) break;
      front.mute();
      await publish(feeds.nats, stream, [match(3)]);
    }
    expect(seen).toEqual(hashes(2, 3));
    expect(states).toMatchObject([
      { kind: 'connecting' },
      { kind: 'live', cutMs: undefined, from: positionOf(1) },
      { kind: 'waiting', error: { message: 'the server was silent for 500 ms' } },
      { kind: 'live', from: positionOf(2) },
    ]);
    const [, , , live] = states;
    expect(live?.kind === 'live' && (live.cutMs ?? 0) >= 500).toBe(true);
  });

  test('stays open while heartbeats arrive, and while its program is busy with an event', async () => {
    const { api, stream } = await feeds.over(3, { heartbeatMs: 100 });
    const states: string[] = [];
    const onState = ({ kind }: StreamState) => states.push(kind);
    const fillstream = clientOf(api, { silenceMs: 3_000 });
    const seen: string[] = [];
    for await (const event of fillstream.feed({}, { from: positionOf(1), onState })) {
      seen.push(hashOf(event));
      if (seen.length === 1) await delay(4_000);
      if (seen.length === 2) setTimeout(() => publish(feeds.nats, stream, [match(4)]), 4_000);
      if (seen.length === 3) break;
    }
    expect(seen).toEqual(hashes(2, 4));
    expect(states).toEqual(['connecting', 'live']);
  });

  test('continues after its cursor when a loop was left', async () => {
    const { api } = await feeds.over(5);
    const events = clientOf(api).feed({}, { from: positionOf(1) });
    expect((await take(events, 2)).map(hashOf)).toEqual(hashes(2, 3));
    await expect.poll(() => api.feed.figures().listeners).toBe(0);
    const reading = take(events, 2);
    await expect(take(events, 1)).rejects.toThrow('is already being read');
    expect((await reading).map(hashOf)).toEqual(hashes(4, 5));
  });

  test('knows its cursor before the first event', async () => {
    const { api, stream } = await feeds.over(5);
    const events = clientOf(api).feed();
    expect(events.cursor).toBe('');
    const reading = take(events, 1);
    await expect.poll(() => events.cursor).toBe(positionOf(5));
    await publish(feeds.nats, stream, [match(6)]);
    expect((await reading).map(({ cursor }) => cursor)).toEqual([positionOf(6)]);
  });

  test('ends with the first disconnect if it may not retry', async () => {
    const { api } = await feeds.over(2);
    const front = await frontOf(api);
    const events = client(front.url, { retry: false }).feed({}, { from: positionOf(1) });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of events) {
        seen.push(hashOf(event));
        front.cut();
      }
    })();
    await expect(reading).rejects.toThrow(ConnectionError);
    expect([seen, events.cursor]).toEqual([hashes(2, 2), positionOf(2)]);
  });

  test('ends with the reason of the signal, of the call or of the client', async () => {
    const { api } = await feeds.over(1);
    for (const which of ['call', 'client']) {
      const gone = new AbortController();
      const { signal } = gone;
      const reading =
        which === 'call'
          ? take(clientOf(api).feed({}, { signal }), 1)
          : take(clientOf(api, { signal }).feed(), 1);
      await expect.poll(() => api.feed.figures().listeners).toBe(1);
      gone.abort(new Error('enough'));
      await expect(reading).rejects.toThrow('enough');
      await expect.poll(() => api.feed.figures().listeners).toBe(0);
    }
  });

  test('throws the permanent errors of the server', async () => {
    const { api } = await feeds.over(1);
    const refused = await take(clientOf(api).feed({ min_price: 101 }), 1).catch((error) => error);
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({
      ...{ status: 400, code: 'invalid_request', retryAfterSeconds: 0 },
      issues: [{ path: 'min_price', message: 'must be from 0 to 100' }],
    });
  });

  test("throws the error of its program's connection callback", async () => {
    const { api } = await feeds.over(1);
    const onState = ({ kind }: StreamState) => {
      if (kind === 'live') throw new RangeError('a bug');
    };
    const events = clientOf(api).feed({}, { onState });
    await expect(take(events, 1)).rejects.toThrow(RangeError);
    await expect.poll(() => api.feed.figures().listeners).toBe(0);
  });

  test('drops events that a server repeats', async () => {
    using server = await serverOf([[7, 8, 7, 8, 9].map((id) => ended(id, String(id))).join('')]);
    const seen = await take(client(server.url).feed(), 3);
    expect(seen.map(({ cursor }) => cursor)).toEqual(['7', '8', '9']);
  });

  test('reconnects even while the server still counts its lost session after a kill', async () => {
    using server = await serverOf([ended(7, 'stopping'), 403, 403, ended(8, 'stopping')]);
    const seen = await take(client(server.url).feed(), 2);
    expect(seen.map(({ cursor }) => cursor)).toEqual(['7', '8']);
  });

  test('throws when its session is refused for longer than a lost session counts', async () => {
    using server = await serverOf([ended(7, 'stopping'), 403]);
    vi.useFakeTimers({ toFake: ['Date'] });
    let refusals = 0;
    const onState = (state: StreamState) => {
      if (state.kind !== 'waiting' || state.error.status !== 403) return;
      refusals += 1;
      vi.setSystemTime(Date.now() + 500_000);
    };
    const reading = take(client(server.url).feed({}, { onState }), 2);
    await expect(reading).rejects.toMatchObject({ code: 'quota_exceeded' });
    expect(refusals).toBe(2);
    vi.useRealTimers();
  });

  test.each([
    ['begins', [403]],
    ['was ended for', [ended(7, 'quota_used_up'), 403]],
  ])('throws when it %s without quota', async (_, answers) => {
    using server = await serverOf(answers);
    await expect(take(client(server.url).feed(), 2)).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
  });
});

const ended = (id: number, reason: string) =>
  `id: ${id}\nevent: end\ndata: {"reason":"${reason}"}\n\n`;

/**
 * A server that breaks rules: each request gets the next response, which is blocks of a stream or a status. The last
 * one is repeated.
 */
function serverOf(answers: readonly (string | number)[]) {
  let next = 0;
  return serve((_, response) => {
    const answer = answers[Math.min(next, answers.length - 1)] ?? '';
    next += 1;
    if (typeof answer === 'number') {
      response.writeHead(answer, { 'Content-Type': 'application/problem+json' });
      response.end(JSON.stringify({ error: 'quota_exceeded', detail: 'used up' }));
      return;
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(answer);
    // If there are several responses, the connection of the first one is closed.
    if (next < answers.length) response.end();
  });
}

describe('a managed stream', () => {
  test('is created, changed and listened to, and ends when it is deleted', async () => {
    const { api, stream } = await feeds.over(1);
    const fillstream = clientOf(api);
    const { id } = await fillstream.createStream({ name: 'mine', addresses: [address(5)] });
    await fillstream.updateSubscription(id, { addresses: [address(6)] });
    expect(await fillstream.streamMeta(id)).toMatchObject({ addresses: [address(6)] });
    await publish(feeds.nats, stream, [
      ...[match(2, { taker: fill(5) }), match(3, { taker: fill(6) })],
    ]);
    const seen: StreamEvent[] = [];
    const reading = (async () => {
      for await (const event of fillstream.stream(id, {}, { from: positionOf(1) })) {
        seen.push(event);
        if (event.type === 'tx') await fillstream.deleteStream(id);
      }
    })();
    await expect(reading).rejects.toMatchObject({ status: 404, code: 'not_found' });
    expect(seen.map(({ type, data }) => ({ type, ...data }))).toMatchObject([
      { type: 'tx', tx_hash: hash(3), taker: { user: { address: address(6) } } },
      { type: 'end', reason: 'stream_deleted' },
    ]);
  });
});
