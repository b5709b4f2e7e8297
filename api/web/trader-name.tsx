/**
 * A link to a trader: a small picture drawn from the address, and the name or the address. Profile images are on
 * other hosts, which this page never contacts.
 */
import { shortAddress } from './format.ts';

type Named = { readonly address: string; readonly name: string };

export function TraderName({ profile, row }: { readonly profile: Named; readonly row?: boolean }) {
  const { address, name } = profile;
  return (
    <a class="trader" href={`/trader/${address.toLowerCase()}`} data-row={row} title={address}>
      <Picture address={address} />
      {name === '' ? (
        <span class="address">{shortAddress(address)}</span>
      ) : (
        <span class="name">{name}</span>
      )}
    </a>
  );
}

const CELLS = 5;

/** Five by five mirrored cells; pattern and colour follow from the address. */
export function Picture({
  address,
  size = 20,
}: {
  readonly address: string;
  readonly size?: number;
}) {
  const digits = address.toLowerCase().slice(2);
  const hue = Math.round((Number.parseInt(digits.slice(0, 4), 16) / 65_536) * 360);
  let path = '';
  for (let column = 0; column < 3; column += 1) {
    for (let row = 0; row < CELLS; row += 1) {
      const digit = Number.parseInt(digits[4 + column * CELLS + row] ?? '0', 16);
      if (digit < 8) continue;
      path += `M${column} ${row}h1v1h-1z`;
      if (column < 2) path += `M${CELLS - 1 - column} ${row}h1v1h-1z`;
    }
  }
  return (
    <svg
      class="picture"
      viewBox="-1 -1 7 7"
      width={size}
      height={size}
      aria-hidden="true"
      shape-rendering="crispEdges"
    >
      <rect x="-1" y="-1" width="7" height="7" fill={`hsl(${hue} 45% 88%)`} />
      <path d={path} fill={`hsl(${hue} 60% 38%)`} />
    </svg>
  );
}
