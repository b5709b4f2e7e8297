#!/usr/bin/env node
// `npx fillstream` in this repository. On Linux, npm ci installs a Node that reads TypeScript; the package is JavaScript.
if (!process.features.typescript) {
  process.stderr.write(
    `From source, fillstream needs Node 22.18 or newer; this is ${process.versions.node}.\n`,
  );
  process.exit(1);
}
await import('./main.ts');
