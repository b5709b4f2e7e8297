/**
 * The leaderboard's settings and their controls. Settings live in the page's URL under the API's own parameter names,
 * and every control reads and writes that URL.
 */

import { useState } from 'preact/hooks';
import { TypedField } from './controls.tsx';
import { key } from './key.ts';
import { query, setQuery } from './route.ts';

export const TIME_FRAMES = ['1H', '4H', '1D', '3D', '7D', '30D'] as const;

export const TAGS = [
  ...['all', 'sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture'],
  ...['tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey'],
  ...['soccer', 'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

export const SORTS = [
  { name: 'pnl', title: 'PnL' },
  { name: 'roi', title: 'ROI' },
  { name: 'win_rate', title: 'Win rate' },
  { name: 'market_count', title: 'Markets' },
  { name: 'volume', title: 'Volume' },
] as const;

export type NumberFilter = {
  readonly name: string;
  /** Label of the field. */
  readonly label: string;
  /** Text of the chip; `#` stands for the value. */
  readonly chip: string;
};

export const NUMBER_FILTERS: readonly NumberFilter[] = [
  { name: 'min_pnl', label: 'Min PnL, USDC', chip: 'PnL ≥ # USDC' },
  { name: 'min_roi', label: 'Min ROI, %', chip: 'ROI ≥ #%' },
  { name: 'max_roi', label: 'Max ROI, %', chip: 'ROI ≤ #%' },
  { name: 'min_win_rate', label: 'Min win rate, %', chip: 'win rate ≥ #%' },
  { name: 'max_win_rate', label: 'Max win rate, %', chip: 'win rate ≤ #%' },
  { name: 'min_market_count', label: 'Min markets', chip: 'markets ≥ #' },
  { name: 'max_market_count', label: 'Max markets', chip: 'markets ≤ #' },
  { name: 'last_active_hours', label: 'Active in the last … hours', chip: 'active in last # h' },
];

export const DEFAULTS: Readonly<Record<string, string>> = {
  ...{ time_frame: '30D', sort_by: 'pnl', order: 'desc', tag: 'all', offset: '0' },
};

export function setting(query: URLSearchParams, name: string): string {
  return query.get(name) ?? DEFAULTS[name] ?? '';
}

/** Entries per page. The API returns 20 to the demo tier, which the key's prefix shows, and without a key. */
export function pageSize(query: URLSearchParams): number {
  const given = Number(query.get('limit'));
  if (Number.isInteger(given) && given > 0) return given;
  return key.value === '' || key.value.startsWith('fs_demo_') ? 20 : 50;
}

/** The API request for the page's settings. The API validates them. */
export function leaderboardPath(query: URLSearchParams): string {
  const names = [...Object.keys(DEFAULTS), ...NUMBER_FILTERS.map(({ name }) => name), 'limit'];
  const asked = new URLSearchParams();
  for (const name of names) {
    const value = setting(query, name);
    if (value !== '') asked.set(name, value);
  }
  return `/v1/analytics/leaderboard?${asked}`;
}

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

/** Every change returns to the first page. */
function set(changes: Readonly<Record<string, string>>, typed = false): void {
  setQuery({ ...changes, offset: '' }, { typed });
}
