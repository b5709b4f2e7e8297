/**
 * `npm run client:build`: builds the package as it is published in `dist`: one JavaScript file without dependencies,
 * the declarations, manifest, README and licence.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { completePackage } from '../package.ts';

const DIST = join(import.meta.dirname, 'dist');
const ROOT = join(import.meta.dirname, '../..');

rmSync(DIST, { recursive: true, force: true });
buildSync({
  entryPoints: [join(import.meta.dirname, 'index.ts')],
  outfile: join(DIST, 'index.js'),
  bundle: true,
  format: 'esm',
  // Of Node 20.
  target: 'es2022',
});
const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [tsc, '-p', import.meta.dirname], {
  stdio: 'inherit',
});
if (status !== 0) process.exit(1);
for (const name of globSync(join(DIST, '*.d.ts'))) {
  // The compiler leaves the names of its sources in them.
  writeFileSync(name, readFileSync(name, 'utf8').replaceAll(/(from '\.\/\w+)\.ts';/g, "$1.js';"));
}
completePackage(import.meta.dirname, {
  exports: { types: './index.d.ts', default: './index.js' },
});
