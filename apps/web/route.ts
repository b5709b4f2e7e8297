/**
 * Routing: the path selects the view, and the query holds its settings. Every state has a URL, and Back works. Links
 * inside the page do not reload it.
 */
import { signal } from '@preact/signals';

export type Route =
  | {
      readonly view:
        | 'home'
        | 'markets'
        | 'leaderboard'
        | 'tape'
        | 'following'
        | 'compare'
        | 'streams'
        | 'unknown';
    }
  | { readonly view: 'trader' | 'market'; readonly id: string };

type ListView = Exclude<Route, { readonly id: string }>['view'];

export const REFERENCE = '/docs';

export const route = signal<Route>({ view: 'home' });
export const query = signal(new URLSearchParams());

export function openRoute(): void {
  read();
  addEventListener('popstate', read);
  document.addEventListener('click', followLink);
}

export function go(path: string): void {
  // The API reference is another document.
  if (path === REFERENCE) {
    location.assign(path);
    return;
  }
  history.pushState(null, '', path);
  read();
  scrollTo(0, 0);
  // Screen readers and the Tab key continue in the new view, not at a link that is gone.
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

/** Sets query parameters; '' removes one. `typed` values replace the history entry. */
export function setQuery(
  changes: Readonly<Record<string, string>>,
  { typed = false }: { readonly typed?: boolean } = {},
): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  const path = location.pathname + (text === '' ? '' : `?${text}`);
  if (typed) history.replaceState(null, '', path);
  else history.pushState(null, '', path);
  query.value = next;
}

/** Settings at the root belong to the leaderboard, which was there in 1.0, so old links still open it. */
function read(): void {
  if (location.pathname === '/' && location.search !== '') {
    history.replaceState(history.state, '', `/leaderboard${location.search}${location.hash}`);
  }
  query.value = new URLSearchParams(location.search);
  route.value = routeOf(location.pathname);
}

const VIEWS: ReadonlyMap<string, ListView> = new Map([
  ['/', 'home'],
  ['/markets', 'markets'],
  ['/leaderboard', 'leaderboard'],
  ['/tape', 'tape'],
  ['/following', 'following'],
  ['/compare', 'compare'],
  ['/manage/streams', 'streams'],
]);

export function routeOf(path: string): Route {
  const [, first = '', ...rest] = path.split('/');
  const id = decoded(rest.join('/'));
  if (first === 'trader' || (first === 'traders' && id !== '')) return { view: 'trader', id };
  if (first === 'market' || (first === 'markets' && id !== '')) return { view: 'market', id };
  return { view: VIEWS.get(path) ?? 'unknown' };
}

/** Returns malformed text unchanged: the server's error explains it. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

function followLink(event: MouseEvent): void {
  const plain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey);
  if (event.defaultPrevented || !plain || !(event.target instanceof Element)) return;
  const link = event.target.closest<HTMLAnchorElement>('a[href]');
  if (link === null || link.origin !== location.origin || link.target !== '') return;
  if (routeOf(link.pathname).view === 'unknown') return;
  event.preventDefault();
  go(link.pathname + link.search);
}
