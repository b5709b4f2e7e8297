// `npm start`. A Node that is too old to read TypeScript gets one clear line.
import { readFileSync } from 'node:fs';

const file = new URL('../../package.json', import.meta.url);
const needed = JSON.parse(readFileSync(file, 'utf8')).engines.node.replace('>=', '');
const { node } = process.versions;
if (node.localeCompare(needed, 'en', { numeric: true }) < 0) {
  process.stderr.write(`Fillstream needs Node ${needed} or newer; this is ${node}.\n`);
  process.exit(1);
}
await import('./up.ts');
