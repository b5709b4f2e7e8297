/** The server of metrics and readiness. */
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { serveMetrics } from '../../infra/metrics-server.ts';

test('readiness that cannot be found out is no readiness', async () => {
  const notReady = () => Promise.reject(new Error('no stream LEDGER'));
  const given = { registry: new Registry(), host: '127.0.0.1', port: 0, notReady };
  const { port, close } = await serveMetrics(given);
  const response = await fetch(`http://127.0.0.1:${port}/readyz`);
  expect([response.status, await response.text()]).toEqual([503, 'Error: no stream LEDGER']);
  await close();
});
