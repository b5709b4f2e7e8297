/**
 * `npm run bench:api`: the analytics endpoints on FILLS generated fills (20,000,000 by default; fills.ts keeps them).
 * Parts: `-- cached`, the leaderboard from the cache at 1, 16 and 64 connections beside a bare express handler that sends the
 * same bytes, medians of ROUNDS (3) rounds of SECONDS (3); `-- work`, every endpoint without a cache of responses
 * (endpoint-work.ts); `-- hot`, popular traders (hot.ts); and `-- search` (search.ts: another
 * data set). Without arguments, the first two.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { start, temporaryDirectory } from '../../support/service.ts';
import { casesOf } from './endpoint-calls.ts';
import { measureWork } from './endpoint-work.ts';
import { type Dataset, openDataset } from './fills.ts';
import { measureHot } from './hot.ts';
import { getRequest, type Load, load, medianOf, startApi } from './load.ts';
import { peakMiB } from './process-figures.ts';
import { machine, percent, printTable, readable } from './report.ts';
import { measureSearch } from './search.ts';
import { withoutRefreshes } from './views.ts';

const FILLS = Number(process.env.FILLS || 20_000_000);
const ROUNDS = Number(process.env.ROUNDS || 3);
const SECONDS = Number(process.env.SECONDS || 3);
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ['cached', 'work'];
const CONNECTIONS = [1, 16, 64];
const BOARD = '/v1/analytics/leaderboard';

async function measureCached({ parts }: Dataset) {
  const { port, pid, headers, stop } = await startApi(parts);
  const response = await fetch(`http://127.0.0.1:${port}${BOARD}`, { headers: headers(0) });
  const directory = temporaryDirectory();
  const file = join(directory.path, 'answer.json');
  writeFileSync(file, Buffer.from(await response.arrayBuffer()));
  const bare = start('test/release/bench/bare-express.ts', [file]);
  const barePort = Number((await bare.event('listening')).port);
  const rows = [];
  for (const connections of CONNECTIONS) {
    const how = { connections, seconds: SECONDS };
    const limits: Load[] = [];
    const owns: Load[] = [];
    // By turns, because the machine is not equally fast all the time.
    for (let round = 0; round < ROUNDS; round++) {
      const request = (path: string) => (i: number) => getRequest(path, headers(i));
      limits.push(await load({ ...how, port: barePort, request: request('/') }));
      owns.push(await load({ ...how, port, request: request(BOARD) }));
    }
    const [limit, own] = [medianOf(limits), medianOf(owns)];
    const row = (what: string, { perSecond, p50, p99 }: Load, ratio: string) => ({
      ...{ connections, what, 'requests/s': readable(perSecond) },
      ...{ 'p50, ms': readable(p50), 'p99, ms': readable(p99), ratio },
    });
    rows.push(row('bare express handler', limit, ''));
    const ratio = percent(own.perSecond, limit.perSecond);
    rows.push(row('leaderboard from the cache', own, ratio));
  }
  console.log(`largest resident memory of the api: ${Math.round(peakMiB(pid))} MiB`);
  await bare.stop();
  await stop();
  directory.remove();
  return rows;
}

async function main(): Promise<void> {
  const data = await openDataset(FILLS);
  const { exchange, fills, traders, markets, parts } = data;
  console.log(
    `${readable(fills)} fills, ${readable(traders.length)} traders, ${readable(markets.length)} markets; ${machine()}; ` +
      'the load, the api and ClickHouse share the cores',
  );
  try {
    await withoutRefreshes(parts.query, async () => {
      if (PARTS.includes('cached')) {
        const title = `Leaderboard from the cache, medians of ${ROUNDS} rounds of ${SECONDS} s`;
        printTable(title, await measureCached(data));
      }
      if (PARTS.includes('hot')) {
        const title = 'Requests a second, and p50 and p99 in milliseconds';
        printTable(title, await measureHot(data, { rounds: ROUNDS, seconds: SECONDS }));
      }
      if (PARTS.includes('work')) {
        const store = { url: parts.env.CLICKHOUSE_URL, pid: parts.clickhousePid };
        // So that the windows that end now are full, however old the data is.
        const now = () => exchange.to * 1_000;
        printTable('Work for a request', await measureWork(casesOf(data), store, now));
      }
    });
  } finally {
    await parts.stop();
  }
}

if (PARTS.includes('search')) printTable('Search', await measureSearch());
if (PARTS.some((part) => part !== 'search')) await main();
