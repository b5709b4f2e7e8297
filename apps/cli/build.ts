/**
 * `npm run cli:build`: builds the package as it is published in `dist`: one JavaScript file, which includes the client,
 * manifest, README and licence.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { completePackage } from '../package.ts';

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
completePackage(import.meta.dirname, { bin: { fillstream: 'fillstream.js' } });
