/** Markets and traders that were opened in this browser, newest last. */
import { storedList } from './stored.ts';

export type Recent = {
  readonly kind: 'market' | 'trader';
  readonly path: string;
  readonly title: string;
};

const { list, set } = storedList<Recent>('recent', { isEntry: isRecent, max: 8 });
export const recent = list;

export function remember(opened: Recent): void {
  const newest = recent.peek().at(-1);
  if (newest?.path === opened.path && newest.title === opened.title) return;
  set([...recent.peek().filter(({ path }) => path !== opened.path), opened]);
}

function isRecent(found: unknown): found is Recent {
  if (typeof found !== 'object' || found === null) return false;
  const { kind, path, title } = found as Partial<Record<string, unknown>>;
  const isPath = typeof path === 'string' && /^\/(market|trader)\//.test(path);
  return isPath && typeof title === 'string' && (kind === 'market' || kind === 'trader');
}
