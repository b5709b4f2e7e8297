/**
 * OrderedPublisher beside the client library's own pipelined publish: the same messages, ids and
 * stream, the same number under way. The library's loses what is published while disconnected; this
 * is what the difference costs while nothing goes wrong.
 */
import type { Nats } from '../../infra/nats/connection.ts';
import { OrderedPublisher } from '../../infra/nats/publisher.ts';
import { ensureStream } from '../../infra/nats/streams.ts';

const STREAM = 'BENCH';
const SUBJECT = 'bench.message';
const MESSAGE_BYTES = 1_200;
const UNDER_WAY = 512;

/** Messages a second of both, on an empty stream; `round` keeps the ids of rounds apart. */
export async function publishRates(nats: Nats, messages: number, round: string) {
  await ensureStream(nats, { name: STREAM, subjects: ['bench.>'] });
  const data = Buffer.alloc(MESSAGE_BYTES, 'x');
  const library = await timed(nats, messages, async () => {
    const waiting: Promise<unknown>[] = [];
    for (let i = 0; i < messages; i++) {
      waiting.push(nats.js.publish(SUBJECT, data, { msgID: `library:${round}:${i}` }));
      if (waiting.length >= UNDER_WAY) await waiting.shift();
    }
    await Promise.all(waiting);
  });
  const ordered = await timed(nats, messages, async () => {
    const publisher = new OrderedPublisher(nats, { stream: STREAM, windowMax: UNDER_WAY });
    for (let i = 0; i < messages; i++)
      await publisher.publish(SUBJECT, `ordered:${round}:${i}`, data);
    await publisher.flush();
    publisher.close();
  });
  return { library, ordered, messageBytes: MESSAGE_BYTES, underWay: UNDER_WAY };
}

async function timed(nats: Nats, messages: number, run: () => Promise<void>): Promise<number> {
  await nats.jsm.streams.purge(STREAM);
  const startedAt = performance.now();
  await run();
  const seconds = (performance.now() - startedAt) / 1_000;
  const { state } = await nats.jsm.streams.info(STREAM);
  if (state.messages !== messages) throw new Error(`${state.messages} of ${messages} are stored`);
  return messages / seconds;
}
