/** The output of `npm start`: short lines and a banner for people, or one JSON line per state change. */
import type { ShownKeys } from './data-directory.ts';
import type { Report } from './service.ts';
import type { Message } from './supervise.ts';

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
      case 'restarting':
        return say(`${message.name} died, restarting in ${message.wait_ms} ms: ${message.reason}`);
      case 'ready':
        return void process.stdout.write(banner(message));
      case 'stopping':
        return say('stopping');
      case 'stopped':
        return say('stopped');
    }
  };
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

Open the page (the key after the # is never sent to a server):
  ${ready.url}/#key=${keys.pro}

The leaderboard of the last hour:
  curl -s ${header} '${ready.url}/v1/analytics/leaderboard?time_frame=1H&limit=5'

One trader (the first in that list):
  curl -s ${header} "${ready.url}/v1/traders/$(curl -s ${header} '${ready.url}/v1/analytics/leaderboard?time_frame=1H&limit=1' | sed 's/.*"address":"\\([^"]*\\)".*/\\1/')"

The live feed, ahead of the blocks:
  curl -sN ${header} '${ready.url}/v1/stream/orders?format=json'

Press Ctrl-C to stop. The next start continues with the same data.

`;
}
