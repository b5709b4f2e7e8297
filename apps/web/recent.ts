/** Markets and traders that were opened in this browser, newest last. */
import { storedList } from './stored.ts';

export type Recent = {
  readonly kind: 'market' | 'trader';
  readonly path: string;
  readonly title: string;
  /** URL of the trader's image. */
  readonly image?: string;
};

const { list, set } = storedList<Recent>('recent', { isEntry: isRecent, max: 8 });
export const recent = list;

export function remember(opened: Recent): void {
  const newest = recent.peek().at(-1);
  const isSame = (['path', 'title', 'image'] as const).every(
    (one) => newest?.[one] === opened[one],
  );
  if (isSame) return;
  set([...recent.peek().filter(({ path }) => path !== opened.path), opened]);
}

function isRecent(found: unknown): found is Recent {
  if (typeof found !== 'object' || found === null) return false;
  const { kind, path, title, image = '' } = found as Partial<Record<string, unknown>>;
  const isPath = typeof path === 'string' && /^\/(market|trader)\//.test(path);
  const isText = typeof title === 'string' && typeof image === 'string';
  return isPath && isText && (kind === 'market' || kind === 'trader');
}
