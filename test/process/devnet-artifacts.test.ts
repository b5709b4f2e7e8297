/** The devnet's committed contracts. Compiling takes seconds, so this is not a unit test. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compileContracts, formatArtifacts } from '../../infra/local/devnet/compile.ts';

test('artifacts.json is what the contracts compile to (renew: node infra/local/devnet/compile.ts)', () => {
  const file = new URL('../../infra/local/devnet/artifacts.json', import.meta.url);
  expect(formatArtifacts(compileContracts())).toBe(readFileSync(file, 'utf8'));
});
