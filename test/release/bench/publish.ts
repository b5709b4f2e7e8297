/**
 * StreamWriter beside the client library's own publish, both awaited one by one, and the rate at which
 * tailBatches reads the messages back.
 */
import type { Nats } from '../../../infra/nats/connection.ts';
import { tailBatches } from '../../../infra/nats/reader.ts';
import { ensureStream } from '../../../infra/nats/streams.ts';
import { openWriter } from '../../../infra/nats/writer.ts';

const STREAM = 'BENCH';
const SUBJECT = 'bench.message';

/** Messages a second of each, on an empty stream. */
export async function streamRates(nats: Nats, messages: number, messageBytes: number) {
  await ensureStream(nats, { name: STREAM, subjects: ['bench.>'] });
  const data = Buffer.alloc(messageBytes, 'x');
  const library = await timed(nats, messages, async () => {
    for (let i = 0; i < messages; i++) await nats.js.publish(SUBJECT, data);
  });
  const writer = await timed(nats, messages, async () => {
    const one = await openWriter(nats, { stream: STREAM });
    for (let i = 0; i < messages; i++) await one.append({ id: `${i}`, subject: SUBJECT, data });
  });
  const tail = await rate(messages, async () => {
    let left = messages;
    const { signal } = new AbortController();
    for await (const batch of tailBatches(nats, { stream: STREAM, fromSequence: 1, signal })) {
      left -= batch.length;
      if (left === 0) return;
    }
  });
  return { library, writer, tail };
}

async function timed(nats: Nats, messages: number, run: () => Promise<void>): Promise<number> {
  await nats.jsm.streams.purge(STREAM);
  const perSecond = await rate(messages, run);
  const { state } = await nats.jsm.streams.info(STREAM);
  if (state.messages !== messages) throw new Error(`${state.messages} of ${messages} are stored`);
  return perSecond;
}

async function rate(messages: number, run: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return messages / ((performance.now() - startedAt) / 1_000);
}
