/** The title of the document: that of the view, or the name of what the view shows. */
import { useEffect, useLayoutEffect } from 'preact/hooks';
import { route } from './route.ts';
import { VIEWS } from './views.ts';

/** Sets the title of the current view. A view without one sets its own later. */
export function useViewTitle(): void {
  useLayoutEffect(showViewTitle, [route.value.view]);
}

/** Sets a title for as long as the component is mounted. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} – Fillstream`;
    return showViewTitle;
  }, [title]);
}

function showViewTitle(): void {
  const { view } = route.peek();
  const title = VIEWS.find(({ name }) => name === view)?.title;
  if (title !== undefined)
    document.title = view === 'home' ? 'Fillstream' : `${title} – Fillstream`;
}
