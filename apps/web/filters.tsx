/**
 * The settings of a list and their controls. Settings are stored in the page's URL under the API's parameter names, and
 * every control reads and writes that URL.
 */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Pager, SelectField, TypedField } from './controls.tsx';
import { count } from './format.ts';
import { query, setQuery } from './route.ts';
import type { Column, Sorted } from './table.tsx';
import type { Answered } from './use-answer.tsx';

const TAGS = [
  ...['all', 'sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture'],
  ...['tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey'],
  ...['soccer', 'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

/** Longer values are cut in chips. */
const CHIP_MAX = 24;

export type Filter = {
  readonly name: string;
  /** Label of the field. */
  readonly label: string;
  /** Text of the chip; `#` stands for the value. */
  readonly chip: string;
  readonly type: 'text' | 'number';
  readonly wide?: boolean;
};

export type Settings = {
  /** The value in the URL, or the default. */
  readonly get: (name: string) => string;
  /** Returns to the first page. `typed` values replace the history entry. */
  readonly set: (
    changes: Readonly<Record<string, string>>,
    options?: { readonly typed: boolean },
  ) => void;
  /** The name of the page's cursor in the URL. */
  readonly cursor: string;
};

export function settingsOf(
  defaults: Readonly<Record<string, string>>,
  cursor = 'cursor',
): Settings {
  return {
    cursor,
    get: (name) => query.value.get(name) ?? defaults[name] ?? '',
    set: (changes, options) => setQuery({ ...changes, offset: '', [cursor]: '' }, options),
  };
}

/** The settings that have a value, as parameters of an API request. */
export function parametersOf(settings: Settings, names: readonly string[]): URLSearchParams {
  const asked = new URLSearchParams();
  for (const name of names) {
    const value = settings.get(name);
    if (value !== '') asked.set(name, value);
  }
  return asked;
}

/** The order of a table's rows. */
export function sortedBy({ get, set }: Settings): Sorted {
  return {
    by: get('sort_by'),
    order: get('order'),
    onSort: (sort_by, order) => set({ sort_by, order }),
  };
}

/** The controls above a list: its own, then tag, order and filters. */
export function ListControls<Row>(props: {
  readonly settings: Settings;
  readonly columns: readonly Column<Row>[];
  readonly filters: readonly Filter[];
  readonly children: ComponentChildren;
}) {
  const { settings, columns, filters, children } = props;
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="controls">
      {children}
      <TagField settings={settings} />
      <SortField settings={settings} columns={columns} />
      <FilterChips settings={settings} filters={filters} isOpen={isOpen} onOpen={setOpen} />
      <FilterFields settings={settings} filters={filters} isOpen={isOpen} />
    </div>
  );
}

function TagField({ settings }: { readonly settings: Settings }) {
  const tag = settings.get('tag');
  return (
    <SelectField
      label="Tag"
      value={tag}
      choices={[...new Set([...TAGS, tag])].map((one) => [one, one === 'all' ? 'All' : one])}
      onValue={(tag) => settings.set({ tag })}
    />
  );
}

export function SortField<Row>(props: {
  readonly settings: Settings;
  readonly columns: readonly Column<Row>[];
}) {
  const { get, set } = props.settings;
  return (
    <SelectField
      label="Sort"
      value={`${get('sort_by')} ${get('order')}`}
      choices={props.columns.flatMap(({ title, sort }) =>
        sort === undefined
          ? []
          : (['desc', 'asc'] as const).map(
              (order) => [`${sort.name} ${order}`, `${title}, ${sort[order]}`] as const,
            ),
      )}
      onValue={(value) => {
        const [sort_by = '', order = ''] = value.split(' ');
        set({ sort_by, order });
      }}
    />
  );
}

type FiltersProps = {
  readonly settings: Settings;
  readonly filters: readonly Filter[];
  readonly isOpen: boolean;
};

/** The button that opens the fields, and a chip for each filter that is set. */
export function FilterChips(props: FiltersProps & { readonly onOpen: (isOpen: boolean) => void }) {
  const { settings, filters, isOpen, onOpen } = props;
  const chips = chipsOf(settings, filters);
  return (
    <>
      <button
        type="button"
        aria-expanded={isOpen}
        aria-controls="filters"
        onClick={() => onOpen(!isOpen)}
      >
        Filters{chips.length === 0 ? '' : ` (${chips.length})`}
      </button>
      {chips.map(({ name, text }) => (
        <button
          key={name}
          type="button"
          class="chip"
          title="Remove this filter"
          onClick={() => settings.set({ [name]: '' })}
        >
          {text} <span aria-hidden="true">×</span>
          <span class="hidden">(remove)</span>
        </button>
      ))}
      {chips.length < 2 ? null : (
        <button
          type="button"
          class="quiet"
          onClick={() => settings.set(Object.fromEntries(chips.map(({ name }) => [name, ''])))}
        >
          Clear filters
        </button>
      )}
    </>
  );
}

export function chipsOf({ get }: Settings, filters: readonly Filter[]) {
  return filters
    .filter(({ name }) => get(name) !== '')
    .map(({ name, chip }) => {
      const value = get(name);
      const short = value.length > CHIP_MAX ? `${value.slice(0, CHIP_MAX - 2)}…` : value;
      return { name, text: chip.replace('#', () => short) };
    });
}

export function FilterFields({ settings, filters, isOpen }: FiltersProps) {
  return (
    <div id="filters" class="filters" hidden={!isOpen}>
      {filters.map((filter) => (
        <SettingField key={filter.name} settings={settings} {...filter} />
      ))}
    </div>
  );
}

/** A field for one setting. */
export function SettingField(props: Omit<Filter, 'chip'> & { readonly settings: Settings }) {
  const { settings, name, label, type, wide } = props;
  return (
    <TypedField
      name={name}
      label={label}
      type={type}
      wide={wide}
      value={settings.get(name)}
      onValue={(value) => settings.set({ [name]: value }, { typed: true })}
    />
  );
}

/** Pager for lists with cursors. It goes back through the pages that the user saw, also after Back in the browser. */
export function CursorPager(props: {
  readonly settings: Settings;
  readonly answer: Answered<{ readonly next_cursor: string }>;
  /** Number of entries on the page. */
  readonly shown: number | undefined;
  readonly what: string;
  readonly onTurn?: () => void;
}) {
  const { settings, answer, shown = 0, what, onTurn } = props;
  /** Cursors of the pages up to the last one that was seen, in their order. */
  const [pages, setPages] = useState<readonly string[]>([]);
  // '' for the first page, and if there is no next one.
  const cursor = settings.get(settings.cursor);
  const next = answer.data?.next_cursor ?? '';
  if (answer.data === undefined || (cursor === '' && next === '')) return null;
  const at = pages.indexOf(cursor);
  const previous = pages[at - 1];
  function turnTo(to: string): void {
    setQuery({ [settings.cursor]: to });
    onTurn?.();
  }
  function turnForward(): void {
    setPages([...pages.slice(0, Math.max(0, at)), cursor, next]);
    turnTo(next);
  }
  return (
    <Pager
      label={`Pages of ${what}`}
      first={cursor === '' ? undefined : () => turnTo('')}
      previous={previous === undefined ? undefined : () => turnTo(previous)}
      next={next === '' ? undefined : turnForward}
      isStale={answer.isStale}
    >
      {count(shown)} {what}
    </Pager>
  );
}
