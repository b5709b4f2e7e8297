// `npm start`. A Node that is too old to read TypeScript gets one clear line; on Linux, npm ci installs a newer one.
import module from 'node:module';
import { join } from 'node:path';

if (!process.features.typescript) {
  process.stderr.write(`Fillstream needs Node 22.18 or newer; this is ${process.versions.node}.\n`);
  process.exit(1);
}
// Modules are compiled once, not at every start. The parts inherit the variable.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../.cache/compile');
module.enableCompileCache();
await import('./up.ts');
