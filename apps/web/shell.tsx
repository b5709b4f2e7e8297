/** The frame of every view: top bar with navigation, status strip, palette and help. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Alerts } from './alerts.tsx';
import { capital } from './format.ts';
import icon from './icon.svg';
import { canRead, forgetKey, isAsking, isPublic, key } from './key.ts';
import { FindButton, Palette } from './palette.tsx';
import { REFERENCE, route } from './route.ts';
import { helpOpen, SHORTCUTS } from './shortcuts.ts';
import { Banner, StatusStrip } from './status-strip.tsx';
import { nextTheme, theme } from './theme.ts';
import { VIEWS } from './views.ts';

/** The brand is the link to the home view. */
const LINKS = VIEWS.filter(({ name, key }) => key !== undefined && name !== 'home');

const THEME_SIGNS = { auto: '◐', light: '☀', dark: '☾' } as const;

export function Shell({ children }: { readonly children: ComponentChildren }) {
  const views = useRef<HTMLElement>(null);
  const { view } = route.value;
  // On a phone, the navigation is wider than the screen.
  useEffect(() => {
    const current = views.current?.querySelector('[aria-current]');
    current?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [view]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <a
          class="brand"
          href="/"
          aria-label="Fillstream, home"
          aria-current={route.value.view === 'home' ? 'page' : undefined}
        >
          <img src={icon} alt="" width="22" height="22" />
          <span>Fillstream</span>
        </a>
        <nav aria-label="Views" ref={views}>
          {LINKS.map(({ name, path, title }) => (
            <a key={name} href={path} aria-current={route.value.view === name ? 'page' : undefined}>
              {title}
            </a>
          ))}
          <a href={REFERENCE}>API</a>
        </nav>
        {canRead.value ? <FindButton /> : null}
        <div class="tools">
          <button
            type="button"
            class="icon"
            onClick={nextTheme}
            aria-label={`Colours: ${theme.value}. Change`}
            title={`Colours: ${theme.value}`}
          >
            <span aria-hidden="true">{THEME_SIGNS[theme.value]}</span>
          </button>
          <button
            type="button"
            class="icon wide-only keys-help"
            aria-label="Keyboard shortcuts"
            title="Keyboard shortcuts (?)"
            onClick={() => {
              helpOpen.value = true;
            }}
          >
            <span aria-hidden="true">?</span>
          </button>
          {key.value !== '' ? (
            <>
              <a
                class="quiet button"
                href="/account"
                aria-current={route.value.view === 'account' ? 'page' : undefined}
              >
                Account
              </a>
              <button
                type="button"
                class="quiet wide-only"
                onClick={() => forgetKey()}
                title="Forget the key"
              >
                Sign out
              </button>
            </>
          ) : isPublic && canRead.value ? (
            <SignIn />
          ) : null}
        </div>
      </header>
      {canRead.value ? <Banner /> : null}
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      {canRead.value ? <Alerts /> : null}
      {canRead.value ? <StatusStrip /> : null}
      {canRead.value ? <Palette /> : null}
      <Help />
    </>
  );
}

/** Shown in the demo, with a button to enter a key. */
function SignIn() {
  return (
    <>
      <span class="badge open wide-only" title="Read-only, at the limits of the demo tier">
        Demo
      </span>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          isAsking.value = true;
        }}
      >
        Sign in
      </button>
    </>
  );
}

/** A page with nothing to show, and the reason. */
export function Nothing(props: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="nothing">
      <h1>{props.title}</h1>
      <p>{props.children}</p>
    </section>
  );
}

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog
      ref={dialog}
      class="card"
      aria-labelledby="help-title"
      onClose={() => {
        helpOpen.value = false;
      }}
    >
      <h2 id="help-title">Keyboard</h2>
      <dl class="keys">
        {SHORTCUTS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{capital(meaning)}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
