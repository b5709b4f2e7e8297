/** The documents of `docs/`, which the service serves next to its reference, in the order of docs/README.md. */
import { readFileSync } from 'node:fs';

export type Guide = { readonly title: string; readonly path: string; readonly source: URL };

const FOLDER = new URL('../../docs/', import.meta.url);
const ROW = /^\| \[(?<title>[^\]]+)\]\((?<name>[\w-]+\.md)\) \|/gm;

export const GUIDES: readonly Guide[] = [
  ...readFileSync(new URL('README.md', FOLDER), 'utf8').matchAll(ROW),
].map(({ groups: { title = '', name = '' } = {} }) => {
  return { title, path: `/docs/${name}`, source: new URL(name, FOLDER) };
});
