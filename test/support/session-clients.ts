/** Shared by the tests of sessions: clients of an account, and their requests. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Tier } from '../../api/http/caller.ts';
import { Sessions } from '../../api/sessions/sessions.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { silent } from './api-harness.ts';
import { type Api, makeStream, startApi, startBroker } from './feed-harness.ts';
import { Client } from './raw-client.ts';

/** Two processes over one nats-server. */
export async function startPair(stream: string, now = Date.now) {
  const broker = await startBroker();
  await makeStream(broker.nats, stream);
  const [one, other] = [
    await startApi({ nats: broker.nats, stream, now }),
    await startApi({ nats: broker.nats, stream, now }),
  ];
  return {
    ...{ broker, one, other },
    /** The sessions of another process, whose connection can be cut without warning. */
    async process() {
      const nats = await connectNats({ url: broker.url, name: 'another process' });
      const sessions = await Sessions.start({ nats, logger: silent, now });
      return { sessions, crash: () => nats.close() };
    },
    async stop() {
      await one.close();
      await other.close();
      await broker.close();
    },
  };
}

let accounts = 0;

export function newAccount(tier: Tier = 'pro'): string {
  accounts += 1;
  return `${tier} ${accounts}`;
}

export async function listen(api: Api, account: string): Promise<Client> {
  const client = new Client(api.port, { headers: { 'X-Account': account } });
  return await client.until(({ body, ended }) => ended || body.includes('retry: '));
}

export async function ask(api: Api, account: string, path: string) {
  const headers = { 'X-Account': account };
  const response = await fetch(`http://127.0.0.1:${api.port}${path}`, { headers });
  return JSON.parse(await response.text());
}

export async function eventually<T>(
  probe: () => Promise<T>,
  wanted: (value: T) => boolean,
): Promise<T> {
  for (;;) {
    const value = await probe();
    if (wanted(value)) return value;
    await delay(20);
  }
}

/** The open sessions of an account, or with another path the ended ones, once there are this many. */
export function listed(api: Api, account: string, count: number, path = '/sessions') {
  return eventually(
    () => ask(api, account, path),
    ({ total_count }) => total_count === count,
  );
}

/** Resolves once an account has used this many seconds today. */
export function used(api: Api, account: string, seconds: number) {
  return eventually(
    () => ask(api, account, '/sessions'),
    ({ used_seconds_today }) => used_seconds_today === seconds,
  );
}

export function caller(account: string, tier: Tier) {
  return { keyHash: 'a key', account, tier };
}
