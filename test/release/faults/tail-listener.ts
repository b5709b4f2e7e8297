/**
 * A listener of a fault run that runs `fillstream tail` behind its own proxy. A cut kills the command with SIGKILL and
 * restarts it, as a shell would: from its output file, or from its state file. With a state file it may print a line
 * twice, with the same cursor.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Fillstream } from '../../../api/client/index.ts';
import { Front } from '../../support/front.ts';
import type { ListenerOptions, Seen } from './feed-listener.ts';
import type { RunListener } from './feed-run.ts';

const COMMAND = 'api/cli/main.ts';
const FLAGS: Readonly<Record<string, string>> = {
  traders: '--trader',
  tags: '--tag',
  series: '--series',
  min_usdc: '--min-usdc',
  max_price: '--max-price',
};

type Keeping = 'output' | 'state';

export class TailListener implements RunListener {
  readonly refusals = new Map<number, number>();
  readonly lastEventId: string;
  connections = 0;
  readonly #front: Front;
  readonly #file: string;
  readonly #keeping: Keeping;
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess;
  #ended: Promise<unknown>;
  readonly #seen: Seen[] = [];
  readonly #known = new Set<string>();
  #bytesRead = 0;
  #isStopped = false;
  #fault = '';

  /** For the order feed, not for a managed stream. `file` holds its output or its state. */
  static async listen(
    { target, key, ports, random }: ListenerOptions,
    keeping: Keeping,
    file: string,
  ): Promise<TailListener> {
    const front = await Front.listen();
    front.route = () => `http://127.0.0.1:${ports[Math.floor(random() * ports.length)]}`;
    const query = new URL(target, front.url).searchParams;
    query.delete('format');
    const filter = [...query].flatMap(([name, value]) => [FLAGS[name] ?? name, value]);
    const from = await presentCursor(new Fillstream({ url: front.url, key }));
    const args = ['--format', 'json', `--${keeping}`, file, '--from', from, ...filter];
    const env = { ...process.env, FILLSTREAM_URL: front.url, FILLSTREAM_KEY: key };
    return new TailListener(front, { file, keeping, args, env, from });
  }

  private constructor(
    front: Front,
    given: {
      readonly file: string;
      readonly keeping: Keeping;
      readonly args: readonly string[];
      readonly env: NodeJS.ProcessEnv;
      readonly from: string;
    },
  ) {
    this.#front = front;
    this.#file = given.file;
    this.#keeping = given.keeping;
    this.#args = given.args;
    this.#env = given.env;
    this.lastEventId = given.from;
    [this.#child, this.#ended] = this.#start();
  }

  /** The numbers of the matches in complete lines, with a state file each cursor once, and gaps. */
  get seen(): Seen[] {
    if (this.#keeping === 'output') this.#read();
    return this.#seen;
  }

  /** Reads what was appended to the output file. */
  #read(): void {
    if (!existsSync(this.#file)) return;
    const file = openSync(this.#file, 'r');
    const bytes = Buffer.alloc(fstatSync(file).size - this.#bytesRead);
    readSync(file, bytes, 0, bytes.length, this.#bytesRead);
    closeSync(file);
    const whole = bytes.subarray(0, bytes.lastIndexOf('\n') + 1);
    this.#bytesRead += whole.length;
    this.#take(whole.toString());
  }

  /** Takes complete lines. */
  #take(text: string): void {
    for (const line of text.split('\n').slice(0, -1)) {
      const { type, cursor, data } = JSON.parse(line);
      if (type === 'gap') this.#seen.push('gap');
      if (type !== 'order' || (this.#keeping === 'state' && this.#known.has(cursor))) continue;
      this.#known.add(cursor);
      this.#seen.push(Number(data.tx_hash));
    }
  }

  cut(): void {
    this.#child.kill('SIGKILL');
  }

  /** Rejects if the command ended by itself. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.cut();
    await this.#ended;
    this.#front.close();
    if (this.#fault !== '') throw new Error(`fillstream tail ended: ${this.#fault}`);
  }

  #start(): [ChildProcess, Promise<unknown>] {
    this.connections += 1;
    const child = spawn(process.execPath, [COMMAND, 'tail', ...this.#args], {
      ...{ env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] },
    });
    let errors = '';
    // With the kill, a line that it cut off is forgotten.
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      rest += text;
      const end = rest.lastIndexOf('\n') + 1;
      this.#take(rest.slice(0, end));
      rest = rest.slice(end);
    });
    child.stderr.on('data', (text) => {
      errors += text;
    });
    const ended = once(child, 'close').then(([code]) => {
      if (code !== null) this.#fault = `code ${code}: ${errors}`;
      else if (!this.#isStopped) [this.#child, this.#ended] = this.#start();
    });
    return [child, ended];
  }
}

async function presentCursor(fillstream: Fillstream): Promise<string> {
  const stop = new AbortController();
  const feed = fillstream.feed({}, { signal: stop.signal });
  const reading = feed[Symbol.asyncIterator]().next();
  while (feed.cursor === '') await delay(20);
  stop.abort();
  await reading.catch(() => undefined);
  return feed.cursor;
}
