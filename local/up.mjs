// `npm start`. A Node that is too old to read TypeScript gets one clear line; on Linux, npm ci installs a newer one.
if (!process.features.typescript) {
  process.stderr.write(`Fillstream needs Node 22.18 or newer; this is ${process.versions.node}.\n`);
  process.exit(1);
}
await import('./up.ts');
