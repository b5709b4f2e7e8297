/**
 * What is known of one trader besides their trades: newest fill and public profile. Shared by the
 * trader endpoints of both versions, with the rule for an address that was never seen.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { Problem } from '../errors.ts';
import type { Call } from './call.ts';
import { NO_PROFILE } from './profiles.ts';
import { read } from './query.ts';
import { rowOf, seconds } from './rows.ts';

const ActivityRow = rowOf({ newest: seconds('max(last_trade_at)') });

const ACTIVITY_SQL = `
SELECT ${ActivityRow.columns}
FROM trader_activity
WHERE trader = {trader:FixedString(20)}`;

/** What the last days come to, with their newest fill; 0 where there is none. */
type Recent = Promise<{ readonly newest: number }>;

/**
 * The newest fill is looked for in all time only where `recent`, which is being read, has none. Throws
 * Problem 404 for an address without any fill and without a public profile.
 */
export async function readIdentity(call: Call, address: string, recent: Recent | undefined) {
  const parameters = { trader: new Bytes(address) };
  const [profiles, last_trade_at] = await Promise.all([
    call.metadata.profiles([address]),
    newestFill(call, parameters, recent),
  ]);
  const profile = profiles.get(address);
  if (profile === undefined && last_trade_at === 0) {
    const detail = `no trade of ${address} was ever seen`;
    throw new Problem({ status: 404, error: 'not_found', detail });
  }
  return { ...(profile ?? NO_PROFILE), last_trade_at };
}

async function newestFill(call: Call, parameters: { trader: Bytes }, recent: Recent | undefined) {
  const newest = (await recent)?.newest ?? 0;
  if (newest > 0) return newest;
  const [ever] = await read(call, { sql: ACTIVITY_SQL, parameters, row: ActivityRow });
  return ever?.newest ?? 0;
}
