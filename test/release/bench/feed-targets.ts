/**
 * What `npm run bench:feed` measures: the api process over a real nats-server, the bare node:http
 * loop or better-sse, and nginx with nchan from Debian. Each gets the same listeners and writes the same events.
 */
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeMatch, matchBlock } from '../../../api/feed/encode.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import { openWriter } from '../../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  FEED_MATCH_SUBJECT,
  type FeedMatch,
  feedMessageId,
} from '../../../ingest/contract.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { freePort } from '../../../local/ports.ts';
import { API_FLAGS } from '../../../local/service.ts';
import { start } from '../../support/service.ts';
import { address, fill, match } from '../../unit/feed-matches.ts';
import type { BareOrder } from './feed-bare.ts';
import { getRequest, issueKeys } from './load.ts';
import { paced, timeHash } from './paced.ts';

export type Target = {
  readonly name: string;
  readonly port: number;
  /** The process whose work is measured. */
  readonly pid: number;
  /** The broker from which it receives the events, if that is another process. */
  readonly brokerPid?: number;
  /** The request of listener n, with a filter that lets one in `groups` events through; 1 = none. */
  request(n: number, groups: number): string;
  /** Publishes at a steady rate; resolves with the number of events. */
  publish(eventsPerSecond: number, seconds: number, groups: number): Promise<number>;
  stop(): Promise<unknown>;
};

/** Half of the quota of an account, because a listener may return before the server has seen it leave. */
const LISTENERS_PER_KEY = 50;
/** So that 10,000 resumes are within the rates of their accounts. */
const KEYS_MIN = 50;

/** A match of one taker and two makers whose hash is the current time; group n of `groups` wants it. */
export function timedMatch(n: number, groups = 1): FeedMatch {
  const taker = fill(1 + (n % groups), { name: '' } as object);
  const makers = [fill(100_001, { side: 'SELL' }), fill(100_002, { side: 'SELL' })];
  return match(1, { txHash: timeHash(), taker, makers });
}

/** The api process and what it needs; `listeners` decides how many keys are made. */
export async function startFillstream(directory: string, listeners: number) {
  const server = await startNatsServer({ dataDir: join(directory, 'nats') });
  const nats = await connectNats({ url: server.url, name: 'bench' });
  await ensureStreams(nats, 1);
  const keys = await issueKeys(nats, Math.max(KEYS_MIN, Math.ceil(listeners / LISTENERS_PER_KEY)));
  const writer = await openWriter(nats, { stream: 'FEED' });
  const publish = (one: FeedMatch) =>
    writer.append({
      id: feedMessageId(one.txHash, one.taker.orderHash, 0),
      subject: FEED_MATCH_SUBJECT,
      data: encodeFeedEvent(one),
    });
  return {
    nats,
    natsPid: server.pid,
    publishMatch: publish,
    /** That of the n-th client, if they take turns. */
    keyOf: (n: number) => keys[n % keys.length] ?? '',
    /** Starts the api process, at any free port by default; events published before are not in its memory. */
    async startApi(wantedPort = 0): Promise<Target> {
      const env = {
        ...{ NATS_URL: server.url, HTTP_PORT: String(wantedPort), LOG_LEVEL: 'error' },
        ...{ CLICKHOUSE_URL: 'http://127.0.0.1:9', HTTP_CONNECTIONS_PER_ADDRESS_MAX: '100000' },
      };
      // The same flags as in `npm start` and the containers.
      const api = start('api/main.ts', [], env, API_FLAGS);
      const port = Number((await api.event('listening')).port);
      return {
        name: 'fillstream',
        port,
        pid: api.pid,
        brokerPid: server.pid,
        request: (n, groups) => {
          const query = groups > 1 ? `?traders=${address(1 + (n % groups))}` : '';
          return getRequest(`/v1/stream/orders${query}`, {
            'X-Service-Key': keys[n % keys.length] ?? '',
          });
        },
        publish: (rate, seconds, groups) =>
          paced(rate, seconds, (n) => publish(timedMatch(n, groups))),
        stop: () => api.stop(),
      };
    },
    async stop() {
      writer.close();
      await nats.close();
      await server.stop();
    },
  };
}

export type Fillstream = Awaited<ReturnType<typeof startFillstream>>;

/** A loop of node:http or, as a peer, a channel of better-sse. */
export async function startBare(name: 'node:http' | 'better-sse' = 'node:http'): Promise<Target> {
  const child = fork(join(import.meta.dirname, 'feed-bare.ts'), [name]);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  const json = encodeMatch(timedMatch(0), 'compact', '');
  const frame = matchBlock(12_345_678_901, json, 'compact');
  return {
    name: name === 'node:http' ? 'bare node:http' : 'better-sse',
    port,
    pid: child.pid ?? 0,
    request: () => getRequest('/', {}),
    publish: async (eventsPerSecond, seconds, groups) => {
      child.send({ frame, eventsPerSecond, seconds, groups } satisfies BareOrder);
      const [written] = (await once(child, 'message')) as [number];
      return written;
    },
    stop: () => ended(child),
  };
}

/** Undefined if nginx or its module is not installed; `NCHAN_ABSENT` says how to install them. */
export async function startNchan(directory: string): Promise<Target | undefined> {
  const root = process.env.NGINX_ROOT ?? '/';
  const binary = join(root, 'usr/sbin/nginx');
  const module = join(root, 'usr/lib/nginx/modules/ngx_nchan_module.so');
  if (!existsSync(binary) || !existsSync(module)) return undefined;
  const port = await freePort();
  mkdirSync(directory, { recursive: true });
  const config = join(directory, 'nginx.conf');
  writeFileSync(config, nchanConfig(directory, module, port));
  const child = spawn(binary, ['-c', config, '-e', join(directory, 'error.log')], {
    stdio: 'inherit',
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  let exited = false;
  child.once('exit', () => {
    exited = true;
  });
  while (!(await answers(port))) {
    if (exited)
      throw new Error(`nginx ended: ${readFileSync(join(directory, 'error.log'), 'utf8')}`);
    await delay(20);
  }
  return {
    name: 'nginx + nchan',
    port,
    pid: child.pid ?? 0,
    request: () => getRequest('/sub', { Accept: 'text/event-stream' }),
    publish: async (rate, seconds) => {
      const under = new Set<Promise<void>>();
      const sent = await paced(rate, seconds, async (n) => {
        const posted = post(agent, port, encodeMatch(timedMatch(n), 'compact', ''));
        under.add(posted);
        void posted.finally(() => under.delete(posted));
      });
      await Promise.all(under);
      return sent;
    },
    stop: async () => {
      agent.destroy();
      await ended(child);
    },
  };
}

/** The versions of nginx and of the nchan package, as far as they say. */
export function nchanVersion(): string {
  const binary = join(process.env.NGINX_ROOT ?? '/', 'usr/sbin/nginx');
  const nginx = spawnSync(binary, ['-v'], { encoding: 'utf8' }).stderr.trim();
  const nchan = spawnSync('dpkg-query', ['-W', 'libnginx-mod-nchan'], { encoding: 'utf8' });
  return `${nginx}, ${nchan.status === 0 ? nchan.stdout.trim() : 'nchan of unknown version'}`;
}

export const NCHAN_ABSENT = `nginx with nchan is not installed: apt-get install nginx libnginx-mod-nchan
or, without root: apt-get download nginx libnginx-mod-nchan && for d in *.deb; do dpkg -x $d DIR; done
(nginx wants an existing /var/lib/nginx all the same), and NGINX_ROOT=DIR`;

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

function post(agent: Agent, port: number, body: string): Promise<void> {
  const headers = { 'X-EventSource-Event': 'order', 'Content-Length': Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const options = { agent, port, host: '127.0.0.1', path: '/pub', method: 'POST', headers };
    const call = request(options, (response) => {
      response.resume();
      response.once('end', resolve);
    });
    call.once('error', reject);
    call.end(body);
  });
}

export function nchanConfig(directory: string, module: string, port: number): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${directory}/${name};`)
    .join(' ');
  return `load_module ${module};
daemon off; master_process off; user root;
pid ${directory}/nginx.pid;
events { worker_connections 20000; }
http {
  access_log off; ${temporary}
  nchan_max_reserved_memory 256m;
  server {
    listen 127.0.0.1:${port};
    location /pub { nchan_publisher; nchan_channel_id feed; nchan_message_buffer_length 1000; }
    location /sub { nchan_subscriber eventsource; nchan_channel_id feed; nchan_subscriber_first_message newest; }
  }
}
`;
}

function answers(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`).then(
    () => true,
    () => false,
  );
}
