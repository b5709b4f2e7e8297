/** What the tests of sessions share: clients of an account, and what they ask for. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Tier } from '../../api/auth/tiers.ts';
import type { Api } from './feed-harness.ts';
import { Client } from './raw-client.ts';

let accounts = 0;

export function newAccount(tier: Tier): string {
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

export function caller(account: string, tier: Tier) {
  return { keyHash: 'a key', account, tier };
}
