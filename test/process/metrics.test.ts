/**
 * The metrics of the running service: every metric of the dashboard and the alerts exists in its
 * process; and the readiness that every process reports.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { childPid } from '../release/faults/soak-memory.ts';
import { type Service, startService, temporaryDirectory, until } from '../support/service.ts';

const INFRA = join(import.meta.dirname, '../../infra/deploy');
const OPERATIONS = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8');
const PROCESSES = ['alerts', 'api', 'ingest', 'projector'];
const METRIC = /\b(?:fillstream|process|nodejs)_\w+\b/g;

let directory: ReturnType<typeof temporaryDirectory>;
let service: Service;

beforeAll(async () => {
  directory = temporaryDirectory();
  const args = ['--history-days', '1', '--demo-rate', '10'];
  service = await startService(directory.path, { args });
});

afterAll(async () => {
  await service?.up.stop();
  directory?.remove();
});

type Rule = {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
};

type Readiness = {
  readonly checks: Readonly<Record<string, { readonly ready: boolean; readonly detail: string }>>;
};

type Panel = {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly targets?: readonly { readonly expr: string }[];
  readonly fieldConfig?: {
    readonly defaults: {
      readonly thresholds?: { readonly steps: readonly { readonly color: string }[] };
    };
  };
};

function rules(): readonly Rule[] {
  const { groups } = parse(readFileSync(join(INFRA, 'prometheus/alerts.yaml'), 'utf8'));
  return groups.flatMap((group: { rules: readonly Rule[] }) => group.rules);
}

const DASHBOARD = JSON.parse(readFileSync(join(INFRA, 'grafana/dashboard.json'), 'utf8'));
const PANELS: readonly Panel[] = DASHBOARD.panels;

function dashboardQueries(): readonly string[] {
  return PANELS.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

function urlOf(name: string): string {
  const line = service.up.lines.findLast((one) => one.event === 'metrics' && one.name === name);
  return String(line?.url);
}

async function textOf(name: string): Promise<string> {
  return (await fetch(urlOf(name))).text();
}

/** Names of series as Prometheus knows them: a histogram has three. */
function namesIn(text: string): Set<string> {
  const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  return new Set(
    types.flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  );
}

test('every metric of the dashboard and the alerts is in a live process', async () => {
  const live = new Set<string>();
  for (const name of PROCESSES) for (const one of namesIn(await textOf(name))) live.add(one);
  const queries = [...dashboardQueries(), ...rules().map(({ expr }) => expr)];
  const named = new Set(queries.flatMap((query) => query.match(METRIC) ?? []));
  expect(named.size).toBeGreaterThan(40);
  expect([...named].filter((name) => !live.has(name))).toEqual([]);
});

test('every alert has a summary, and the runbook has a remedy', () => {
  for (const { alert, annotations } of rules()) {
    expect(annotations.summary, alert).not.toBe('');
    expect(annotations.summary, alert).not.toMatch(/\$value \}\}/);
    const anchor = alert.toLowerCase();
    expect(annotations.runbook_url).toBe(`docs/operations.md#${anchor}`);
    expect(OPERATIONS).toContain(`<a id="${anchor}"></a>\`${alert}\``);
  }
});

test('every panel of the dashboard says what it shows, of the chosen instances', () => {
  for (const { type, title, description, targets = [] } of PANELS) {
    if (type !== 'row') expect(description, title).toMatch(/\.$/);
    for (const { expr } of targets) {
      const metrics = expr.match(METRIC)?.length;
      const chosen = expr.replace(/\bup\{[^}]*\}/g, '').match(/[{,]instance=~"\$instance"\}/g);
      expect(chosen?.length, title).toBe(metrics);
    }
  }
  expect(DASHBOARD.templating.list.map(({ name }: { name: string }) => name)).toEqual(['instance']);
});

test('the first row of the dashboard is green or red', () => {
  const [first, ...panels] = PANELS;
  expect(first).toMatchObject({ type: 'row', title: 'Is it fine?' });
  const row = panels.slice(
    0,
    panels.findIndex(({ type }) => type === 'row'),
  );
  expect(row.map(({ title }) => title)).toEqual([
    ...['Ready processes', 'Newest final block', 'Analytics', 'Feed delay', 'Errors'],
  ]);
  for (const { type, title, fieldConfig } of row) {
    const colors = fieldConfig?.defaults.thresholds?.steps.map(({ color }) => color);
    expect([title, type, colors?.toSorted()]).toEqual([title, 'stat', ['green', 'red']]);
  }
});

test('every counter starts at 0, so that the first event is an increase', async () => {
  for (const name of PROCESSES) {
    const text = await textOf(name);
    const counters = [...text.matchAll(/^# TYPE (\w+) counter$/gm)].map(([, one = '']) => one);
    const absent = counters.filter((one) => !new RegExp(`^${one}(?:\\{.*\\})? `, 'm').test(text));
    // A series for each route, method and status would be hundreds, so its alert uses a ratio.
    expect(absent.filter((one) => one !== 'fillstream_http_requests_total')).toEqual([]);
  }
  const ingest = await textOf('ingest');
  expect(ingest).toMatch(/^fillstream_refused_total\{reason="bad_data",process="ingest"\} 0$/m);
  // On a slow machine, there are some of these.
  expect(ingest).toMatch(/^fillstream_rpc_errors_total\{endpoint="\S+",class="timeout",.*\} \d+$/m);
  expect(await textOf('projector')).toMatch(/_retries_total\{what="batch",.*\} \d+$/m);
});

test('counters increase with events', async () => {
  const { url, key } = service.ready;
  const headers = { 'X-Service-Key': key };
  await fetch(`${url}/v1/analytics/leaderboard`, { headers });
  await fetch(`${url}/v1/markets/none`, { headers });
  const gone = new AbortController();
  const stream = await fetch(`${url}/v1/stream/orders`, { headers, signal: gone.signal });
  const reader = stream.body?.getReader();
  await reader?.read();
  const shown = await until(async () => {
    const text = await textOf('api');
    const sent = /^fillstream_feed_events_sent_total\{.*\} (\d+)$/m.exec(text)?.[1];
    return Number(sent) > 0 ? text : undefined;
  });
  expect(shown).toMatch(
    /^fillstream_http_requests_total\{route="\/v1\/analytics\/leaderboard",method="GET",status="200",process="api"\} \d+$/m,
  );
  expect(shown).toMatch(
    /http_requests_total\{route="\/v1\/markets\/:id",.*status="40[04]".*\} 1$/m,
  );
  expect(shown).toMatch(/^fillstream_feed_listeners\{process="api"\} 1$/m);
  expect(shown).toMatch(/^fillstream_leaderboard_age_seconds\{time_frame="1H",.*\} \d+$/m);
  expect(shown).not.toContain(key);
  gone.abort();
  const stored = /^fillstream_stream_acked_total\{stream="FEED",process="ingest"\} (\d+)$/m;
  expect(Number(stored.exec(await textOf('ingest'))?.[1])).toBeGreaterThan(0);
  const rows = /^fillstream_projector_batch_rows_count\{process="projector"\} (\d+)$/m;
  expect(Number(rows.exec(await textOf('projector'))?.[1])).toBeGreaterThan(0);
});

test.each(['ingest', 'projector', 'chain node'])(
  'a stalled %s shows in the readiness of the api and on the console',
  async (name) => {
    const pid = name === 'chain node' ? chainNodePid() : service.pidOf(name);
    const isReady = async () => (await fetch(`${service.ready.url}/readyz`)).status === 200;
    await until(async () => ((await isReady()) ? true : undefined));
    const earlier = service.up.lines.length;
    process.kill(pid, 'SIGSTOP');
    try {
      const part = name === 'projector' ? 'projector' : 'ingest';
      const check = await until(async () => {
        const response = await fetch(`${service.ready.url}/readyz`);
        const { checks } = (await response.json()) as Readiness;
        return checks[part]?.ready === false ? checks[part] : undefined;
      });
      expect(check.detail).toMatch(name === 'chain node' ? /^rpc: / : /^process: silent/);
      await service.up.reached('not_ready', (line) => service.up.lines.indexOf(line) >= earlier);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await until(async () => ((await isReady()) ? true : undefined));
    await service.up.reached('ready_again', (line) => service.up.lines.indexOf(line) >= earlier);
  },
);

function chainNodePid(): number {
  const shell = childPid(service.pidOf('devnet'), 'sh') ?? 0;
  return childPid(shell, 'anvil') ?? 0;
}

test.each(PROCESSES)('%s reports liveness and readiness on its metrics port', async (name) => {
  const base = new URL(urlOf(name));
  expect((await fetch(new URL('/healthz', base))).status).toBe(200);
  const answer = await until(async () => {
    const response = await fetch(new URL('/readyz', base));
    return response.status === 200 ? await response.json() : undefined;
  });
  expect(answer).toEqual({ ready: true, reasons: {} });
  const metric = `\nfillstream_ready{process="${name}"} 1\n`;
  await until(async () => (await textOf(name)).includes(metric) || undefined);
  expect((await fetch(new URL('/other', base))).status).toBe(404);
});
