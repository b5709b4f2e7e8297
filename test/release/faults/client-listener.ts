/** Listeners of a fault run that share one program with the client (client-program.ts), each behind its own proxy. */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { ListenerOptions, Seen } from '../../support/feed-client.ts';
import { Front } from '../../support/front.ts';
import { ended } from '../../support/service.ts';
import type { Order, Report } from './client-program.ts';
import type { RunListener } from './listeners.ts';

const PROGRAM = join(import.meta.dirname, 'client-program.ts');

/** Connects to any of the processes, as behind a load balancer. */
export async function openFront({ ports, random }: ListenerOptions): Promise<Front> {
  const front = await Front.listen();
  front.route = () => `http://127.0.0.1:${ports[Math.floor(random() * ports.length)]}`;
  return front;
}

export function startClientProgram() {
  const child = fork(PROGRAM, { execArgv: ['--expose-gc'] });
  const listeners: ((report: Exclude<Report, { heapBytes: number }>) => void)[] = [];
  let measured = Promise.withResolvers<number>();
  child.on('message', (report: Report) => {
    if ('heapBytes' in report) measured.resolve(report.heapBytes);
    else listeners[report.of]?.(report);
  });
  const send = (order: Order) => child.send(order);
  return {
    async listen(options: ListenerOptions): Promise<RunListener> {
      const { target, key } = options;
      const front = await openFront(options);
      const number = listeners.length;
      const seen: Seen[] = [];
      const over = Promise.withResolvers<string>();
      let lastEventId = '';
      listeners.push((report) => {
        if ('seen' in report) seen.push(report.seen);
        else if ('cursor' in report) lastEventId = report.cursor;
        else over.resolve(report.over);
      });
      send({ listen: number, url: front.url, key, target });
      return {
        seen,
        /** Always empty: the client reports refusals in `over`. */
        refusals: new Map(),
        get lastEventId() {
          return lastEventId;
        },
        get connections() {
          return front.connections;
        },
        cut: () => front.cut(),
        /** Rejects if the client gave up on its own. */
        async stop() {
          send({ stop: number });
          const reason = await over.promise;
          front.close();
          if (reason !== 'Error: stopped') throw new Error(`the client gave up: ${reason}`);
        },
      };
    },
    /** Used heap in bytes, after a garbage collection. */
    async heapBytes(): Promise<number> {
      measured = Promise.withResolvers();
      send({ measure: true });
      return await measured.promise;
    },
    stop: () => ended(child, 'SIGTERM'),
  };
}
