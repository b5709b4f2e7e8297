/** The time frames of leaderboards, which are also the windows of a trader's recent figures; shortest first. */

/**
 * Length in seconds, table of the leaderboard (statements only get table names from here), and name and text of the
 * window.
 */
export const TIME_FRAMES = {
  '1H': { seconds: 3_600, board: 'leaderboard_1h', window: 't_1h', period: 'the last hour' },
  '4H': { seconds: 14_400, board: 'leaderboard_4h', window: 't_4h', period: 'the last 4 hours' },
  '1D': { seconds: 86_400, board: 'leaderboard_1d', window: 't_1d', period: 'the last day' },
  '3D': { seconds: 259_200, board: 'leaderboard_3d', window: 't_3d', period: 'the last 3 days' },
  '7D': { seconds: 604_800, board: 'leaderboard_7d', window: 't_7d', period: 'the last 7 days' },
  '30D': {
    seconds: 2_592_000,
    board: 'leaderboard_30d',
    window: 't_30d',
    period: 'the last 30 days',
  },
} as const;
type TimeFrame = keyof typeof TIME_FRAMES;
export const TIME_FRAME_NAMES = Object.keys(TIME_FRAMES) as TimeFrame[];

const FRAMES = Object.values(TIME_FRAMES);
type Window = (typeof FRAMES)[number]['window'];

/** Lengths of the windows in seconds. Each window contains the shorter ones. */
export const WINDOW_LENGTHS = FRAMES.map(({ seconds }) => seconds);

/** An object with a member for each window, made from its index and text. */
export function eachWindow<Value>(
  member: (index: number, period: string) => Value,
): Record<Window, Value> {
  const members = FRAMES.map(({ window, period }, index) => [window, member(index, period)]);
  return Object.fromEntries(members);
}
