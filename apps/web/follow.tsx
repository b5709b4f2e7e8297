/** Traders and markets that the user follows, stored in the browser, and the star button. */
import type { Signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { storedList } from './stored.ts';

export type Followed = { readonly id: string; readonly name: string };

/** The tape's limit on traders in a link. */
const FOLLOWED_MAX = 50;

const lists = {
  trader: storedList<Followed>('followed.traders', { isEntry: isFollowed, max: FOLLOWED_MAX }),
  market: storedList<Followed>('followed.markets', { isEntry: isFollowed, max: FOLLOWED_MAX }),
};

/** Ids are lower-case addresses, and market ids; oldest first. */
export const followed: Readonly<Record<keyof typeof lists, Signal<readonly Followed[]>>> = {
  trader: lists.trader.list,
  market: lists.market.list,
};

export function Star(props: {
  readonly kind: keyof typeof lists;
  readonly id: string;
  /** Name to show in the list; '' shows the id. */
  readonly name: string;
}) {
  const { kind, name } = props;
  const id = props.id.toLowerCase();
  const { list, set } = lists[kind];
  const others = list.value.filter((one) => one.id !== id);
  const isOn = others.length < list.value.length;
  const isFull = !isOn && others.length >= FOLLOWED_MAX;
  const [isRefused, setRefused] = useState(false);
  return (
    <>
      <button
        type="button"
        class="star"
        aria-pressed={isOn}
        title={isOn ? `Stop following this ${kind}` : `Follow this ${kind}`}
        onClick={() => {
          // Another one would drop the oldest.
          setRefused(isFull);
          if (!isFull) set(isOn ? others : [...others, { id, name }]);
        }}
      >
        <span aria-hidden="true">{isOn ? '★' : '☆'}</span>{' '}
        <span>{isOn ? 'Following' : 'Follow'}</span>
      </button>
      {isRefused && isFull ? (
        <span role="status">
          You follow {FOLLOWED_MAX} {kind}s, the most possible. Stop following one first.
        </span>
      ) : null}
    </>
  );
}

function isFollowed(one: unknown): one is Followed {
  return (
    one instanceof Object &&
    'id' in one &&
    typeof one.id === 'string' &&
    'name' in one &&
    typeof one.name === 'string'
  );
}
