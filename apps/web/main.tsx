/** Entry point of the page: shows the view of the current route, or asks for a key. */
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { render } from 'preact';
import { Compare } from './compare.tsx';
import { Following } from './following.tsx';
import { Home } from './home.tsx';
import { canRead, key, openKey } from './key.ts';
import { KeyPrompt } from './key-prompt.tsx';
import { Leaderboard } from './leaderboard.tsx';
import { Market } from './market.tsx';
import { Markets } from './markets.tsx';
import { openRoute, route } from './route.ts';
import { Nothing, Shell } from './shell.tsx';
import { openShortcuts } from './shortcuts.ts';
import { Streams } from './streams.tsx';
import { Tape } from './tape.tsx';
import { openTheme } from './theme.ts';
import { Trader } from './trader.tsx';

openTheme();
openRoute();
openShortcuts();

const STREAMS_NEED_A_KEY = 'Streams belong to an account, so they need a key.';

/** Remounts the view when the key changes, so that no request uses the old one. */
function Page() {
  return <Shell>{canRead.value ? <View key={key.value} /> : <KeyPrompt />}</Shell>;
}

function View() {
  const at = route.value;
  switch (at.view) {
    case 'home':
      return <Home />;
    case 'markets':
      return <Markets />;
    case 'leaderboard':
      return <Leaderboard />;
    case 'streams':
      return key.value === '' ? <KeyPrompt why={STREAMS_NEED_A_KEY} /> : <Streams />;
    case 'compare':
      return <Compare />;
    case 'following':
      return <Following />;
    case 'tape':
      return <Tape />;
    case 'trader':
      return <Trader key={at.id} address={at.id} />;
    case 'market':
      return <Market key={at.id} id={at.id} />;
    default:
      return <Nothing title="Page not found">There is nothing at this address.</Nothing>;
  }
}

const root = document.querySelector('#page');
if (root === null) throw new Error('the document has no #page');
await openKey();
root.replaceChildren();
render(<Page />, root);
