/** What the builds of the client and of the command line share. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/**
 * Adds manifest, README and licence to the built files in `dist`, which is then what npm publishes. In the repository the
 * manifest is private and its entries are the sources; `entries` names the built files.
 */
export function completePackage(folder: string, entries: Readonly<Record<string, unknown>>): void {
  const dist = join(folder, 'dist');
  const { private: _, ...manifest } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  );
  const text = JSON.stringify({ ...manifest, ...entries }, null, 2);
  writeFileSync(join(dist, 'package.json'), `${text}\n`);
  copyFileSync(join(folder, 'README.md'), join(dist, 'README.md'));
  copyFileSync(join(ROOT, 'LICENSE'), join(dist, 'LICENSE'));
}
