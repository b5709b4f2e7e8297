/**
 * Serves the metrics and readiness of a process on a private port: /metrics (Prometheus), /healthz (alive) and /readyz
 * (503 with the reasons while not ready). For loopback or an internal network only.
 */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { ProcessConfig } from './config.ts';
import { foreignRequest, isLoopback } from './loopback.ts';
import type { ProcessContext } from './process.ts';

/** Why a process is not ready, by part; empty if it is ready. */
export type Reasons = Readonly<Record<string, string>>;

/** "final: 120 blocks behind; nats: not connected" */
export function reasonsText(reasons: Reasons): string {
  return Object.entries(reasons)
    .map(([part, reason]) => `${part}: ${reason}`)
    .join('; ');
}

/** A registry with Node's metrics (event-loop delay, memory), labelled with the name of the process. */
export function createRegistry(process: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ process });
  collectDefaultMetrics({ register: registry });
  return registry;
}

/**
 * A counter with one label that starts at 0 for each value, because Prometheus sees no increase in a series that begins
 * with 1.
 */
export function labelledCounter<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  label: Label,
  values: readonly string[],
): Counter<Label> {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  for (const value of values) counter.labels(value).inc(0);
  return counter;
}

type Served = {
  readonly registry: Registry;
  readonly notReady: () => Reasons | Promise<Reasons>;
};

/** Starts the server of a process and reports its port; does nothing if METRICS_PORT is not set. */
export async function serveMetricsOf(
  { METRICS_HOST: host, METRICS_PORT: port }: ProcessConfig,
  report: ProcessContext['report'],
  served: Served,
) {
  if (port === undefined) return undefined;
  const server = await serveMetrics({ ...served, host, port });
  report({ event: 'metrics', port: server.port });
  return server;
}

/** Starts the server and resolves with its port. `port` 0 means any free port. */
export async function serveMetrics(
  options: Served & { readonly host: string; readonly port: number },
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const { registry, host, port, notReady } = options;
  new Gauge({
    name: 'fillstream_ready',
    help: '1 while the process is ready; /readyz says why it is not',
    registers: [registry],
    async collect() {
      const isReady = async () => Object.keys(await notReady()).length === 0;
      this.set((await isReady().catch(() => false)) ? 1 : 0);
    },
  });
  // On other addresses, any Host is allowed, because the network decides on the names.
  const isLocal = isLoopback(host);
  const server = createServer((request, response) => {
    const foreign = isLocal ? foreignRequest(request.headers) : undefined;
    if (foreign !== undefined) return response.writeHead(403).end(`${foreign}\n`);
    if (request.url === '/healthz') return response.end('{"status":"ok"}\n');
    if (request.url === '/readyz') {
      return void readiness(response, notReady).catch((error: unknown) =>
        response.writeHead(503).end(String(error)),
      );
    }
    if (request.url !== '/metrics') return response.writeHead(404).end();
    return void registry.metrics().then(
      (text) => response.writeHead(200, { 'Content-Type': registry.contentType }).end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await listen(server, port, host);
  return {
    port: (server.address() as AddressInfo).port,
    close: () => new Promise((done) => server.close(() => done())),
  };
}

async function readiness(
  response: ServerResponse,
  notReady: () => Reasons | Promise<Reasons>,
): Promise<void> {
  const reasons = await notReady();
  const isReady = Object.keys(reasons).length === 0;
  response.writeHead(isReady ? 200 : 503, { 'Content-Type': 'application/json' });
  response.end(`${JSON.stringify({ ready: isReady, reasons })}\n`);
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((done, failed) => {
    server.once('error', failed);
    server.listen(port, host, done);
  });
}
