/** The refreshable views of a benchmark's data: each is refreshed on demand. */
type Query = (sql: string) => Promise<readonly unknown[]>;

export const BOARDS = ['1h', '4h', '1d', '3d', '7d', '30d'].map((frame) => `leaderboard_${frame}`);

export async function refresh(query: Query, view: string): Promise<void> {
  await query(`SYSTEM REFRESH VIEW ${view}`);
  await query(`SYSTEM WAIT VIEW ${view}`);
}

/** Refreshes all views but `except`, and then not again while `work` runs. */
export async function withoutRefreshes<T>(
  query: Query,
  work: () => Promise<T>,
  except = '',
): Promise<T> {
  const views = (await query(
    `SELECT view FROM system.view_refreshes WHERE database = 'fillstream' AND view != '${except}'`,
  )) as readonly { readonly view: string }[];
  for (const { view } of views) {
    await refresh(query, view);
    await query(`SYSTEM STOP VIEW ${view}`);
  }
  try {
    return await work();
  } finally {
    for (const { view } of views) await query(`SYSTEM START VIEW ${view}`);
  }
}
