/**
 * `GET /v2/alerts/stream`: the events of an account as Server-Sent Events, which resume after `Last-Event-ID`. Each connection
 * reads ALERTS itself, so it gets what was sent while it was away, up to seven days.
 */
import { once } from 'node:events';
import { createSession } from 'better-sse';
import type { Request, RequestHandler, Response } from 'express';
import { callerOf } from '../../api/http/caller.ts';
import { invalid, Problem } from '../../api/http/errors.ts';
import { type Nats, streamState } from '../../infra/nats/connection.ts';
import { parseValue } from '../../infra/nats/kv.ts';
import { tail } from '../../infra/nats/reader.ts';
import { ALERTS_STREAM, AlertMessage, alertsSubject } from './logs.ts';

const HEARTBEAT_MS = 15_000;
const DRAIN_MS_MAX = 30_000;
/** Open streams of one account in this process. */
const STREAMS_MAX = 10;

export function alertsStream(nats: Nats): RequestHandler {
  const open = new Map<string, number>();
  return async (request, response) => {
    const { account } = callerOf(response);
    const given = request.get('Last-Event-ID') ?? '';
    if (given !== '' && !/^\d{1,15}$/.test(given)) {
      throw invalid([{ path: 'Last-Event-ID', message: 'must be the id of an event' }]);
    }
    const used = open.get(account) ?? 0;
    if (used >= STREAMS_MAX) {
      const detail = `this account has ${STREAMS_MAX} open streams of alerts`;
      const quota = { name: 'max_alert_streams', limit: STREAMS_MAX, used };
      throw new Problem({ error: 'quota_exceeded', detail, quota });
    }
    // Before anything is awaited: the client may leave, and others may come.
    open.set(account, used + 1);
    const left = new AbortController();
    response.once('close', () => left.abort());
    try {
      await send(request, response, { account, given, left: left.signal });
    } finally {
      const others = (open.get(account) ?? 1) - 1;
      if (others === 0) open.delete(account);
      else open.set(account, others);
    }
  };

  async function send(
    request: Request,
    response: Response,
    {
      account,
      given,
      left,
    }: { readonly account: string; readonly given: string; readonly left: AbortSignal },
  ): Promise<void> {
    const { firstSequence, lastSequence } = await streamState(nats, ALERTS_STREAM);
    const isKnown = given !== '' && Number(given) <= lastSequence;
    const after = isKnown ? Number(given) : lastSequence;
    const isGap = given !== '' && (!isKnown || after + 1 < firstSequence);
    if (left.aborted || response.destroyed) return;
    const session = await createSession(request, response, { keepAlive: HEARTBEAT_MS });
    if (isGap)
      session.push({ requested: Number(given), first_available: firstSequence }, 'gap', '');
    for await (const { data, sequence } of tail(nats, {
      ...{ stream: ALERTS_STREAM, fromSequence: after + 1, signal: left },
      filterSubject: alertsSubject(account),
    })) {
      const message = parseValue(AlertMessage, data);
      if (message === undefined) continue;
      session.push(message.event, 'alert', String(sequence));
      if (!response.writableNeedDrain) continue;
      const slow = AbortSignal.any([left, AbortSignal.timeout(DRAIN_MS_MAX)]);
      await once(response, 'drain', { signal: slow }).catch(() => response.destroy());
    }
  }
}
