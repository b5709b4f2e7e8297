/** A table: a list of columns and a list of rows. */
import { type ComponentChildren, Fragment } from 'preact';
import { Scroll } from './controls.tsx';
import { isUnfinished } from './status-strip.tsx';

type Order = 'asc' | 'desc';

export type Column<Row> = {
  readonly title: ComponentChildren;
  readonly cell: (row: Row) => ComponentChildren;
  /** Class of its cells and its title. */
  readonly class?: string;
  /** Whether its cells are the headers of their rows. */
  readonly isHead?: boolean;
  /** The API's name for sorting by this column, and a description of both orders. */
  readonly sort?: { readonly name: string; readonly desc: string; readonly asc: string };
};

/** The order of the rows, and what changes it. */
export type Sorted = {
  readonly by: string;
  readonly order: string;
  readonly onSort: (by: string, order: Order) => void;
};

type Props<Row> = {
  /** Accessible name. */
  readonly label: string;
  readonly class?: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  readonly rowClass?: (row: Row) => string;
  /** A row's `data-name`. */
  readonly rowName?: (row: Row) => string;
  /** Content below a row, across the table. */
  readonly below?: (row: Row) => ComponentChildren;
  /** For sortable columns. */
  readonly sorted?: Sorted;
};

export function Table<Row>(props: Props<Row>) {
  const { label, columns, rows, keyOf, rowClass, rowName, below } = props;
  return (
    <table class={props.class}>
      <caption class="hidden">{label}</caption>
      <thead>
        <tr>
          {columns.map((column, index) => (
            <Title key={index} column={column} sorted={props.sorted} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const more = below?.(row) ?? null;
          return (
            <Fragment key={keyOf(row)}>
              <tr class={rowClass?.(row)} data-name={rowName?.(row)}>
                {columns.map((column, index) =>
                  column.isHead ? (
                    <th key={index} scope="row" class={column.class}>
                      {column.cell(row)}
                    </th>
                  ) : (
                    <td key={index} class={column.class}>
                      {column.cell(row)}
                    </td>
                  ),
                )}
              </tr>
              {more === null ? null : (
                <tr class="below">
                  <td colSpan={columns.length}>{more}</td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </tbody>
    </table>
  );
}

/** A table in a scrolling card, or `empty` if there are no rows, which the service knows once it is up to date. */
export function CardTable<Row>({ empty, ...props }: Props<Row> & { readonly empty: string }) {
  if (props.rows.length === 0) return <p class="card empty">{isUnfinished.value ? '–' : empty}</p>;
  return (
    <Scroll label={props.label}>
      <Table {...props} />
    </Scroll>
  );
}

function Title<Row>(props: { readonly column: Column<Row>; readonly sorted: Sorted | undefined }) {
  const { column, sorted } = props;
  const { sort, title } = column;
  if (sort === undefined || sorted === undefined) {
    return (
      <th scope="col" class={column.class}>
        {title}
      </th>
    );
  }
  const { by, order, onSort } = sorted;
  const isDescending = order === 'desc';
  const isSorted = by === sort.name;
  return (
    <th
      scope="col"
      class={column.class}
      aria-sort={isSorted ? (isDescending ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        class="sort"
        onClick={() => onSort(sort.name, isSorted && isDescending ? 'asc' : 'desc')}
      >
        {title}
        <span aria-hidden="true">{isSorted ? (isDescending ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  );
}
