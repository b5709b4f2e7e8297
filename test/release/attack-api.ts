/**
 * `npm run attack:api`: the whole service with live trades, 10,000 random bad requests and 1,000 slow
 * connections that are kept open meanwhile, and the latency of a well-behaved client. Prints the figures; exits
 * with 1 if a request had no response or a 5xx, something leaked, slow connections were missing, or the median
 * latency more than doubled.
 */

import { connectNats } from '../../infra/nats/connection.ts';
import { startService, temporaryDirectory } from '../support/service.ts';
import { goodRequests, openSlowConnections, sendBadRequests, type Target } from './attack.ts';
import { issueKeys } from './bench/load.ts';
import { median, percentile, readable } from './bench/report.ts';

const BAD_REQUESTS = 10_000;
/** Accounts that send them. */
const ATTACKERS = 50;
const SLOW_CONNECTIONS = 1_000;
/** The server closes slow connections; this many of them are open on average. */
const SLOW_SHARE_MIN = 0.9;
const SAMPLE_MS = 200;
const QUIET_MS = 15_000;
const EVERY_MS = 50;
const SEED = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000);

const directory = temporaryDirectory();
const args = ['--history-days', '2', '--demo-rate', '5'];
// All come from one address here: with its cap, most would be refused before they are read.
const env = { HTTP_CONNECTIONS_PER_ADDRESS_MAX: '5000' };
const service = await startService(directory.path, { args, env });
try {
  const { hostname: host, port } = new URL(service.ready.url);
  const nats = await connectNats({ ...service.nats, name: 'attack' });
  const attackers = await issueKeys(nats, ATTACKERS);
  await nats.close();
  const target: Target = {
    host,
    port: Number(port),
    keys: [service.ready.key, ...attackers],
    secrets: [
      ...[new URL(service.env.CLICKHOUSE_URL).password, String(service.env.NATS_TOKEN)],
      directory.path,
    ],
  };
  await goodRequests(target, { forMs: 3_000, everyMs: EVERY_MS });
  const quiet = await goodRequests(target, { forMs: QUIET_MS, everyMs: EVERY_MS });
  const slow = await openSlowConnections(target, {
    ...{ count: SLOW_CONNECTIONS, everyMs: 500, isKept: true },
  });
  const counts: number[] = [];
  const sampling = setInterval(() => counts.push(slow.open()), SAMPLE_MS);
  const held = await goodRequests(target, { forMs: 8_000, everyMs: EVERY_MS });
  const [attack, attacked] = await Promise.all([
    sendBadRequests(target, { count: BAD_REQUESTS, parallel: 8, seed: SEED }),
    goodRequests(target, { forMs: QUIET_MS, everyMs: EVERY_MS }),
  ]);
  clearInterval(sampling);
  slow.close();
  const open = Math.round(counts.reduce((sum, one) => sum + one, 0) / counts.length);
  const row = (what: string, times: readonly number[]) =>
    console.log(
      `${what.padEnd(40)} p50 ${readable(median(times))} ms  p99 ${readable(percentile(times, 0.99))} ms`,
    );
  console.log(`seed ${SEED}; statuses`, Object.fromEntries([...attack.statuses].sort()));
  row('good requests, quiet', quiet);
  row(`good requests, ${open} slow connections`, held);
  row('good requests, bad requests as well', attacked);
  const failed = [...attack.statuses.keys()].filter((status) => status >= 500);
  if (attack.leaks.length > 0) console.log('leaked', attack.leaks.slice(0, 5));
  if (attack.unanswered.length > 0) console.log('no answer', attack.unanswered.slice(0, 5));
  const limit = 2 * median(quiet);
  const doubled = [held, attacked].some((times) => median(times) > limit);
  const missing = open < SLOW_SHARE_MIN * SLOW_CONNECTIONS;
  const isBad =
    failed.length > 0 ||
    attack.unanswered.length > 0 ||
    attack.leaks.length > 0 ||
    missing ||
    doubled;
  process.exitCode = isBad ? 1 : 0;
} finally {
  await service.up.stop();
  directory.remove();
}
