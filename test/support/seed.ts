/**
 * The seed of all random tests. It is fixed, so that the same code has the same result; TEST_SEED sets another one, as
 * the nightly run does.
 */
export const SEED = Number(process.env.TEST_SEED || 49);

/** Whether to run many more cases: `npm run test:all`. */
export const isLong = process.env.PROPERTIES === 'long';

/** A seed for runs that look for something new each time. */
export function newSeed(): number {
  return Number(process.env.TEST_SEED || Date.now() % 4_294_967_296);
}
