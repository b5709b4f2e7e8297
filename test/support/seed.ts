/**
 * The seed of all random tests. It is fixed, so that the same code has the same result; TEST_SEED sets another one, as
 * the nightly run does.
 */
export const SEED = Number(process.env.TEST_SEED || 49);

/** Whether to run many more cases: `npm run test:all`. */
export const isLong = process.env.PROPERTIES === 'long';

/** Mulberry32: a small generator of numbers in [0, 1); the seed repeats the sequence. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A new seed for each run, to find new cases. */
export function newSeed(): number {
  return Number(process.env.TEST_SEED || Date.now() % 4_294_967_296);
}
