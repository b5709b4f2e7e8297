/**
 * The stage of the page's tests: a running service, a browser and an account for each file, and after each
 * test a check for what a page must never do.
 */
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from 'vitest';
import { KEY_IN_TEXT, KEYS_BUCKET } from '../../api/auth/keys.ts';
import type { Tier } from '../../api/http/caller.ts';
import type { LeaderboardV1, TraderHours, TraderMarkets } from '../../apps/client/index.ts';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import { connectNats, natsOptions } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { issueKey } from '../support/api-harness.ts';
import { answerOf, query } from '../support/service.ts';
import { CHROMIUM, launch, MISSING, open, type Watched } from './browser.ts';
import { agree } from './seen.ts';
import type { Place } from './service.ts';

/** Chromium's own messages about an error response and an unreachable server. */
const NETWORK_ERROR = /^Failed to load resource: /;

/** Call it once in a test file. Uses the service that all files share, or one of its own. */
export function useStage(place: () => Place = () => inject('place')) {
  let browser: Browser;
  let key: string;
  let tab: Watched | undefined;
  // Searched for once, because a suitable trader remains suitable.
  let leader: string | undefined;
  let leaders: readonly string[] | undefined;

  const stage = {
    get url(): string {
      return place().ready.url;
    },
    /** Of an account that no other file has. */
    get key(): string {
      return key;
    },
    get: <Answer>(path: string): Promise<Answer> => answerOf(stage.url, key, path),
    query: (sql: string) => query(place().ready.clickhouse_url, sql),
    nats: () => connectNats({ ...natsOptions(readConfig(NatsConfig, place().env)), name: 'test' }),
    /** A key of an account of its own. */
    async issue(tier: Tier): Promise<string> {
      const nats = await stage.nats();
      const issued = await issueKey(await openKv(nats, KEYS_BUCKET, { replicas: 1 }), tier, {
        account: crypto.randomUUID(),
      });
      await nats.close();
      const headers = { 'X-Service-Key': issued };
      // It is known within a second.
      await agree(async () => {
        expect((await fetch(`${stage.url}/v2/user/me`, { headers })).status).toBe(200);
      });
      return issued;
    },
    /** Opens a tab in a new session at this path, by default with the account's key. */
    async at(path: string, options: Parameters<typeof open>[2] = {}): Promise<Watched> {
      tab = await open(browser, stage.url, { key, path, ...options });
      return tab;
    },
    /**
     * Address of the best trader of the longest time frame who was active in three hours and has a
     * resolved market, for tests that page through them. The very best may have traded only once.
     */
    async leader(): Promise<string> {
      leader ??= await findLeader();
      return leader;
    },
    /** Addresses of the first three traders of the leaderboard, in lower case. */
    async leaders(): Promise<readonly string[]> {
      leaders ??= await best(3);
      return leaders;
    },
  };

  async function best(limit: number): Promise<readonly string[]> {
    const { traders } = await stage.get<LeaderboardV1>(`/v1/analytics/leaderboard?limit=${limit}`);
    return traders.map(({ profile }) => profile.address);
  }

  async function findLeader(): Promise<string> {
    for (const address of await best(50)) {
      const path = `/v2/traders/${address}`;
      const [{ stats }, { total_count }] = await Promise.all([
        stage.get<TraderHours>(`${path}/hourly_stats`),
        stage.get<TraderMarkets>(`${path}/markets?is_active=false&limit=1`),
      ]);
      if (stats.length >= 3 && total_count > 0) return address;
    }
    throw new Error('none of the best traders was active in three hours with a market resolved');
  }

  beforeAll(async () => {
    if (CHROMIUM === undefined) return;
    [key, browser] = await Promise.all([stage.issue('pro'), launch()]);
  });

  afterAll(() => browser?.close());

  beforeEach(({ skip }) => skip(CHROMIUM === undefined, MISSING));

  afterEach(async () => {
    const done = tab;
    tab = undefined;
    await done?.close();
    expect(done?.foreign ?? []).toEqual([]);
    expect((done?.errors ?? []).filter((text) => !NETWORK_ERROR.test(text))).toEqual([]);
    expect((done?.urls ?? []).filter((one) => KEY_IN_TEXT.test(one))).toEqual([]);
  });

  return stage;
}
