/** Builds the contents of the package: one JavaScript file, which includes the client, and the licence. `npm pack` runs it first. */
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';

const DIST = join(import.meta.dirname, 'dist');

rmSync(DIST, { recursive: true, force: true });
buildSync({
  entryPoints: [join(import.meta.dirname, 'main.ts')],
  outfile: join(DIST, 'fillstream.js'),
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  banner: { js: '#!/usr/bin/env node' },
});
copyFileSync(join(import.meta.dirname, '../../LICENSE'), join(import.meta.dirname, 'LICENSE'));
