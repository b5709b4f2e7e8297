/**
 * A listener of a fault run that runs `fillstream tail` behind its own proxy. A cut kills the command with SIGKILL and
 * restarts it, as a shell would: from its output file, or from its state file. With a state file it may print a line
 * twice, with the same cursor.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Fillstream } from '../../../apps/client/index.ts';
import type { ListenerOptions, Seen } from '../../support/feed-client.ts';
import { openFront } from './client-listener.ts';
import type { RunListener } from './listeners.ts';

const COMMAND = 'apps/cli/main.ts';
const FLAGS: Readonly<Record<string, string>> = {
  traders: '--trader',
  tags: '--tag',
  series: '--series',
  min_usdc: '--min-usdc',
  max_price: '--max-price',
};

/** For the order feed, not for a managed stream. `file` holds its output or its state. */
export async function listenByTail(
  options: ListenerOptions,
  keeping: 'output' | 'state',
  file: string,
): Promise<RunListener> {
  const front = await openFront(options);
  const query = new URL(options.target, front.url).searchParams;
  query.delete('format');
  const filter = [...query].flatMap(([name, value]) => [FLAGS[name] ?? name, value]);
  const from = await presentCursor(new Fillstream({ url: front.url, key: options.key }));
  const args = ['--format', 'json', `--${keeping}`, file, '--from', from, ...filter];
  const env = { ...process.env, FILLSTREAM_URL: front.url, FILLSTREAM_KEY: options.key };
  const seen: Seen[] = [];
  const known = new Set<string>();
  let bytesRead = 0;
  let connections = 0;
  let isStopped = false;
  let fault = '';

  /** Takes complete lines. */
  function take(text: string): void {
    for (const line of text.split('\n').slice(0, -1)) {
      const { type, cursor, data } = JSON.parse(line);
      if (type === 'gap') seen.push('gap');
      if (type !== 'order' || (keeping === 'state' && known.has(cursor))) continue;
      known.add(cursor);
      seen.push(Number(data.tx_hash));
    }
  }

  /** Takes what was appended to the output file. */
  function read(): void {
    if (!existsSync(file)) return;
    const opened = openSync(file, 'r');
    const bytes = Buffer.alloc(fstatSync(opened).size - bytesRead);
    readSync(opened, bytes, 0, bytes.length, bytesRead);
    closeSync(opened);
    const whole = bytes.subarray(0, bytes.lastIndexOf('\n') + 1);
    bytesRead += whole.length;
    take(whole.toString());
  }

  function run(): { readonly child: ChildProcess; readonly ended: Promise<unknown> } {
    connections += 1;
    const child = spawn(process.execPath, [COMMAND, 'tail', ...args], {
      ...{ env, stdio: ['ignore', 'pipe', 'pipe'] },
    });
    let errors = '';
    // With the kill, a line that it cut off is forgotten.
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      rest += text;
      const end = rest.lastIndexOf('\n') + 1;
      take(rest.slice(0, end));
      rest = rest.slice(end);
    });
    child.stderr.on('data', (text) => {
      errors += text;
    });
    const ended = once(child, 'close').then(([code]) => {
      if (code !== null) fault = `code ${code}: ${errors}`;
      else if (!isStopped) running = run();
    });
    return { child, ended };
  }

  let running = run();
  return {
    refusals: new Map(),
    lastEventId: from,
    get connections() {
      return connections;
    },
    /** The numbers of the matches in complete lines, with a state file each cursor once, and gaps. */
    get seen() {
      if (keeping === 'output') read();
      return seen;
    },
    cut: () => void running.child.kill('SIGKILL'),
    /** Rejects if the command ended by itself. */
    async stop() {
      isStopped = true;
      running.child.kill('SIGKILL');
      await running.ended;
      front.close();
      if (fault !== '') throw new Error(`fillstream tail ended: ${fault}`);
    },
  };
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
