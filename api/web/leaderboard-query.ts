/**
 * The settings of the leaderboard, as they stand in the page's own address under the names that the
 * API gives them, and the request that they make.
 */
import { key } from './key.ts';

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
] as const;

export type NumberFilter = {
  readonly name: string;
  /** Of the field. */
  readonly label: string;
  /** Of the chip: `%` stands for the value. */
  readonly chip: string;
};

export const NUMBER_FILTERS: readonly NumberFilter[] = [
  { name: 'min_pnl', label: 'PnL at least, USDC', chip: 'PnL ≥ # USDC' },
  { name: 'min_roi', label: 'ROI from, %', chip: 'ROI ≥ #%' },
  { name: 'max_roi', label: 'ROI to, %', chip: 'ROI ≤ #%' },
  { name: 'min_win_rate', label: 'Win rate from, %', chip: 'win rate ≥ #%' },
  { name: 'max_win_rate', label: 'Win rate to, %', chip: 'win rate ≤ #%' },
  { name: 'min_market_count', label: 'Markets from', chip: 'markets ≥ #' },
  { name: 'max_market_count', label: 'Markets to', chip: 'markets ≤ #' },
  { name: 'last_active_hours', label: 'Active in the last, h', chip: 'active in # h' },
];

export const DEFAULTS: Readonly<Record<string, string>> = {
  ...{ time_frame: '30D', sort_by: 'pnl', order: 'desc', tag: 'all', offset: '0' },
};

export function setting(query: URLSearchParams, name: string): string {
  return query.get(name) ?? DEFAULTS[name] ?? '';
}

/** Entries of a full page: of a key of the demo tier, which its name tells, the API gives 20. */
export function pageSize(query: URLSearchParams): number {
  const given = Number(query.get('limit'));
  if (Number.isInteger(given) && given > 0) return given;
  return key.value.startsWith('fs_demo_') ? 20 : 50;
}

/** The address of the API with every setting that the page has; the API says what is wrong. */
export function leaderboardPath(query: URLSearchParams): string {
  const names = [...Object.keys(DEFAULTS), ...NUMBER_FILTERS.map(({ name }) => name), 'limit'];
  const asked = new URLSearchParams();
  for (const name of names) {
    const value = setting(query, name);
    if (value !== '') asked.set(name, value);
  }
  return `/v1/analytics/leaderboard?${asked}`;
}
