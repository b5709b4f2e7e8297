// Deleted managed streams do not stay in memory.
import { randomUUID } from 'node:crypto';
import { Session } from 'node:inspector/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { headers as createHeaders } from '@nats-io/transport-node';
import pino from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StreamStore } from '../../api/streams/store.ts';
import { type Broker, startBroker } from '../support/feed-harness.ts';

let broker: Broker;

beforeAll(async () => {
  broker = await startBroker();
});

afterAll(() => broker?.close());

/** Heap in use after a garbage collection. */
async function heapBytes(): Promise<number> {
  await delay(100);
  const session = new Session();
  session.connect();
  await session.post('HeapProfiler.collectGarbage');
  session.disconnect();
  return process.memoryUsage().heapUsed;
}

test('managed streams that were deleted take no memory', async () => {
  const DELETED = 20_000;
  let deleted = 0;
  const store = await StreamStore.open({
    nats: broker.nats,
    logger: pino({ level: 'silent' }),
    onChange: () => {
      deleted += 1;
    },
  });
  await heapBytes();
  const before = await heapBytes();
  const headers = createHeaders();
  headers.set('KV-Operation', 'DEL');
  for (let n = 0; n < DELETED; n += 1) {
    broker.nats.connection.publish(`$KV.streams.stream.${randomUUID()}`, '', { headers });
  }
  while (deleted < DELETED) await delay(10);
  const grown = (await heapBytes()) - before;
  console.log(`${Math.round(grown / DELETED)} bytes for each deleted stream`);
  expect(grown / DELETED).toBeLessThan(150);
  await store.close();
});
