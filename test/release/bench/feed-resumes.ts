/**
 * Clients that return far behind: each resumes at a random cursor of the stored events and leaves after
 * 1,000 events. The api process starts after everything was stored, so its ring is empty.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { cursorOf } from '../../../api/feed/cursor.ts';
import { streamState } from '../../../infra/nats/connection.ts';
import { getMessage } from '../../../infra/nats/reader.ts';
import { type Fillstream, timedMatch } from './feed-targets.ts';
import { getRequest } from './load.ts';
import { cpuSeconds, peakMiB, residentMiB } from './process-figures.ts';
import { readable } from './report.ts';

const STORED = 50_000;
const EVENTS_EACH = 1_000;
const AT_ONCE = 100;
const POSITIONS = 200;
const NEEDLE = Buffer.from('\nevent: order\n');

export async function measureResumes(fillstream: Fillstream, resumes: number) {
  const { nats, publishMatch, natsPid } = fillstream;
  for (let n = 0; n < STORED; n += 1) await publishMatch(timedMatch(n));
  const { lastSequence } = await streamState(nats, 'FEED');
  const first = lastSequence - STORED + 1;
  const positions = await Promise.all(
    Array.from({ length: POSITIONS }, async (_, n) => {
      const sequence = first + Math.floor((n / POSITIONS) * (STORED - EVENTS_EACH - 1));
      const message = await getMessage(nats, 'FEED', sequence);
      return cursorOf(sequence, message?.messageId ?? '');
    }),
  );
  const api = await fillstream.startApi();
  const idleMiB = residentMiB(api.pid);
  const [cpuBefore, natsBefore] = [cpuSeconds(api.pid), cpuSeconds(natsPid)];
  const startedAtMs = performance.now();
  let begun = 0;
  let events = 0;
  async function resumeAll(client: number): Promise<void> {
    while (begun < resumes) {
      begun += 1;
      const at = positions[Math.floor(Math.random() * positions.length)];
      const fields = { 'X-Service-Key': fillstream.keyOf(client), 'Last-Event-ID': String(at) };
      const read = await resume(api.port, getRequest('/v1/stream/orders', fields));
      events += read;
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, (_, client) => resumeAll(client)));
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const row = {
    ...{ resumes, 'events/s replayed': readable(events / seconds), seconds: readable(seconds) },
    'cores of the api': readable((cpuSeconds(api.pid) - cpuBefore) / seconds),
    'cores of nats-server': readable((cpuSeconds(natsPid) - natsBefore) / seconds),
    'memory before, MiB': Math.round(idleMiB),
    'most, MiB': Math.round(peakMiB(api.pid)),
  };
  await api.stop();
  return row;
}

/** Reads EVENTS_EACH events and leaves. Throws if they do not come. */
async function resume(port: number, request: string): Promise<number> {
  const socket = connect(port, '127.0.0.1');
  socket.write(request);
  let events = 0;
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let at = text.indexOf(NEEDLE); at !== -1; at = text.indexOf(NEEDLE, from)) {
      events += 1;
      from = at + NEEDLE.length;
    }
    rest = text.subarray(Math.max(from, text.length - NEEDLE.length + 1));
    if (events >= EVENTS_EACH) socket.destroy();
  });
  await once(socket, 'close');
  if (events < EVENTS_EACH) throw new Error(`a resume ended after ${events} events`);
  return EVENTS_EACH;
}
