/** Runs before each test file: fast-check uses the seed of all random tests. */
import fc from 'fast-check';
import { SEED } from './seed.ts';

fc.configureGlobal({ seed: SEED });
