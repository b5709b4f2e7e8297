/**
 * Saves whole streams to files and restores them, using JetStream's own snapshots. Sequences, times and headers are
 * preserved, so feed cursors and the projector's checkpoint stay valid. `.snapshot` holds the server's chunks, `.json`
 * the stream's configuration and state.
 */
import { open, readFile, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { JetStreamApiCodes } from '@nats-io/jetstream';
import { createInbox, type Msg } from '@nats-io/transport-node';
import { z } from 'zod';
import { ExpectedError } from '../infra/expected.ts';
import { type Nats, StreamMissingError } from '../infra/nats/connection.ts';

const CHUNK_BYTES = 128 * 1_024;
const REQUEST_MS_MAX = 10_000;
/** The server packs a large stream before it sends the first chunk. */
const CHUNK_MS_MAX = 120_000;

const ApiError = z.object({ code: z.int(), err_code: z.int(), description: z.string() });
const Described = z.object({ config: z.looseObject({}), state: z.looseObject({}) });
const Snapshot = z.object({ error: ApiError.optional(), ...Described.partial().shape });
const Restore = z.object({ error: ApiError.optional(), deliver_subject: z.string().optional() });
const Restored = z.object({ error: ApiError.optional() });

/** The server did not save or restore the stream. */
class StreamCopyError extends ExpectedError {
  override readonly name = 'StreamCopyError';
}

/** Names of all streams, including buckets. */
export async function streamNames(nats: Nats): Promise<string[]> {
  const names: string[] = [];
  for await (const name of nats.jsm.streams.names()) names.push(name);
  return names.sort();
}

/** Writes `<path>.snapshot` and `<path>.json`. Resolves with the bytes of the snapshot. */
export async function saveStream(nats: Nats, stream: string, path: string): Promise<number> {
  const { connection, js } = nats;
  const inbox = createInbox();
  const chunks = connection.subscribe(inbox, { timeout: CHUNK_MS_MAX });
  const body = { deliver_subject: inbox, no_consumers: true, chunk_size: CHUNK_BYTES };
  const answer = await connection.request(
    `${js.apiPrefix}.STREAM.SNAPSHOT.${stream}`,
    JSON.stringify(body),
    { timeout: REQUEST_MS_MAX },
  );
  const { error, ...described } = Snapshot.parse(answer.json());
  if (error !== undefined) {
    if (error.err_code === JetStreamApiCodes.StreamNotFound) throw new StreamMissingError(stream);
    throw new StreamCopyError(`${stream} was not saved: ${error.description}`);
  }
  await writeFile(`${path}.json`, JSON.stringify(Described.parse(described), null, 2));
  const file = await open(`${path}.snapshot`, 'wx');
  let bytes = 0;
  try {
    const iterator = chunks[Symbol.asyncIterator]();
    for (;;) {
      const chunk = await nextInTime(iterator, stream);
      const { code } = chunk.headers ?? { code: 0 };
      if (code >= 400) throw new StreamCopyError(`${stream} was not sent completely: ${code}`);
      if (chunk.data.length === 0) break;
      await file.write(chunk.data);
      bytes += chunk.data.length;
      // The server sends a window of chunks and waits for acknowledgements.
      chunk.respond();
    }
    await file.sync();
  } finally {
    await file.close();
    chunks.unsubscribe();
  }
  return bytes;
}

/** The client limits only the wait for the first message, but after a disconnect the server no longer knows the copy. */
async function nextInTime(chunks: AsyncIterator<Msg>, stream: string): Promise<Msg> {
  const waiting = new AbortController();
  const late = delay(CHUNK_MS_MAX, undefined, { signal: waiting.signal }).catch(() => undefined);
  const next = await Promise.race([chunks.next(), late]);
  waiting.abort();
  if (next === undefined || next.done === true) {
    throw new StreamCopyError(`${stream} was not sent completely: the server stopped sending`);
  }
  return next.value;
}

/** Restores a stream from the files of `saveStream`. Throws StreamCopyError if the stream already exists. */
export async function restoreStream(nats: Nats, stream: string, path: string): Promise<number> {
  const { connection, js } = nats;
  const described = Described.parse(JSON.parse(await readFile(`${path}.json`, 'utf8')));
  const answer = await connection.request(
    `${js.apiPrefix}.STREAM.RESTORE.${stream}`,
    JSON.stringify(described),
    { timeout: REQUEST_MS_MAX },
  );
  const { error, deliver_subject: subject } = Restore.parse(answer.json());
  if (error !== undefined || subject === undefined) {
    throw new StreamCopyError(`${stream} was not restored: ${error?.description}`);
  }
  const file = await open(`${path}.snapshot`, 'r');
  let bytes = 0;
  try {
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES);
      const chunk = buffer.subarray(0, bytesRead);
      const taken = await connection.request(subject, chunk, { timeout: CHUNK_MS_MAX });
      bytes += bytesRead;
      if (bytesRead > 0) {
        if (taken.data.length > 0) refuse(stream, taken.json());
        continue;
      }
      refuse(stream, taken.json());
      return bytes;
    }
  } finally {
    await file.close();
  }
}

function refuse(stream: string, answer: unknown): void {
  const { error } = Restored.parse(answer);
  if (error === undefined) return;
  throw new StreamCopyError(`${stream} was not restored: ${error.description}`);
}
