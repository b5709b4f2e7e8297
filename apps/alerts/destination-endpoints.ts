/** Endpoints of destinations: where events are sent, their secrets, and what became of the deliveries. */
import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { count, text } from '../../api/analytics/schemas.ts';
import { type Endpoint, endpoint } from '../../api/http/endpoint.ts';
import { invalid, Problem } from '../../api/http/errors.ts';
import { integer } from '../../api/http/parameters.ts';
import { removeQueue, waitingBySubject } from '../../infra/nats/work-queue.ts';
import { type AlertsCall, onceOf, withinReason } from './alert-endpoints.ts';
import { latestAttempts } from './deliver/attempts.ts';
import {
  Destination,
  DestinationChange,
  type DestinationRecord,
  NewDestination,
  newSecret,
  secretOf,
  type Target,
  urlOf,
  wireDestination,
} from './destination.ts';
import { AlertEvent } from './event.ts';
import { ATTEMPTS_MAX, DELIVERIES_STREAM, deliveriesSubject, publishDelivery } from './logs.ts';

export type DestinationsCall = AlertsCall & {
  /** Throws RefusedTargetError's message as Problem 400 about this member of the body if the URL may never be reached. */
  readonly checkUrl: (url: string, member: string) => void;
};

const ID_EXAMPLE = '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a';
const EVENT_EXAMPLE = 'evt_5f0c6a2be9d34c1187a0f5b2c4d6e8fa';
const SECRET_EXAMPLE = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const ROTATION_HOURS_DEFAULT = 24;
const ROTATION_HOURS_MAX = 168;
const ATTEMPTS_DEFAULT = 50;
/** That sign at once. */
const SECRETS_MAX = 5;

/** Accepts any string, because an id that the account does not have is a 404, not a 400. */
const DestinationId = z.object({
  id: z.string().meta({
    ...{ type: 'string', format: 'uuid', description: 'destination id', examples: [ID_EXAMPLE] },
  }),
});

const Secret = z
  .string()
  .nullable()
  .meta({
    description:
      'signing secret of a webhook, in the form of Standard Webhooks; shown only here; null for other kinds',
    examples: [SECRET_EXAMPLE],
  });

const Delivery = z
  .object({
    event: AlertEvent,
    attempt: count('number of the attempt, from 1', 1),
    time: text('when it began, UTC with milliseconds', '2026-05-01T12:00:00.000Z').meta({
      format: 'date-time',
    }),
    took_ms: count('milliseconds until the response', 42),
    delivered: z.boolean().meta({ description: 'whether it worked', examples: [true] }),
    status: z
      .int()
      .nullable()
      .meta({ description: 'HTTP status; null without a response', examples: [200] }),
    response: text('the beginning of the response, or why there was none', 'ok'),
    retry_at: z
      .string()
      .nullable()
      .meta({
        ...{ format: 'date-time', description: 'when it is tried again; null: it is not' },
        examples: [null],
      }),
  })
  .meta({ id: 'Delivery' });

const listDestinations = endpoint({
  name: 'destinations',
  path: '/v2/destinations',
  summary: 'Destinations',
  description: 'Where the alerts of your account send events, oldest first.',
  parameters: z.object({}),
  answer: z.object({
    data: z.array(Destination),
    total_count: count('number of entries in data', 1),
  }),
  problems: [],
  run: async (call: DestinationsCall) => {
    const own = call.destinations.list(call.caller.account);
    const data = await Promise.all(own.map((record) => wire(call, record)));
    return { data, total_count: data.length };
  },
});

const createDestination = endpoint({
  name: 'createDestination',
  method: 'post',
  path: '/v2/destinations',
  status: 201,
  summary: 'Create a destination',
  description: `Stores where alerts may send events. A webhook gets each event as a POST with a JSON body, signed as
[Standard Webhooks](https://www.standardwebhooks.com) says; its libraries verify the signature. A response of 2xx within 10 seconds
is a delivery. Anything else is tried again with growing pauses, or after \`Retry-After\`. After three days without a
delivery, or after a 410, the destination is disabled.

URLs must be \`https:\` and lead to a public address. Redirects are not followed. The secret is only shown in this response.`,
  parameters: z.object({}),
  body: NewDestination,
  answer: z.object({ destination: Destination, secret: Secret }),
  problems: ['quota_exceeded'],
  run: async (call: DestinationsCall, _, { name, target }) => {
    refuseTarget(call, target);
    const secret = secretFor(call);
    const record = await call.destinations.create(
      call.caller,
      {
        ...{ name, target, enabled: true, disabledBecause: null, failingSince: null },
        secrets: target.kind === 'webhook' ? [{ secret, until: null }] : [],
      },
      call.repeatable,
    );
    return { destination: await wire(call, record), secret: record.secrets[0]?.secret ?? null };
  },
});

const readDestination = endpoint({
  name: 'destination',
  path: '/v2/destinations/:id',
  summary: 'Destination',
  description: 'One destination, as in the list.',
  parameters: DestinationId,
  answer: Destination,
  problems: ['not_found'],
  run: async (call: DestinationsCall, { id }) =>
    await wire(call, await call.destinations.find(call.caller, id)),
});

const updateDestination = endpoint({
  name: 'updateDestination',
  method: 'patch',
  path: '/v2/destinations/:id',
  summary: 'Change, pause or enable a destination',
  description: `Changes a destination; omitted members keep their values. What waits while it is disabled is delivered when it is enabled
again within seven days.`,
  parameters: DestinationId,
  body: DestinationChange,
  answer: Destination,
  problems: ['not_found'],
  run: async (call: DestinationsCall, { id }, { enabled, name, target }) => {
    const { target: former } = await call.destinations.find(call.caller, id);
    if (target !== undefined) {
      refuseTarget(call, target);
      if (target.kind !== former.kind) {
        throw invalid([{ path: 'target.kind', message: `must stay ${former.kind}` }]);
      }
    }
    const record = await call.destinations.update(call.caller, id, {
      ...(name !== undefined && { name }),
      ...(target !== undefined && { target }),
      // The three days begin again.
      ...(enabled !== undefined && { enabled, disabledBecause: null, failingSince: null }),
    });
    return await wire(call, record);
  },
});

const deleteDestination = endpoint({
  name: 'deleteDestination',
  method: 'delete',
  path: '/v2/destinations/:id',
  summary: 'Delete a destination',
  description: 'Deletes a destination and what waits for it. Alerts no longer send to it.',
  parameters: DestinationId,
  answer: z.object({ id: text('id of the deleted destination', ID_EXAMPLE) }),
  problems: ['not_found'],
  run: async ({ alerts, caller, destinations, nats }: DestinationsCall, { id }) => {
    await destinations.delete(caller, id);
    for (const alert of alerts.list(caller.account)) {
      if (!alert.destinations.includes(id)) continue;
      await alerts.change(alert.id, (record) => ({
        ...record,
        destinations: record.destinations.filter((one) => one !== id),
      }));
    }
    await removeQueue(nats, DELIVERIES_STREAM, { name: id, subject: deliveriesSubject(id) });
    return { id };
  },
});

const rotateSecret = endpoint({
  name: 'rotateSecret',
  method: 'post',
  path: '/v2/destinations/:id/secret',
  summary: 'Rotate the secret of a webhook',
  description: `Makes a new signing secret, which is only shown in this response. For \`overlap_hours\`, requests have a signature of both
secrets, so that the receiver can change at any time.`,
  parameters: DestinationId.extend({
    overlap_hours: integer(0, ROTATION_HOURS_MAX)
      .default(ROTATION_HOURS_DEFAULT)
      .meta({ description: 'how long the former secret also signs, hours' }),
  }),
  answer: z.object({ destination: Destination, secret: Secret }),
  problems: ['not_found'],
  run: async (call: DestinationsCall, { id, overlap_hours }) => {
    const { target } = await call.destinations.find(call.caller, id);
    if (target.kind !== 'webhook') {
      throw invalid([
        { path: 'id', message: `a destination of kind ${target.kind} has no secret` },
      ]);
    }
    const secret = secretFor(call);
    const until = new Date(Date.now() + overlap_hours * 3_600_000).toISOString();
    const record = await call.destinations.update(call.caller, id, ({ secrets }) => {
      // A repeated request has rotated it before.
      if (secrets.some((one) => one.secret === secret)) return {};
      const now = Date.now();
      const former = secrets
        .filter((one) => one.until === null || Date.parse(one.until) > now)
        .map((one) => (one.until === null ? { ...one, until } : one));
      return { secrets: [{ secret, until: null }, ...former].slice(0, SECRETS_MAX) };
    });
    return { destination: await wire(call, record), secret };
  },
});

const listDeliveries = endpoint({
  name: 'deliveries',
  path: '/v2/destinations/:id/deliveries',
  summary: 'Deliveries',
  description: `The latest attempts to deliver events to a destination, newest first. The last ${ATTEMPTS_MAX} are kept for seven days.`,
  parameters: DestinationId.extend({
    limit: integer(1, ATTEMPTS_MAX)
      .default(ATTEMPTS_DEFAULT)
      .meta({ description: 'maximum number of entries' }),
  }),
  answer: z.object({
    data: z.array(Delivery),
    total_count: count('number of stored attempts', 1),
  }),
  problems: ['not_found'],
  run: async ({ caller, destinations, nats }: DestinationsCall, { id, limit }) => {
    await destinations.find(caller, id);
    const attempts = await latestAttempts(nats, id);
    const data = attempts.slice(0, limit).map((one) => ({
      ...{ event: one.event, attempt: one.attempt, time: new Date(one.atMs).toISOString() },
      ...{ took_ms: one.tookMs, delivered: one.isDelivered, status: one.status },
      response: one.response,
      retry_at: one.retryAtMs === null ? null : new Date(one.retryAtMs).toISOString(),
    }));
    return { data, total_count: attempts.length };
  },
});

const redeliver = endpoint({
  name: 'redeliver',
  method: 'post',
  path: '/v2/destinations/:id/deliveries/:event_id',
  summary: 'Deliver an event again',
  description: `Sends an event again that is among the deliveries of a destination. It has the same id, so a receiver that had it
drops it.`,
  parameters: DestinationId.extend({
    event_id: z.string().meta({ description: 'id of the event', examples: [EVENT_EXAMPLE] }),
  }),
  answer: AlertEvent,
  problems: ['not_found'],
  run: async (call: DestinationsCall, { event_id, id }) => {
    const { caller, destinations, nats, signal } = call;
    await destinations.find(caller, id);
    const attempts = await latestAttempts(nats, id);
    const event = attempts.find((one) => one.event.id === event_id)?.event;
    if (event === undefined) {
      const detail = `no stored delivery of this destination has the event ${event_id.slice(0, 40)}`;
      throw new Problem({ error: 'not_found', detail });
    }
    const once = `${event.id} again ${onceOf(call)}`;
    await withinReason(signal, (until) => publishDelivery(nats, id, event, once, until));
    return event;
  },
});

export const DESTINATION_ENDPOINTS: readonly Endpoint<DestinationsCall>[] = [
  listDestinations,
  createDestination,
  readDestination,
  updateDestination,
  deleteDestination,
  rotateSecret,
  listDeliveries,
  redeliver,
];

async function wire({ nats }: DestinationsCall, record: DestinationRecord) {
  const subject = deliveriesSubject(record.id);
  const waiting = await waitingBySubject(nats, DELIVERIES_STREAM, subject);
  return wireDestination(record, waiting.get(subject) ?? 0);
}

function refuseTarget({ checkUrl }: DestinationsCall, target: Target): void {
  const url = urlOf(target);
  if (url !== undefined) checkUrl(url, `target.${target.kind === 'push' ? 'endpoint' : 'url'}`);
}

/** A new secret; the same one for each repetition of a request with an Idempotency-Key. */
function secretFor({ repeatable }: DestinationsCall): string {
  if (repeatable === null) return newSecret();
  return secretOf(createHmac('sha256', repeatable.seed).update('signing secret').digest());
}
