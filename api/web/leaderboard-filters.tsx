/** The controls of the leaderboard. Each shows and sets the address of the page, and nothing else. */
import { useState } from 'preact/hooks';
import { NUMBER_FILTERS, SORTS, setting, TAGS, TIME_FRAMES } from './leaderboard-query.ts';
import { query, setQuery } from './route.ts';
import { TypedField } from './typed-field.tsx';

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
      {active.length < 2 ? null : (
        <button
          type="button"
          class="quiet"
          onClick={() => set(Object.fromEntries(NUMBER_FILTERS.map(({ name }) => [name, ''])))}
        >
          Clear all
        </button>
      )}
      <div id="filters" class="filters" hidden={!open}>
        {NUMBER_FILTERS.map((filter) => (
          <TypedField
            key={filter.name}
            name={filter.name}
            label={filter.label}
            type="number"
            value={setting(given, filter.name)}
            onValue={(value) => set({ [filter.name]: value }, true)}
          />
        ))}
      </div>
    </div>
  );
}

/** Any change begins at the first page again. */
function set(changes: Readonly<Record<string, string>>, typed = false): void {
  setQuery({ ...changes, offset: '' }, { typed });
}
