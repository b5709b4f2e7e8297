/** The controls of the leaderboard. Each shows and sets the address of the page, and nothing else. */
import { useEffect, useState } from 'preact/hooks';
import {
  NUMBER_FILTERS,
  type NumberFilter,
  SORTS,
  setting,
  TAGS,
  TIME_FRAMES,
} from './leaderboard-query.ts';
import { query, setQuery } from './route.ts';

const TYPED_MS = 350;

export function LeaderboardFilters() {
  const given = query.value;
  const active = NUMBER_FILTERS.filter(({ name }) => given.has(name));
  const [open, setOpen] = useState(false);
  return (
    <div class="controls">
      <fieldset class="segments">
        <legend class="hidden">Time frame</legend>
        {TIME_FRAMES.map((frame) => (
          <label key={frame}>
            <input
              type="radio"
              name="time_frame"
              value={frame}
              checked={setting(given, 'time_frame') === frame}
              onChange={() => set({ time_frame: frame })}
            />
            <span>{frame}</span>
          </label>
        ))}
      </fieldset>
      <label class="field">
        <span>Tag</span>
        <select
          value={setting(given, 'tag')}
          onChange={(event) => set({ tag: event.currentTarget.value })}
        >
          {TAGS.map((tag) => (
            <option key={tag} value={tag}>
              {tag}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Sort</span>
        <select
          value={`${setting(given, 'sort_by')} ${setting(given, 'order')}`}
          onChange={(event) => {
            const [sort_by = '', order = ''] = event.currentTarget.value.split(' ');
            set({ sort_by, order });
          }}
        >
          {SORTS.map(({ name, title }) => [
            <option key={name} value={`${name} desc`}>
              {title}, best first
            </option>,
            <option key={`${name} asc`} value={`${name} asc`}>
              {title}, worst first
            </option>,
          ])}
        </select>
      </label>
      <button
        type="button"
        aria-expanded={open}
        aria-controls="filters"
        onClick={() => setOpen(!open)}
      >
        Filters{active.length === 0 ? '' : ` (${active.length})`}
      </button>
      {active.map(({ name, chip }) => (
        <button
          key={name}
          type="button"
          class="chip"
          title="Remove this filter"
          onClick={() => set({ [name]: '' })}
        >
          {chip.replace('#', setting(given, name))} <span aria-hidden="true">×</span>
          <span class="hidden">(remove)</span>
        </button>
      ))}
      <div id="filters" class="filters" hidden={!open}>
        {NUMBER_FILTERS.map((filter) => (
          <NumberField key={filter.name} filter={filter} value={setting(given, filter.name)} />
        ))}
        <button
          type="button"
          class="quiet"
          disabled={active.length === 0}
          onClick={() => set(Object.fromEntries(NUMBER_FILTERS.map(({ name }) => [name, ''])))}
        >
          Clear all
        </button>
      </div>
    </div>
  );
}

/** Takes effect when the user pauses, leaves the field or presses Enter. */
function NumberField(props: { readonly filter: NumberFilter; readonly value: string }) {
  const { filter, value } = props;
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => set({ [filter.name]: typed }, true), TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed, value]);
  return (
    <label class="field tall">
      <span>{filter.label}</span>
      <input
        type="number"
        name={filter.name}
        step={filter.step}
        inputMode="decimal"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => set({ [filter.name]: event.currentTarget.value }, true)}
      />
    </label>
  );
}

/** Any change begins at the first page again. */
function set(changes: Readonly<Record<string, string>>, typed = false): void {
  setQuery({ ...changes, offset: '' }, { typed });
}
