/**
 * The views of the page, a row each. The router, the navigation, the palette, the shortcuts, the title of the document
 * and the paths that the server answers with the page follow from it; `main.tsx` adds the components. It has only data,
 * because components read it, and so does the server.
 */
type View = {
  readonly name: string;
  /** `:id` stands for the trader, market or event that the view shows. */
  readonly path: string;
  /** Of the document, and of links to the view. None for a view of a trader or market, which has the name of that. */
  readonly title?: string;
  /** Its keyboard shortcut. The navigation shows the views that have one. */
  readonly key?: string;
  /** The meaning of the key, if that is not the title. */
  readonly help?: string;
};

const ROWS = [
  { name: 'home', path: '/', title: 'Home', key: 'h' },
  { name: 'markets', path: '/markets', title: 'Markets', key: 'o' },
  { name: 'leaderboard', path: '/leaderboard', title: 'Leaderboard', key: 'l' },
  { name: 'tape', path: '/tape', title: 'Tape', key: 't' },
  { name: 'following', path: '/following', title: 'Following', key: 'f' },
  { name: 'streams', path: '/manage/streams', title: 'Streams', key: 'm', help: 'my streams' },
  { name: 'alerts', path: '/manage/alerts', title: 'Alerts', key: 'a', help: 'my alerts' },
  { name: 'account', path: '/account', title: 'Account' },
  { name: 'compare', path: '/compare', title: 'Compare traders' },
  { name: 'trader', path: '/trader/:id' },
  { name: 'market', path: '/market/:id' },
  { name: 'event', path: '/event/:id' },
  // As the API names them.
  { name: 'trader', path: '/traders/:id' },
  { name: 'market', path: '/markets/:id' },
] as const satisfies readonly View[];

export type ViewName = (typeof ROWS)[number]['name'];

export const VIEWS: readonly (View & { readonly name: ViewName })[] = ROWS;
