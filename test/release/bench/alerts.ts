/**
 * `npm run bench:alerts`: from a match in FEED to the first byte at a webhook, and what alerts that do not match cost. RULES are the
 * numbers of alerts, HITS how many matches a second pass one of them, RATE matches a second, SECONDS the length of each run.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { headers } from '@nats-io/transport-node';
import { newSecret } from '../../../apps/alerts/destination.ts';
import type { AlertEvent } from '../../../apps/alerts/event.ts';
import {
  ALERTS_BUCKET,
  DESTINATIONS_BUCKET,
  ensureAlertStreams,
} from '../../../apps/alerts/logs.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { ID_HEADER } from '../../../infra/nats/reader.ts';
import { encodeFeedEvent, FEED_MATCH_SUBJECT, feedMessageId } from '../../../ingest/contract.ts';
import { start, until } from '../../support/service.ts';
import { startNats } from '../../support/stack.ts';
import { address, fill, hash, match } from '../../unit/feed-matches.ts';
import { cpuSeconds, residentMiB } from './process-figures.ts';
import { machine, percentile, printTable, readable } from './report.ts';

const RULES = (process.env.RULES || '100,1000,10000').split(',').map(Number);
const HITS = (process.env.HITS || '30,300').split(',').map(Number);
const RATE = Number(process.env.RATE || 300);
const SECONDS = Number(process.env.SECONDS || 20);
const WARM_SECONDS = 3;
/** Each gets the events of one alert; the others do not match. */
const DESTINATIONS = 10;
/** Traders of the matches; alerts that do not match watch others. */
const TRADERS = 50_000;
const WATCHED = 5;
const CREATED_AT_ONCE = 200;

let numbers = 0;

console.log(machine());
const rows = [];
for (const hits of HITS) for (const rules of RULES) rows.push(await measured(rules, hits));
printTable(`Alerts, ${RATE} matches a second, ${SECONDS} s`, rows);
process.exit(0);

async function measured(rules: number, hits: number) {
  const { nats, server, stop } = await startNats();
  await ensureAlertStreams(nats, 1);
  const latencies: number[] = [];
  const seen = new Set<string>();
  const receiver = createServer((request, response) => {
    const arrivedMs = Date.now();
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      response.end();
      const { id, timestamp }: AlertEvent = JSON.parse(body);
      seen.add(id);
      latencies.push(arrivedMs - Date.parse(timestamp));
    });
  }).listen(0, '127.0.0.1');
  const { port } = await until(async () => (receiver.address() as AddressInfo | null) ?? undefined);
  await store(nats, `http://127.0.0.1:${port}/`, rules);
  const alerts = start('apps/alerts/main.ts', [], {
    ...{ NATS_URL: server.url, ALERT_NETWORKS: '127.0.0.0/8', LOG_LEVEL: 'info' },
  });
  await alerts.reached('evaluating', ({ pass }) => pass === 'matches');
  await publishFor(nats, WARM_SECONDS, hits);
  await delay(500);
  latencies.length = 0;
  const before = cpuSeconds(alerts.pid);
  const sent = await publishFor(nats, SECONDS, hits);
  await until(async () => (latencies.length >= sent.hits ? true : undefined));
  const cpu = cpuSeconds(alerts.pid) - before;
  const row = {
    alerts: rules,
    'hits a second': hits,
    'p50 ms': percentile(latencies, 0.5),
    'p99 ms': percentile(latencies, 0.99),
    'most ms': percentile(latencies, 1),
    deliveries: latencies.length,
    'CPU µs a match': readable((cpu / sent.matches) * 1e6),
    MiB: Math.round(residentMiB(alerts.pid)),
  };
  console.log(JSON.stringify(row));
  await alerts.stop();
  receiver.close();
  await stop();
  return row;
}

/** Some alerts watch the traders of the hits; the others watch traders, markets and tags that do not occur. */
async function store(nats: Parameters<typeof openKv>[0], url: string, rules: number) {
  const [alerts, destinations] = await Promise.all(
    [ALERTS_BUCKET, DESTINATIONS_BUCKET].map((bucket) => openKv(nats, bucket)),
  );
  const at = { createdAt: new Date().toISOString(), updatedAt: new Date().toISOString() };
  const id = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
  for (let n = 0; n < DESTINATIONS; n += 1) {
    await destinations?.put(
      `destination.${id(n)}`,
      JSON.stringify({
        ...{ id: id(n), account: 'bench', name: 'bench', target: { kind: 'webhook', url }, ...at },
        ...{ secrets: [{ secret: newSecret(), until: null }], enabled: true },
        ...{ disabledBecause: null, failingSince: null },
      }),
    );
  }
  for (let first = 0; first < rules; first += CREATED_AT_ONCE) {
    const some = Array.from(
      { length: Math.min(CREATED_AT_ONCE, rules - first) },
      (_, n) => first + n,
    );
    await Promise.all(
      some.map((n) =>
        alerts?.put(
          `alert.${id(n)}`,
          JSON.stringify({
            ...{ id: id(n), account: 'bench', name: `alert ${n}`, rule: ruleOf(n), ...at },
            ...{ destinations: [id(n % DESTINATIONS)], confirm: false, enabled: true },
          }),
        ),
      ),
    );
  }
}

function ruleOf(n: number): object {
  if (n < DESTINATIONS) return { type: 'match', traders: [address(1 + n)] };
  const own = Array.from({ length: WATCHED }, (_, k) => n * WATCHED + k);
  if (n % 10 < 7) return { type: 'match', traders: own.map((k) => address(1_000_000 + k)) };
  if (n % 10 < 9) return { type: 'match', markets: own.map((k) => hash(9_000_000 + k)) };
  // Its tag occurs, its amount does not.
  return n % 100 === 9
    ? { type: 'match', tags: ['weather'], min_usdc: 1_000_000 + n }
    : { type: 'match', tags: [`tag-${n}`], min_usdc: 100 };
}

/** Publishes at an even pace; returns how many matches, and how many of them pass an alert. */
async function publishFor(nats: Parameters<typeof openKv>[0], seconds: number, hits: number) {
  const sent = { matches: 0, hits: 0 };
  const startMs = performance.now();
  const acknowledged: Promise<unknown>[] = [];
  for (let n = 0; n < RATE * seconds; n += 1) {
    const waitMs = startMs + (n * 1_000) / RATE - performance.now();
    if (waitMs > 1) await delay(waitMs);
    numbers += 1;
    const isHit = Math.floor((n * hits) / RATE) !== Math.floor(((n + 1) * hits) / RATE);
    const trader = isHit
      ? 1 + (sent.hits % DESTINATIONS)
      : 1 + DESTINATIONS + ((numbers * 7_919) % TRADERS);
    const taker = fill(trader, { orderHash: hash(50_000_000 + numbers) });
    const makers = [1, 2, 3].map((k) =>
      fill(1 + DESTINATIONS + ((numbers * 104_729 + k) % TRADERS), { side: 'SELL' }),
    );
    const one = match(80_000_000 + numbers, { taker, makers, detectedAtMs: Date.now() });
    const header = headers();
    header.set(ID_HEADER, feedMessageId(one.txHash, taker.orderHash, 0));
    acknowledged.push(
      nats.js.publish(FEED_MATCH_SUBJECT, encodeFeedEvent(one), { headers: header }),
    );
    sent.matches += 1;
    if (isHit) sent.hits += 1;
  }
  await Promise.all(acknowledged);
  return sent;
}
