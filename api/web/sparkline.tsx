/** The PnL of a trader summed up over the last hours, as a line without axes. */
import { signed } from './format.ts';

const WIDTH = 96;
const HEIGHT = 24;
const EDGE = 2;

/** `pnl` is of each hour, oldest first, in micro-units. */
export function Sparkline({ pnl }: { readonly pnl: readonly number[] | undefined }) {
  if (pnl === undefined) return <span class="spark" />;
  let sum = 0;
  const sums = [0, ...pnl.map((hour) => (sum += hour))];
  if (pnl.every((hour) => hour === 0)) {
    return (
      <span class="spark quiet" title={`nothing realised in ${pnl.length} hours`}>
        ·
      </span>
    );
  }
  const low = Math.min(...sums);
  const high = Math.max(...sums);
  const x = (index: number) => round((index / (sums.length - 1)) * WIDTH);
  const y = (value: number) =>
    round(EDGE + (1 - (value - low) / (high - low)) * (HEIGHT - 2 * EDGE));
  const line = sums.map((value, index) => `${x(index)} ${y(value)}`).join('L');
  const title = `${signed(sum)} USDC in ${pnl.length} hours`;
  return (
    <svg
      class={`spark ${sum < 0 ? 'loss' : 'gain'}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={title}
    >
      <title>{title}</title>
      <path class="base" d={`M0 ${y(0)}H${WIDTH}`} />
      <path class="area" d={`M0 ${y(0)}L${line}L${WIDTH} ${y(0)}Z`} />
      <path class="line" d={`M${line}`} />
    </svg>
  );
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
