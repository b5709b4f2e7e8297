/** Endpoints of alerts, and their events as pages. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { count, text } from '../../api/analytics/schemas.ts';
import { TIERS } from '../../api/auth/tiers.ts';
import type { Caller } from '../../api/http/caller.ts';
import { type CallerContext, type Endpoint, endpoint, Page } from '../../api/http/endpoint.ts';
import { invalid, quotaExceeded, unavailable } from '../../api/http/errors.ts';
import { instant, integer, type MarketKey, parseMarketKey } from '../../api/http/parameters.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { parseValue } from '../../infra/nats/kv.ts';
import { firstMessageAtOrAfter, readRange } from '../../infra/nats/reader.ts';
import { PUSH_KEY_EXAMPLE } from './destination.ts';
import { AlertEvent, eventId } from './event.ts';
import { ALERTS_STREAM, AlertMessage, alertsSubject, publishEvent } from './logs.ts';
import {
  Alert,
  AlertChange,
  type AlertRecord,
  NewAlert,
  type Rule,
  sizesOf,
  wireAlert,
} from './rule.ts';
import type { AlertStore, DestinationStore } from './stores.ts';

export type AlertsCall = CallerContext & {
  readonly nats: Nats;
  readonly alerts: AlertStore;
  readonly destinations: DestinationStore;
  /** Rejects with Problem 404 for an unknown market. */
  readonly conditionOf: (market: MarketKey) => Promise<string>;
  /** The public key with which push services recognise our requests. */
  readonly pushKey: string;
};

const ID_EXAMPLE = '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a';
const DAY_MS = 86_400_000;
const PUBLISH_MS_MAX = 4_000;
const EVENTS_DEFAULT = 100;
const EVENTS_MAX = 500;
const CURSOR_MAX = Number.MAX_SAFE_INTEGER - 1;

/** Accepts any string, because an id that the account does not have is a 404, not a 400. */
const AlertId = z.object({
  id: z
    .string()
    .meta({ type: 'string', format: 'uuid', description: 'alert id', examples: [ID_EXAMPLE] }),
});

const listAlerts = endpoint({
  name: 'alerts',
  path: '/v2/alerts',
  summary: 'Alerts',
  description: 'The alerts of your account, oldest first.',
  parameters: z.object({}),
  answer: z.object({
    data: z.array(Alert),
    total_count: count('number of entries in data', 1),
  }),
  problems: [],
  run: async ({ alerts, caller }: AlertsCall) => {
    const data = alerts.list(caller.account).map(wireAlert);
    return { data, total_count: data.length };
  },
});

const createAlert = endpoint({
  name: 'createAlert',
  method: 'post',
  path: '/v2/alerts',
  status: 201,
  summary: 'Create an alert',
  description: `Sends an event when something happens: to destinations, and to \`GET /v2/alerts/stream\`.

An event about a match that is not final yet is \`pending\`. If the match never happens, a second event takes it back: its
\`state\` is \`retracted\`, and \`refers_to\` is the id of the first. With \`confirm\`, another event says that the match became final.`,
  parameters: z.object({}),
  body: NewAlert,
  answer: Alert,
  problems: ['not_found', 'quota_exceeded'],
  run: async (call: AlertsCall, _, body) => {
    const { confirm, name } = body;
    const destinations = await ownDestinations(call, body.destinations);
    const rule = await resolved(call, body.rule);
    const record = { name, rule, destinations, confirm, enabled: true };
    return wireAlert(await call.alerts.create(call.caller, record, call.repeatable));
  },
});

const readAlert = endpoint({
  name: 'alert',
  path: '/v2/alerts/:id',
  summary: 'Alert',
  description: 'One alert, as in the list.',
  parameters: AlertId,
  answer: Alert,
  problems: ['not_found'],
  run: async ({ alerts, caller }: AlertsCall, { id }) => wireAlert(await alerts.find(caller, id)),
});

const updateAlert = endpoint({
  name: 'updateAlert',
  method: 'patch',
  path: '/v2/alerts/:id',
  summary: 'Change or pause an alert',
  description: `Changes an alert within a second; omitted members keep their values. \`rule\` is replaced as a whole. While \`enabled\` is
false, nothing new is sent, but what was sent before is still taken back if it did not happen.`,
  parameters: AlertId,
  body: AlertChange,
  answer: Alert,
  problems: ['not_found', 'quota_exceeded'],
  run: async (call: AlertsCall, { id }, { destinations, rule, ...change }) => {
    const changed = {
      ...change,
      ...(destinations && { destinations: await ownDestinations(call, destinations) }),
      ...(rule && { rule: await resolved(call, rule) }),
    } as Partial<AlertRecord>;
    return wireAlert(await call.alerts.update(call.caller, id, changed));
  },
});

const deleteAlert = endpoint({
  name: 'deleteAlert',
  method: 'delete',
  path: '/v2/alerts/:id',
  summary: 'Delete an alert',
  description:
    'Deletes an alert for good. What it has sent is still taken back if it did not happen.',
  parameters: AlertId,
  answer: z.object({ id: text('id of the deleted alert', ID_EXAMPLE) }),
  problems: ['not_found'],
  run: async ({ alerts, caller }: AlertsCall, { id }) => {
    await alerts.delete(caller, id);
    return { id };
  },
});

const testAlert = endpoint({
  name: 'testAlert',
  method: 'post',
  path: '/v2/alerts/:id/test',
  summary: 'Test an alert',
  description:
    'Sends an event of type `test` to the destinations of an alert and to the event stream. The deliveries of a destination show what became of it.',
  parameters: AlertId,
  answer: AlertEvent,
  problems: ['not_found'],
  run: async (call: AlertsCall, { id }) => {
    const { alerts, caller, destinations, nats, signal } = call;
    const { account, destinations: own, name } = await alerts.find(caller, id);
    const event: AlertEvent = {
      ...{ id: eventId(id, `test ${onceOf(call)}`), type: 'test', state: 'final', refers_to: null },
      ...{ timestamp: new Date().toISOString(), alert: { id, name } },
      ...{ text: `This is a test of the alert “${name}”.`, data: {} },
    };
    const known = own.filter((one) => destinations.known(one)?.account === account);
    const message = { event, account, about: 'test', matches: [], destinations: known };
    await withinReason(signal, (until) =>
      publishEvent(nats, { ...message, confirm: false }, until),
    );
    return event;
  },
});

const listEvents = endpoint({
  name: 'alertEvents',
  path: '/v2/alerts/events',
  summary: 'Events of alerts',
  description: `What your alerts have sent, oldest first, of the last seven days. \`GET /v2/alerts/stream\` sends the same events as they happen;
\`next_cursor\` is the \`Last-Event-ID\` with which it continues after this page.`,
  parameters: z.object({
    from: instant.optional().describe('only events sent at this time or later; default: a day ago'),
    cursor: integer(1, CURSOR_MAX)
      .optional()
      .meta({ description: 'continues after this event; instead of `from`' }),
    limit: integer(1, EVENTS_MAX).default(EVENTS_DEFAULT).describe('maximum events per page'),
  }),
  answer: z.object({
    events: z.array(AlertEvent),
    next_cursor: text('cursor after the last event; empty without events', '81'),
  }),
  list: 'events',
  problems: [],
  run: async ({ caller, nats }: AlertsCall, { cursor, from, limit }) => {
    const timeMs = from === undefined ? Date.now() - DAY_MS : from * 1_000;
    const first =
      cursor === undefined
        ? (await firstMessageAtOrAfter(nats, ALERTS_STREAM, timeMs))?.sequence
        : cursor + 1;
    const subject = alertsSubject(caller.account);
    const messages =
      first === undefined ? [] : await readRange(nats, ALERTS_STREAM, first, limit, subject);
    const events = messages.flatMap(({ data }) => {
      const message = parseValue(AlertMessage, data);
      return message === undefined ? [] : [message.event];
    });
    const next_cursor = String(messages.at(-1)?.sequence ?? cursor ?? '');
    return new Page({ events, next_cursor }, messages.length < limit ? '' : next_cursor);
  },
});

const readPushKey = endpoint({
  name: 'pushKey',
  path: '/v2/alerts/push_key',
  summary: 'Key for push subscriptions',
  description: `The public key (VAPID) that a browser needs to subscribe to push notifications, as \`applicationServerKey\`. The subscription is
the target of a destination of kind \`push\`.`,
  parameters: z.object({}),
  answer: z.object({
    public_key: text('public key of P-256, 65 bytes as base64url', PUSH_KEY_EXAMPLE),
  }),
  problems: [],
  run: async ({ pushKey }: AlertsCall) => ({ public_key: pushKey }),
});

/** In this order, because `/v2/alerts/events` and `/v2/alerts/push_key` are no ids. */
export const ALERT_ENDPOINTS: readonly Endpoint<AlertsCall>[] = [
  listAlerts,
  createAlert,
  listEvents,
  readPushKey,
  readAlert,
  updateAlert,
  deleteAlert,
  testAlert,
];

/** Stores something, unless the client leaves. Throws Problem 503 if NATS does not store it soon. */
export async function withinReason(
  signal: AbortSignal | null,
  store: (until: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const patience = AbortSignal.timeout(PUBLISH_MS_MAX);
  try {
    await store(signal === null ? patience : AbortSignal.any([signal, patience]));
  } catch (error) {
    if (!patience.aborted) throw error;
    throw unavailable('NATS cannot store the event now', error);
  }
}

/** The same for each repetition of a request with an Idempotency-Key. */
export function onceOf({ repeatable }: AlertsCall): string {
  return repeatable?.seed.toString('hex') ?? randomUUID();
}

/** The rule with condition ids in place of market keys. Throws Problem 404 for an unknown market, and 403 for too long lists. */
async function resolved({ caller, conditionOf }: AlertsCall, rule: Rule): Promise<Rule> {
  refuseLongLists(caller, rule);
  const conditionIdOf = async (market: string) => {
    const key = parseMarketKey(market);
    if (key === undefined) throw invalid([{ path: 'rule.markets', message: 'is no market' }]);
    return await conditionOf(key);
  };
  if (rule.type === 'price') return { ...rule, market: await conditionIdOf(rule.market) };
  if (rule.type === 'pnl' || rule.markets === undefined) return rule;
  const conditions = await Promise.all(rule.markets.map(conditionIdOf));
  return { ...rule, markets: [...new Set(conditions)] };
}

function refuseLongLists({ tier }: Caller, rule: Rule): void {
  const { filterAddressesMax, filterSeriesMax, filterTagsMax } = TIERS[tier];
  const limits = {
    ...{ max_filter_addrs: filterAddressesMax, max_filter_tags: filterTagsMax },
    max_filter_series: filterSeriesMax,
  };
  const sizes = sizesOf(rule);
  for (const name of Object.keys(limits) as (keyof typeof limits)[]) {
    if (sizes[name] > limits[name]) throw quotaExceeded(name, tier, limits[name], sizes[name]);
  }
}

/** Throws Problem 404 for a destination that the account does not have. */
async function ownDestinations(
  { caller, destinations }: AlertsCall,
  ids: readonly string[],
): Promise<string[]> {
  const found = await Promise.all(ids.map((id) => destinations.find(caller, id)));
  return [...new Set(found.map(({ id }) => id))];
}
