/** Listeners of a fault run that share one program with the client (client-program.ts), each behind its own proxy. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Front } from '../../support/front.ts';
import type { Order, Report } from './client-program.ts';
import type { ListenerOptions, Seen } from './feed-listener.ts';
import type { RunListener } from './feed-run.ts';

const PROGRAM = join(import.meta.dirname, 'client-program.ts');

export class ClientProgram {
  readonly #child: ChildProcess = fork(PROGRAM, { execArgv: ['--expose-gc'] });
  readonly #listeners: ClientListener[] = [];
  #measured = Promise.withResolvers<number>();

  constructor() {
    this.#child.on('message', (report: Report) => {
      if ('heapBytes' in report) this.#measured.resolve(report.heapBytes);
      else this.#listeners[report.of]?.hear(report);
    });
  }

  async listen({ target, key, ports, random }: ListenerOptions): Promise<RunListener> {
    const front = await Front.listen();
    // Connects to any of the processes, as behind a load balancer.
    front.route = () => `http://127.0.0.1:${ports[Math.floor(random() * ports.length)]}`;
    const number = this.#listeners.length;
    const listener = new ClientListener(front, () => this.#send({ stop: number }));
    this.#listeners.push(listener);
    this.#send({ listen: number, url: front.url, key, target });
    return listener;
  }

  /** Used heap in bytes, after a garbage collection. */
  async heapBytes(): Promise<number> {
    this.#measured = Promise.withResolvers();
    this.#send({ measure: true });
    return await this.#measured.promise;
  }

  async stop(): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill();
    await exit;
  }

  #send(order: Order): void {
    this.#child.send(order);
  }
}

class ClientListener implements RunListener {
  readonly seen: Seen[] = [];
  /** Always empty: the client reports refusals in `over`. */
  readonly refusals = new Map<number, number>();
  lastEventId = '';
  readonly #front: Front;
  readonly #order: () => void;
  readonly #over = Promise.withResolvers<string>();

  constructor(front: Front, order: () => void) {
    this.#front = front;
    this.#order = order;
  }

  get connections(): number {
    return this.#front.connections;
  }

  hear(report: Exclude<Report, { heapBytes: number }>): void {
    if ('seen' in report) this.seen.push(report.seen);
    else if ('cursor' in report) this.lastEventId = report.cursor;
    else this.#over.resolve(report.over);
  }

  cut(): void {
    this.#front.cut();
  }

  /** Rejects if the client gave up on its own. */
  async stop(): Promise<void> {
    this.#order();
    const over = await this.#over.promise;
    this.#front.close();
    if (over !== 'Error: stopped') throw new Error(`the client gave up: ${over}`);
  }
}
