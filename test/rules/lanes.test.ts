// Every test file is in exactly one lane, so that none is forgotten.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

test('each test file belongs to the lane of its folder, and to no other', () => {
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const list = execFileSync(process.execPath, [vitest, 'list', '--filesOnly', '--json'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const listed = (JSON.parse(list) as { file: string; projectName: string }[]).map(
    ({ file, projectName }) => [file.slice(ROOT.length + 1), projectName],
  );
  const files = readdirSync(ROOT)
    .filter((name) => !name.startsWith('.') && name !== 'node_modules')
    .flatMap((name) => filesOf(name))
    .filter((path) => /\.(?:test|spec)\.\w+$/.test(path));
  expect(listed.toSorted()).toEqual(files.map((path) => [path, path.split('/')[1]]).toSorted());
});

/** Paths from the root. */
function filesOf(name: string): string[] {
  if (!statSync(join(ROOT, name)).isDirectory()) return [name];
  const below = readdirSync(join(ROOT, name), { recursive: true, encoding: 'utf8' });
  return below.map((path) => join(name, path));
}
