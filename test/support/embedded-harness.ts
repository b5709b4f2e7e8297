/** The embedded ClickHouse as a child process of a test, its clients, and failed starts. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import {
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
  ClickHouseLogLevel,
  createClient,
} from '@clickhouse/client';
import { serviceUrl } from '../../infra/local/secret.ts';

const ENTRY = fileURLToPath(new URL('../../infra/local/clickhouse/main.ts', import.meta.url));
const children = new Set<ChildProcess>();

/** Starts one on a free port; `url` is without credentials, `serviceUrl` has the service's. */
export async function start(
  data: string,
): Promise<{ child: ChildProcess; url: string; serviceUrl: string }> {
  const child = spawn(process.execPath, [ENTRY, '--data', data, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  children.add(child);
  child.once('exit', () => children.delete(child));
  if (child.stdout === null) throw new Error('The child has no stdout.');
  const listening = once(createInterface(child.stdout), 'line');
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The engine ended with ${code} before it listened.`);
  });
  const [line] = await Promise.race([listening, ended]);
  ended.catch(() => undefined);
  const { url } = JSON.parse(line);
  return { child, url, serviceUrl: serviceUrl(url, data) };
}

/** fetch takes no user and password in a URL. */
export function send(url: string, init: RequestInit = {}): Promise<Response> {
  const { username, password } = new URL(url);
  const authorization = `Basic ${btoa(`${username}:${password}`)}`;
  const headers = { authorization, ...(init.headers as Record<string, string>) };
  return fetch(url.replace(/\/\/.*@/, '//'), { ...init, headers });
}

export function connect(options: ClickHouseClientConfigOptions): ClickHouseClient {
  // Errors are what many of these tests ask for.
  return createClient({ log: { level: ClickHouseLogLevel.OFF }, ...options });
}

export async function stop(child: ChildProcess, how: NodeJS.Signals | 'disconnect'): Promise<void> {
  const exit = once(child, 'exit');
  if (how === 'disconnect') child.disconnect();
  else child.kill(how);
  await exit;
}

/** Stops the processes that tests left running. */
export async function stopAll(): Promise<void> {
  for (const child of children) await stop(child, 'SIGTERM');
}

/** Exit code and the last line on stderr of a start that fails. */
export async function refusal(args: readonly string[]): Promise<[number | null, string]> {
  const child = spawn(process.execPath, [ENTRY, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const [errors] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return [child.exitCode, errors];
}
