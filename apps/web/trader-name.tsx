/** A link to a trader, with a small picture and the name or address. */
import { shortAddress } from './format.ts';
import { Picture } from './picture.tsx';
import type { Column } from './table.tsx';

type Named = {
  readonly address: string;
  readonly name: string;
  /** Not in every response. */
  readonly profile_image?: string;
};

export function TraderName({ profile, row }: { readonly profile: Named; readonly row?: boolean }) {
  const { address, name, profile_image } = profile;
  return (
    <a class="trader" href={`/trader/${address.toLowerCase()}`} data-row={row} title={address}>
      <Picture id={address} image={profile_image} />
      {name === '' ? (
        <span class="address">{shortAddress(address)}</span>
      ) : (
        <span class="name">{name}</span>
      )}
    </a>
  );
}

export const TRADER: Column<{ readonly profile: Named }> = {
  title: 'Trader',
  isHead: true,
  cell: ({ profile }) => <TraderName profile={profile} row />,
};
