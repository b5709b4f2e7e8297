/** What is wider than a phone: it scrolls by itself, and a keyboard reaches it. */
import type { ComponentChildren } from 'preact';

export function Scroll(props: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
    <section class="card scroll" aria-label={props.label} tabIndex={0}>
      {props.children}
    </section>
  );
}
