/** Which part of a list is shown, and the way to the others. */
import { count } from './format.ts';

export function Pager(props: {
  readonly offset: number;
  readonly shown: number;
  /** Entries of a full page. */
  readonly size: number;
  readonly total: number;
  readonly onOffset: (offset: number) => void;
}) {
  const { offset, shown, size, total, onOffset } = props;
  const end = offset + shown;
  return (
    <nav class="pager" aria-label="Pages">
      <span>
        {shown === 0 ? 'none' : `${count(offset + 1)}–${count(end)}`} of {count(total)}
      </span>
      <button type="button" disabled={offset === 0} onClick={() => onOffset(0)}>
        First
      </button>
      <button
        type="button"
        disabled={offset === 0}
        onClick={() => onOffset(Math.max(0, offset - size))}
      >
        Previous
      </button>
      <button type="button" disabled={end >= total} onClick={() => onOffset(offset + size)}>
        Next
      </button>
    </nav>
  );
}
