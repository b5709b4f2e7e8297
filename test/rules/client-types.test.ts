import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generate } from '../../apps/client/generate.ts';

const FOLDER = join(import.meta.dirname, '../../apps/client');

test('the types of the client match the API: npm run client:types generates them', () => {
  for (const [name, text] of Object.entries(generate())) {
    expect(readFileSync(join(FOLDER, name), 'utf8'), name).toBe(text);
  }
});
