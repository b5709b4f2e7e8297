/**
 * Pages of a list that continue after the sort key of their last row, so new rows do not shift the next page. A row whose
 * key changes between two pages (a market that is traded, a trader on a refreshed board) can be repeated or omitted.
 */
import type { z } from 'zod';
import { parameter } from '../http/parameters.ts';
import { text } from './schemas.ts';

/** The `cursor` of a list. */
export type Cursor<Row, Values> = {
  /** Parses it to values that statements bind by these names. */
  readonly parameter: z.ZodOptional<z.ZodType<Values>>;
  /** The cursor of the page after this row. */
  readonly after: (row: Row) => string;
};

export function cursor<Row, Values extends object>({
  after,
  example,
  parse,
  pattern,
}: {
  readonly after: (row: Row) => string;
  readonly example: string;
  /** Receives the match of `pattern`. Returns undefined if a number is out of range. */
  readonly parse: (match: RegExpExecArray) => Values | undefined;
  readonly pattern: RegExp;
}): Cursor<Row, Values> {
  const any = parameter<Values>(
    'a cursor from the Link header or next_cursor of a response',
    { type: 'string', pattern: pattern.source, examples: [example] },
    (given) => {
      const match = pattern.exec(given);
      return match === null ? undefined : parse(match);
    },
  );
  const what = 'cursor from the `Link` header or `next_cursor` of the previous page';
  return { after, parameter: any.optional().describe(what) };
}

export const NEXT_CURSOR = text('`cursor` of the next page; empty on the last page');

/** Columns, and the SQL of their values at the cursor. */
type Key = { readonly columns: readonly string[]; readonly at: string };

/**
 * SQL of a list that is sorted by `key`, greatest first, and then by `tie`, smallest first. `asc` is the exact reverse.
 * `behind` is the condition for rows after the cursor, after AND; '' without a cursor.
 */
export function keyset(
  { cursor, order }: { readonly cursor?: object | undefined; readonly order: 'asc' | 'desc' },
  { columns, at }: Key,
  tie?: { readonly column: string; readonly at: string },
): { readonly behind: string; readonly orderBy: string } {
  const [down, up, less, more] =
    order === 'desc' ? ['DESC', 'ASC', '<', '>'] : ['ASC', 'DESC', '>', '<'];
  const key = `(${columns.join(', ')})`;
  const isTied = tie === undefined ? '' : `OR (${key} = ${at} AND ${tie.column} ${more} ${tie.at})`;
  const sorted = columns.map((column) => `${column} ${down}`);
  return {
    behind: cursor === undefined ? '' : `AND (${key} ${less} ${at} ${isTied})`,
    orderBy: [...sorted, ...(tie ? [`${tie.column} ${up}`] : [])].join(', '),
  };
}

/** Parameters of the statement, which reads one row beyond the page: without it, a full last page would have a next one. */
export function pageParameters<Values extends object>(input: {
  readonly cursor?: Values | undefined;
  readonly limit: number;
}) {
  return { most: input.limit + 1, ...input.cursor };
}

/** Splits off the row beyond the page. `next_cursor` is '' on the last page. */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
  { after }: Pick<Cursor<Row, unknown>, 'after'>,
): { readonly page: readonly Row[]; readonly next_cursor: string } {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return { page, next_cursor: last === undefined ? '' : after(last) };
}

type Sorted = { readonly figure: bigint | number; readonly conditionId: string };

/** Entries in memory in the order of a list, those behind the cursor: greatest figure first, then by condition id; `asc` is the exact reverse. */
export function behindCursor<Entry extends Sorted>(
  entries: readonly Entry[],
  order: 'asc' | 'desc',
  last: Sorted | undefined,
): readonly Entry[] {
  const direction = order === 'desc' ? 1 : -1;
  const compared = (one: Sorted, other: Sorted) =>
    direction * (compare(other.figure, one.figure) || compare(one.conditionId, other.conditionId));
  return entries
    .filter((entry) => last === undefined || compared(entry, last) > 0)
    .toSorted(compared);
}

function compare<T extends bigint | number | string>(one: T, other: T): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
