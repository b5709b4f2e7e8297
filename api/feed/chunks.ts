/**
 * Reads of the FEED stream for listeners that are behind the ring: aligned chunks as they are asked
 * for, kept for all of them, each read once however many wait for it. Invariant: a chunk holds every
 * message that the stream has in its range; a read that ends early is not kept. Events that
 * retention removed are missing at the front: who reads compares sequences.
 */
import { type Nats, NatsUnavailableError, streamState } from '../../infra/nats/connection.ts';
import { readRange } from '../../infra/nats/read.ts';
import type { Format } from './encode.ts';
import { PackedEvents, type Reading } from './packed.ts';

/** All events that the stream holds from `start` to `end`, both included, in stream order. */
export type Chunk = {
  readonly start: number;
  readonly end: number;
  readonly reading: Reading;
  readonly packs: readonly PackedEvents[];
  readonly bytes: number;
};

/** Few, as a listener reads the whole chunk in which its position is. */
const CHUNK_MESSAGES = 256;
/** Of events that are written together: about 64 KiB. */
const PACK_MESSAGES = 64;
const LOADS_MAX = 4;

/** Of a chunk's form and start. */
type Key = `${Format} ${number}`;

export class ChunkCache {
  readonly #nats: Nats;
  readonly #stream: string;
  readonly #bytesMax: number;
  /** Least recently used first. */
  readonly #chunks = new Map<Key, Chunk>();
  readonly #loads = new Map<Key, Promise<Chunk>>();
  readonly #waiting: (() => void)[] = [];
  #bytes = 0;
  #loading = 0;
  #epoch = 0;

  constructor(nats: Nats, stream: string, bytesMax: number) {
    this.#nats = nats;
    this.#stream = stream;
    this.#bytesMax = bytesMax;
  }

  /**
   * The chunk that covers `sequence`, which must not be after `head`, the newest known sequence, for
   * a listener that reads as given.
   *
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async covering(sequence: number, head: number, reading: Reading): Promise<Chunk> {
    // Rounds down to the start of the aligned chunk; sequences count from 1.
    const start = sequence - ((sequence - 1) % CHUNK_MESSAGES);
    const key: Key = `${reading.format} ${start}`;
    const serves = (chunk: Chunk) =>
      chunk.end >= sequence && (chunk.reading.isFiltered || !reading.isFiltered);
    for (;;) {
      const cached = this.#chunks.get(key);
      if (cached !== undefined && serves(cached)) {
        this.#chunks.delete(key);
        this.#chunks.set(key, cached);
        return cached;
      }
      const underway = this.#loads.get(key);
      if (underway === undefined) return this.#begin(key, start, head, reading);
      // A load that began when the feed was shorter may end before what is wanted.
      const chunk = await underway;
      if (serves(chunk)) return chunk;
    }
  }

  /** Forgets everything: the stream is not the one that was read. */
  clear(): void {
    this.#chunks.clear();
    this.#loads.clear();
    this.#bytes = 0;
    this.#epoch += 1;
  }

  #begin(key: Key, start: number, head: number, reading: Reading): Promise<Chunk> {
    const epoch = this.#epoch;
    const end = Math.min(start + CHUNK_MESSAGES - 1, head);
    const load = this.#load(start, end, reading).finally(() => {
      if (this.#loads.get(key) === load) this.#loads.delete(key);
    });
    this.#loads.set(key, load);
    load.then(
      (chunk) => {
        if (epoch === this.#epoch) this.#keep(key, chunk);
      },
      // Whoever waits for the load handles the error.
      () => undefined,
    );
    return load;
  }

  async #load(start: number, end: number, reading: Reading): Promise<Chunk> {
    if (this.#loading >= LOADS_MAX) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#loading += 1;
    try {
      const messages = await readRange(this.#nats, this.#stream, start, end - start + 1);
      const reached = messages.at(-1)?.sequence ?? 0;
      // A lagging replica may have served the read: only the leader's word that the rest was
      // removed makes a short answer a complete one.
      if (reached < end && (await streamState(this.#nats, this.#stream)).firstSequence <= end) {
        throw new NatsUnavailableError(`${this.#stream} was read to ${reached} instead of ${end}`);
      }
      const wanted = messages.filter((message) => message.sequence <= end);
      const packs: PackedEvents[] = [];
      for (let n = 0; n < wanted.length; n += PACK_MESSAGES) {
        packs.push(new PackedEvents(wanted.slice(n, n + PACK_MESSAGES), reading));
      }
      const bytes = packs.reduce((sum, pack) => sum + pack.bytes, 0);
      return { start, end, reading, packs, bytes };
    } finally {
      const next = this.#waiting.shift();
      // The place passes to who waits; nobody else can take it in between.
      if (next === undefined) this.#loading -= 1;
      else next();
    }
  }

  #keep(key: Key, chunk: Chunk): void {
    this.#bytes += chunk.bytes - (this.#chunks.get(key)?.bytes ?? 0);
    this.#chunks.delete(key);
    this.#chunks.set(key, chunk);
    for (const [oldest, { bytes }] of this.#chunks) {
      if (this.#bytes <= this.#bytesMax || oldest === key) break;
      this.#chunks.delete(oldest);
      this.#bytes -= bytes;
    }
  }
}
