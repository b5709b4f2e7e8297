/** The picture of a trader or icon of a market, served by the api; if there is none, one generated from the id. */
import { useState } from 'preact/hooks';

const ORIGINS = (
  document.querySelector<HTMLMetaElement>('meta[name=picture-origins]')?.content ?? ''
).split(',');
const CELLS = 5;

type Props = {
  /** Address or condition id. */
  readonly id: string;
  /** Its URL on another host; '' if there is none. */
  readonly image?: string | undefined;
  readonly size?: number;
};

export function Picture({ id, image = '', size = 20 }: Props) {
  const [missed, setMissed] = useState('');
  if (missed === image || !ORIGINS.includes(URL.parse(image)?.origin ?? '-')) {
    return <Drawn id={id} size={size} />;
  }
  return (
    <img
      class="picture"
      src={`/pictures?url=${encodeURIComponent(image)}`}
      alt=""
      width={size}
      height={size}
      loading="lazy"
      onError={() => setMissed(image)}
    />
  );
}

/** Five by five mirrored cells; the id determines pattern and colour. */
function Drawn({ id, size }: { readonly id: string; readonly size: number }) {
  const digits = id.toLowerCase().slice(2);
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
