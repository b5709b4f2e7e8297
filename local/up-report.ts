/** The output of `npm start`: short lines and a banner for people, or one JSON line per state change. */
import { type Reasons, reasonsText } from '../infra/metrics-server.ts';
import type { ShownKeys } from './data-directory.ts';
import type { Message, Report } from './supervise.ts';

const PROGRESS_MS = 1_000;

/** One JSON line per state change. */
export function jsonReporter(): Report {
  return (message) => {
    const { keys: _keys, ...shown } = message;
    process.stdout.write(`${JSON.stringify(shown)}\n`);
  };
}

/** Readable lines with the seconds since the start. */
export function consoleReporter(): Report {
  const startedAt = performance.now();
  let progressAt = 0;
  const say = (text: string) => {
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1).padStart(5);
    process.stdout.write(`${seconds} s  ${text}\n`);
  };
  return (message) => {
    switch (message.event) {
      case 'starting':
        return say(`starting ${message.name} (pid ${message.pid})`);
      case 'started':
        return say(`${message.name} is running`);
      case 'metrics':
        return say(`metrics of ${message.name}: ${message.url}`);
      case 'migrated':
        return say(`schema is up to date (${message.applied} migrations applied)`);
      case 'progress': {
        const isLast = message.done === message.total;
        if (!isLast && performance.now() - progressAt < PROGRESS_MS) return;
        progressAt = performance.now();
        return say(`${message.name}: ${message.done} of ${message.total} historical matches`);
      }
      case 'notice':
        return say(String(message.text));
      case 'restarting':
        return say(`${message.name} died, restarting in ${message.wait_ms} ms: ${message.reason}`);
      case 'waiting':
        return say(`waiting for ${partsText(message.for as Parts)}`);
      case 'refresh_failed':
        return say(`${message.view} could not be refreshed, retrying: ${message.reason}`);
      case 'not_ready':
        return say(`not ready: ${reasonsText(message.reasons as Reasons)}`);
      case 'ready_again':
        return say('ready again');
      case 'ready':
        return void process.stdout.write(banner(message));
      case 'stopping':
        return say('stopping');
      case 'stopped':
        return say('stopped');
    }
  };
}

type Parts = Readonly<Record<string, Reasons>>;

/** "nats, ingest (final: catching up)" */
function partsText(parts: Parts): string {
  return Object.entries(parts)
    .map(([name, reasons]) => {
      const text = reasonsText(reasons);
      return text === '' ? name : `${name} (${text})`;
    })
    .join(', ');
}

function banner(ready: Message): string {
  const keys = ready.keys as ShownKeys;
  const header = `-H 'X-Service-Key: ${keys.pro}'`;
  return `
Fillstream is ready at ${ready.url}

  keys        demo        ${keys.demo}
              individual  ${keys.individual}
              pro         ${keys.pro}
  ClickHouse  ${ready.clickhouse_url} (read-only)
  NATS        ${ready.nats_url}
  chain       ${ready.rpc_url}

Open the page (on this machine it needs no key; elsewhere, append #key=KEY):
  ${ready.url}/

The leaderboard of the last hour:
  curl -s ${header} '${ready.url}/v1/analytics/leaderboard?time_frame=1H&limit=5'

One trader (the first in that list):
  curl -s ${header} "${ready.url}/v1/traders/$(curl -s ${header} '${ready.url}/v1/analytics/leaderboard?time_frame=1H&limit=1' | sed 's/.*"address":"\\([^"]*\\)".*/\\1/')"

The live feed, ahead of the blocks:
  curl -sN ${header} '${ready.url}/v1/stream/orders?format=json'
  FILLSTREAM_URL=${ready.url} FILLSTREAM_KEY=${keys.pro} npx fillstream tail

Press Ctrl-C to stop. The next start resumes with the same data.

`;
}
