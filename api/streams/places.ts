/**
 * How many streams an account may have, over all api processes: one entry of the bucket for each
 * account holds the places that its streams take, written by compare-and-set. Invariant: a stream
 * has its place before it is stored, and gives it back after it is gone; a place whose stream was
 * never stored, because a process ended in between, is taken back when somebody needs it.
 */
import { z } from 'zod';
import { type Kv, KvConflictError } from '../../infra/nats/kv.ts';
import { TIERS, type Tier } from '../auth/tiers.ts';
import { type Problem, quotaExceeded } from '../errors.ts';
import { isNaked, type StreamRecord } from './stream.ts';

const Places = z.record(z.string(), z.object({ naked: z.boolean(), takenAtMs: z.int() }));
type Places = z.infer<typeof Places>;

/** A place without a stream is kept for whoever is about to store one. */
const UNUSED_MS_MAX = 30_000;

export type PlacesOptions = {
  readonly bucket: Kv;
  /** Name of the account's entry. */
  readonly key: string;
  readonly tier: Tier;
  readonly nowMs: number;
  /** The stream as the bucket has it; undefined where it has none. */
  readonly stored: (id: string) => Promise<StreamRecord | undefined>;
};

/** Takes a place, or turns one into the other kind. Throws Problem 403 where there is none. */
export async function takePlace(options: PlacesOptions, id: string, naked: boolean): Promise<void> {
  await change(options, async (places) => {
    const place = { naked, takenAtMs: options.nowMs };
    const usable =
      refusal(places, id, naked, options.tier) === undefined
        ? places
        : await corrected(options, places);
    const problem = refusal(usable, id, naked, options.tier);
    if (problem !== undefined) throw problem;
    return { ...usable, [id]: place };
  });
}

/** Brings the place of a stream in line with what is stored of it. */
export async function settlePlace(options: PlacesOptions, id: string): Promise<void> {
  await change(options, async ({ [id]: _, ...others }) => {
    const record = await options.stored(id);
    if (record === undefined) return others;
    return { ...others, [id]: { naked: isNaked(record), takenAtMs: options.nowMs } };
  });
}

function refusal(places: Places, id: string, naked: boolean, tier: Tier): Problem | undefined {
  const { [id]: own, ...others } = places;
  const { streamsMax, nakedStreamsMax } = TIERS[tier];
  const streams = Object.keys(others).length;
  if (own === undefined && streams >= streamsMax) {
    return quotaExceeded('max_streams', tier, streamsMax, streams);
  }
  const nakedStreams = Object.values(others).filter((place) => place.naked).length;
  if (!naked || nakedStreams < nakedStreamsMax) return undefined;
  return quotaExceeded('max_naked_streams', tier, nakedStreamsMax, nakedStreams);
}

/** `next` is asked again after another write came first. */
async function change(
  { bucket, key }: PlacesOptions,
  next: (places: Places) => Promise<Places>,
): Promise<void> {
  for (;;) {
    const entry = await bucket.get(key);
    const places =
      entry === undefined ? {} : Places.parse(JSON.parse(String(Buffer.from(entry.value))));
    const wanted = JSON.stringify(await next(places));
    try {
      if (entry === undefined) await bucket.create(key, wanted);
      else await bucket.update(key, wanted, entry.revision);
      return;
    } catch (error) {
      if (!(error instanceof KvConflictError)) throw error;
    }
  }
}

async function corrected(options: PlacesOptions, places: Places): Promise<Places> {
  const checked = await Promise.all(
    Object.entries(places).map(async ([id, place]) => {
      if (options.nowMs - place.takenAtMs < UNUSED_MS_MAX) return [[id, place] as const];
      const record = await options.stored(id);
      return record === undefined ? [] : [[id, { ...place, naked: isNaked(record) }] as const];
    }),
  );
  return Object.fromEntries(checked.flat());
}
