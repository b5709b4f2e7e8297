/**
 * A listener of a fault run that runs `fillstream tail` behind its own proxy. A cut kills the command with SIGKILL and
 * restarts it, as a shell would: from its output file, or from its state file. With a state file it may print a line
 * twice, with the same cursor.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Fillstream } from '../../api/client/index.ts';
import { Front } from '../integration/front.ts';
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
  #printed = '';
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

  /** The numbers of the matches in complete lines, each cursor once, and gaps. */
  get seen(): Seen[] {
    const text = this.#keeping === 'state' ? this.#printed : textOf(this.#file);
    const known = new Set<string>();
    return wholeLines(text).flatMap((line): Seen[] => {
      const { type, cursor, data } = JSON.parse(line);
      if (type === 'gap') return ['gap'];
      if (type !== 'order' || (this.#keeping === 'state' && known.has(cursor))) return [];
      known.add(cursor);
      return [Number(data.tx_hash)];
    });
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
    child.stdout.setEncoding('utf8').on('data', (text) => {
      this.#printed += text;
    });
    child.stderr.on('data', (text) => {
      errors += text;
    });
    const ended = once(child, 'close').then(([code]) => {
      // A line that the kill cut off does not count.
      this.#printed = this.#printed.slice(0, this.#printed.lastIndexOf('\n') + 1);
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

function wholeLines(text: string): string[] {
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
}

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
