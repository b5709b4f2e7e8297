/**
 * Routing: the path selects the view, and the query holds its settings. Every state has a URL, and Back works. Links
 * inside the page do not reload it.
 */
import { signal } from '@preact/signals';
import { VIEWS, type ViewName } from './views.ts';

type Route = {
  readonly view: ViewName | 'unknown';
  /** Of the trader or market that the view shows, otherwise ''. */
  readonly id: string;
};

export const REFERENCE = '/docs';

export const route = signal<Route>({ view: 'home', id: '' });
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

/** Shows another path in place of the current one. */
export function replacePath(path: string): void {
  history.replaceState(null, '', path);
  read();
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

export function routeOf(path: string): Route {
  const [, first = '', ...rest] = path.split('/');
  const id = decoded(rest.join('/'));
  const of = VIEWS.find((view) => view.path === `/${first}/:id`);
  if (of !== undefined && id !== '') return { view: of.name, id };
  return { view: VIEWS.find((view) => view.path === path)?.name ?? 'unknown', id: '' };
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
