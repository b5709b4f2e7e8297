/** Shared by the tests of alerts: both stores, an api, the process of alerts, and receivers of webhooks. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AlertEvent } from '../../apps/alerts/event.ts';
import { issueKey, startStores } from './api-harness.ts';
import { serve } from './http-server.ts';
import { start } from './service.ts';

const LOOPBACK = '127.0.0.0/8';

export type Received = {
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly event: AlertEvent;
};

export async function startAlerts() {
  const stores = await startStores();
  const api = await stores.serve({ alertNetworks: [LOOPBACK] });
  const env = {
    NATS_URL: stores.nats.server.url,
    CLICKHOUSE_URL: stores.clickhouse.url,
    ALERT_NETWORKS: LOOPBACK,
    METRICS_PORT: '0',
  };
  let alerts = start('apps/alerts/main.ts', [], env);
  const evaluating = () => alerts.reached('evaluating', () => true);
  await evaluating();
  return {
    nats: stores.nats.nats,
    api,
    newKey: (tier: 'demo' | 'individual' | 'pro' = 'individual', account?: string) =>
      issueKey(stores.nats.bucket, tier, account === undefined ? {} : { account }),
    metricsUrl: async () => `http://127.0.0.1:${(await alerts.event('metrics')).port}/metrics`,
    /** kill −9 of the process of alerts, `while` it is dead, and the next one. */
    async crash(during: () => Promise<void> = async () => undefined): Promise<void> {
      alerts.kill('SIGKILL');
      await alerts.exit;
      await during();
      alerts = start('apps/alerts/main.ts', [], env);
      await evaluating();
    },
    async call(key: string, method: string, path: string, body?: unknown) {
      const response = await fetch(`${api.url}${path}`, {
        method,
        headers: { 'X-Service-Key': key, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: JSON.parse(await response.text()) };
    },
    async stop() {
      await alerts.stop();
      await api.stop();
      await stores.stop();
    },
  };
}

/** Answers with what `answer` writes, 200 by default, and keeps what it got. */
export async function startReceiver(
  answer: (response: ServerResponse, received: Received) => void = (response) => response.end(),
) {
  const received: Received[] = [];
  const server = await serve((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const one = { headers: request.headers, body, event: JSON.parse(body) };
      received.push(one);
      answer(response, one);
    });
  });
  return {
    ...server,
    received,
    events: () => received.map(({ event }) => event),
  };
}
