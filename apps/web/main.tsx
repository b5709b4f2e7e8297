/** Entry point of the page: shows the view of the current route, or asks for a key. */
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { type ComponentChildren, render } from 'preact';
import { nearestPath } from '../../api/http/one-typo.ts';
import { Account } from './account.tsx';
import { Compare } from './compare.tsx';
import { Event } from './event.tsx';
import { Following } from './following.tsx';
import { Home } from './home.tsx';
import { canRead, key, openKey } from './key.ts';
import { KeyPrompt } from './key-prompt.tsx';
import { Leaderboard } from './leaderboard.tsx';
import { ManagedAlerts } from './manage-alerts.tsx';
import { Market } from './market.tsx';
import { Markets } from './markets.tsx';
import { openRoute, route } from './route.ts';
import { Nothing, Shell } from './shell.tsx';
import { openShortcuts } from './shortcuts.ts';
import { Streams } from './streams.tsx';
import { Tape } from './tape.tsx';
import { openTheme } from './theme.ts';
import { useViewTitle } from './title.ts';
import { Trader } from './trader.tsx';
import { VIEWS, type ViewName } from './views.ts';

openTheme();
openRoute();
openShortcuts();

const COMPONENTS: Readonly<
  Record<ViewName, (props: { readonly id: string }) => ComponentChildren>
> = {
  home: Home,
  markets: Markets,
  leaderboard: Leaderboard,
  tape: Tape,
  following: Following,
  streams: Streams,
  alerts: ManagedAlerts,
  account: Account,
  compare: Compare,
  trader: Trader,
  market: Market,
  event: Event,
};

/** Remounts the view when the key changes, so that no request uses the old one. */
function Page() {
  return <Shell>{canRead.value ? <View key={key.value} /> : <KeyPrompt />}</Shell>;
}

function View() {
  const { view, id } = route.value;
  useViewTitle();
  if (view === 'unknown') {
    const meant = nearestPath(
      VIEWS.map(({ path }) => path),
      location.pathname,
    );
    return (
      <Nothing title="Page not found">
        There is nothing at this address.
        {meant === undefined ? null : (
          <>
            {' '}
            Did you mean <a href={meant}>{meant}</a>?
          </>
        )}
      </Nothing>
    );
  }
  const Component = COMPONENTS[view];
  return <Component key={id} id={id} />;
}

const root = document.querySelector('#page');
if (root === null) throw new Error('the document has no #page');
await openKey();
root.replaceChildren();
render(<Page />, root);
