/**
 * Shared by the end-to-end tests: the service as a user starts it (`local/up --json`), a devnet
 * that outlives it, and typed access to the responses of both. Everything runs in a temporary
 * directory and on free ports.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import { connectNats, natsOptions } from '../../infra/nats/connection.ts';
import { newestMessage, storedMessages } from '../../ingest/ledger/ledger.ts';
import { freePort } from '../../local/ports.ts';
import { natsToken, serviceUrl } from '../../local/secret.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';

const POLL_MS = 100;
const ANSWER_MS_MAX = 60_000;
/** A start takes up to a minute on a busy machine. If one hangs, its last lines are shown before the test times out. */
const READY_MS_MAX = 240_000;
const LINES_SHOWN = 20;

export type JsonLine = Readonly<Record<string, unknown>>;

/** A directory that `remove` deletes. */
export function temporaryDirectory(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'fillstream-e2e-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Repeats `probe` until it returns a value; the test's own time limit is the only one. */
export async function until<T>(probe: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    await delay(POLL_MS);
  }
}

/** Retries for a minute if there is no response: the devnet may be starting, or a server may close an idle connection. */
export async function answered<T>(ask: () => Promise<T>): Promise<T> {
  const end = performance.now() + ANSWER_MS_MAX;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      // fetch reports a connection that is refused or cut as a TypeError; anything else is a real
      // response.
      if (!(error instanceof TypeError) || performance.now() > end) throw error;
      await delay(POLL_MS);
    }
  }
}

/** A module of the project as a child process that reports its state in JSON lines. */
export function start(
  module: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  nodeFlags: readonly string[] = [],
) {
  const child = spawn(process.execPath, [...nodeFlags, module, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const lines: JsonLine[] = [];
  let errors = '';
  const waiting = new Set<() => void>();
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the child has no pipes');
  createInterface({ input: stdout }).on('line', (line) => {
    if (!line.startsWith('{')) return;
    lines.push(JSON.parse(line));
    for (const wake of waiting) wake();
  });
  // Over IPC, as the supervisor receives it.
  child.on('message', (message) => {
    lines.push(message as JsonLine);
    for (const wake of waiting) wake();
  });
  stderr.on('data', (chunk) => {
    errors += chunk;
  });
  const exit = once(child, 'close').then(([code]) => Number(code));
  return {
    pid: child.pid ?? 0,
    lines,
    exit,
    errors: () => errors,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /**
     * Disconnects from it, like a supervisor that dies. Resolves with its exit code; there is no `close` event in this
     * case.
     */
    async orphan(): Promise<number> {
      const exited = once(child, 'exit');
      child.disconnect();
      const [code] = await exited;
      return Number(code);
    },
    /** The first line with this event. If the child ends before that, throws with its stderr. */
    async event(name: string): Promise<JsonLine> {
      for (;;) {
        const line = lines.find((one) => one.event === name);
        if (line !== undefined) return line;
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.add(resolve);
        const code = await Promise.race([promise, exit]);
        waiting.delete(resolve);
        if (typeof code === 'number') throw new Error(`${module} ended with ${code}: ${errors}`);
      }
    },
    /**
     * Waits for a line with this event that the condition accepts, old lines included. Throws if the child ends before
     * that.
     */
    async reached(name: string, condition: (line: JsonLine) => boolean): Promise<JsonLine> {
      const found = () => lines.findLast((line) => line.event === name && condition(line));
      return until(async () => {
        const line = found();
        if (line === undefined && (child.exitCode !== null || child.signalCode !== null)) {
          const last = JSON.stringify(lines.at(-1));
          throw new Error(`${module} ended before ${name}, last said ${last}: ${errors}`);
        }
        return line;
      });
    },
    async stop(): Promise<number> {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
      return exit;
    },
  };
}

/** Sends the signal and waits until the process is gone. */
export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}

type Ready = {
  readonly url: string;
  readonly key: string;
  readonly clickhouse_url: string;
  readonly nats_url: string;
  readonly rpc_url: string;
};

/** The whole service on a free port; resolves when it is ready. */
export async function startService(
  data: string,
  options: { readonly args?: readonly string[]; readonly env?: NodeJS.ProcessEnv } = {},
) {
  const args = ['--json', '--port', '0', '--data', data, ...(options.args ?? [])];
  const up = start('local/up.mjs', args, options.env);
  const isReady = new AbortController();
  const limit = { ref: false, signal: isReady.signal };
  const hangs = delay(READY_MS_MAX, undefined, limit).then(() => {
    const last = up.lines.slice(-LINES_SHOWN).map((line) => JSON.stringify(line));
    up.kill('SIGTERM');
    throw new Error(`the service is not ready:\n${last.join('\n')}\n${up.errors()}`);
  });
  const said = (await Promise.race([up.event('ready'), hangs])) as Ready;
  hangs.catch(() => undefined);
  isReady.abort();
  const { NATS_URL, CLICKHOUSE_URL } = options.env ?? {};
  const own = CLICKHOUSE_URL
    ? said.clickhouse_url
    : serviceUrl(said.clickhouse_url, `${data}/clickhouse`);
  const ready: Ready = { ...said, clickhouse_url: own };
  const token = NATS_URL ? {} : { NATS_TOKEN: natsToken(`${data}/nats`) };
  const env = { NATS_URL: ready.nats_url, CLICKHOUSE_URL: own, ...token };
  return {
    up,
    /** `clickhouse_url` contains the unrestricted user. */
    ready,
    /** The environment that commands need to reach its stores. */
    env,
    nats: natsOptions(readConfig(NatsConfig, env)),
    /** Response of the API as JSON. Throws on any status but 200. */
    get: <T>(path: string): Promise<T> => answerOf<T>(ready.url, ready.key, path),
    /** Rows of a query, 64-bit numbers as strings. */
    query: <Row>(sql: string) => query<Row>(ready.clickhouse_url, sql),
    /** Newest process id of a part. */
    pidOf(name: string): number {
      const line = up.lines.findLast((one) => one.event === 'starting' && one.name === name);
      return Number(line?.pid);
    },
  };
}
export type Service = Awaited<ReturnType<typeof startService>>;

/** Like fetch, for reads. Tries again once if the server has just closed the idle connection. */
async function read(url: string, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    const { cause } = error as { readonly cause?: { readonly code?: string } };
    if (cause?.code !== 'UND_ERR_SOCKET') throw error;
    return await fetch(url, init);
  }
}

/** Response of an API as JSON; retries after the time in `Retry-After`. Throws on any status but 200, 429 and 503. */
export async function answerOf<T>(url: string, key: string, path: string): Promise<T> {
  const response = await read(`${url}${path}`, { headers: { 'X-Service-Key': key } });
  const text = await response.text();
  const retrySeconds = response.headers.get('retry-after');
  if (retrySeconds !== null) {
    await delay(Number(retrySeconds) * 1_000);
    return answerOf(url, key, path);
  }
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

/** Rows of a query, 64-bit numbers as strings. */
export async function query<Row>(
  url: string,
  sql: string,
  database = 'fillstream',
): Promise<readonly Row[]> {
  // fetch rejects a user and password in a URL.
  const { origin, username, password } = new URL(url);
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers: Record<string, string> =
    username === ''
      ? {}
      : { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` };
  const response = await fetch(`${origin}/?database=${database}&default_format=JSONEachRow`, {
    method: 'POST',
    headers,
    body: sql,
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

export type DevnetOptions = {
  readonly matches: number;
  readonly days: number;
  /** Matches per second; 0 mines empty blocks only. */
  readonly rate: number;
  readonly rpcPort?: number;
  readonly gammaPort?: number;
  /** More options of `local/devnet/main.ts`. */
  readonly args?: readonly string[];
};

/** A separate devnet, for services that are started and stopped against it. */
export async function startDevnet(data: string, options: DevnetOptions) {
  const { matches, days, rate } = options;
  const { rpcPort = await freePort(), gammaPort = await freePort() } = options;
  const args = ['--data', data, '--history-matches', String(matches), '--history-days', `${days}`];
  args.push('--rpc-port', String(rpcPort), '--gamma-port', String(gammaPort));
  args.push(...(options.args ?? []));
  args.push(...(rate === 0 ? ['--no-live'] : ['--demo-rate', String(rate)]));
  const process = start('local/devnet/main.ts', args);
  const ready = await process.event('ready');
  const env = {
    RPC_URL: String(ready.rpc_url),
    GAMMA_URL: String(ready.gamma_url),
    CHAIN: 'devnet',
  };
  return { process, env, rpcUrl: env.RPC_URL };
}
export type Devnet = Awaited<ReturnType<typeof startDevnet>>;

/** One JSON-RPC call. Throws if the response is an error. */
export async function rpc<T>(url: string, method: string, params: readonly unknown[]): Promise<T> {
  const response = await read(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const answer = (await response.json()) as { result?: T; error?: { message: string } };
  if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
  return answer.result as T;
}

/** The markets of a devnet from its metadata API, by condition id. */
export async function gammaMarkets(gammaUrl: string): Promise<readonly GammaMarket[]> {
  const markets: GammaMarket[] = [];
  let cursor = '';
  do {
    const response = await read(`${gammaUrl}/markets/keyset?limit=500${cursor}`);
    const page = (await response.json()) as { markets: Listed[]; next_cursor?: string };
    for (const { positionIds, clobTokenIds = positionIds, ...market } of page.markets)
      markets.push({ ...market, clobTokenIds: clobTokenIds ?? '[]' });
    cursor = page.next_cursor ? `&after_cursor=${page.next_cursor}` : '';
  } while (cursor !== '');
  return markets;
}
/** Those of protocol version 2 have position ids. */
type Listed = Omit<GammaMarket, 'clobTokenIds'> & {
  readonly clobTokenIds?: string;
  readonly positionIds?: string;
};
export type GammaMarket = {
  readonly id: string;
  readonly conditionId: string;
  readonly clobTokenIds: string;
};

/**
 * Restarts the devnet on the same ports with empty blocks only, so that no more trades happen.
 * Resolves with it once every block that holds a match is final.
 */
export async function freeze(devnet: Devnet, data: string): Promise<Devnet> {
  const port = (url: string | undefined) => Number(new URL(url ?? '').port);
  await devnet.process.stop();
  const frozen = await startDevnet(data, {
    matches: 1,
    days: 1,
    rate: 0,
    rpcPort: port(devnet.env.RPC_URL),
    gammaPort: port(devnet.env.GAMMA_URL),
  });
  const number = async (tag: string) =>
    Number(
      (await rpc<{ number: string }>(frozen.rpcUrl, 'eth_getBlockByNumber', [tag, false])).number,
    );
  const head = await number('latest');
  await until(async () => ((await number('finalized')) >= head ? true : undefined));
  return frozen;
}

/**
 * Waits until LEDGER up to `block` is in ClickHouse, views included: a row is seen in bookings some
 * milliseconds before the views have it.
 */
export async function projectedTo(service: Service, block: number): Promise<void> {
  await until(async () => {
    const [row] = await service.query<{ block: string }>(
      'SELECT toString(max(block_number)) AS block FROM bookings',
    );
    return Number(row?.block) >= block && (await viewsAgree(service)) ? true : undefined;
  });
}

/** Whether every view contains the rows of bookings; reliable only while nothing is written. */
export async function viewsAgree(service: Pick<Service, 'query'>): Promise<boolean> {
  const rows = await service.query<{ n: string }>(
    `SELECT DISTINCT toString(n) AS n FROM (
       SELECT countIf(kind IN ('fill', 'settlement')) AS n FROM bookings
       UNION ALL SELECT sum(fills) + sum(settlements) FROM trader_hours
       UNION ALL SELECT sum(fills) + sum(settlements) FROM trader_markets
       UNION ALL SELECT sum(fills) + sum(settlements) FROM market_traders)`,
  );
  return rows.length === 1;
}

/** Waits until the final blocks of the chain, which has no more trades after `block`, are projected. */
export async function settled(of: Pick<Service, 'nats' | 'query'>, block: number): Promise<void> {
  const nats = await connectNats({ ...of.nats, name: 'test' });
  await until(async () => ((await newestMessage(nats))?.range.to ?? 0) >= block || undefined);
  const positions = new OpenPositions();
  let rows = 0;
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    for (const { events, coversMovements } of range.blocks)
      for (const event of events) rows += positions.apply(event, coversMovements).length;
  }
  await nats.close();
  await until(async () => {
    const [found] = await of.query<{ rows: string; open: string }>(
      `SELECT toString(count()) AS rows,
         (SELECT toString(count()) FROM (SELECT max(position) AS held, sum(balance_0) AS zero, sum(balance_1) AS one
           FROM market_traders GROUP BY condition_id, trader)
          WHERE held.shares > 0 OR zero != 0 OR one != 0) AS open FROM bookings`,
    );
    const isStored =
      Number(found?.rows) === rows && Number(found?.open) === positions.openPositions();
    return (isStored && (await viewsAgree(of))) || undefined;
  });
}
