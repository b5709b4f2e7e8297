/**
 * The stage of the page's tests: the service with a trading devnet as a user starts it, a browser, and
 * after each test a look at what a page must never do.
 */
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { freePort } from '../../infra/local/ports.ts';
import { type Service, startService, temporaryDirectory } from '../support/service.ts';
import { launch, open, type Watched } from './browser.ts';

/** What Chromium itself writes of an answer that is an error, and of a server that is gone. */
const NETWORK_ERROR = /^Failed to load resource: /;

export type Stage = {
  readonly service: Service;
  readonly url: string;
  readonly key: string;
  /** A tab of its own session at this path, with the key unless another is given. */
  at(path: string, options?: Parameters<typeof open>[2]): Promise<Watched>;
  /**
   * Address of the best trader of the longest time frame who was active in three hours and has a market
   * resolved: what the tests step through. The very best may have traded once.
   */
  leader(): Promise<string>;
  /** Addresses of the first three traders of the leaderboard, in lower case. */
  leaders(): Promise<readonly string[]>;
};

type Board = { traders: { profile: { address: string } }[] };

/** For the tests of the block that calls it. */
export function useStage(): Stage {
  let directory: ReturnType<typeof temporaryDirectory>;
  let service: Service;
  let browser: Browser;
  let tab: Watched | undefined;
  // Found once: any trader who was fit for the tests stays so.
  let leader: string | undefined;
  let leaders: readonly string[] | undefined;

  async function best(limit: number): Promise<readonly string[]> {
    const path = `/v1/analytics/leaderboard?limit=${limit}`;
    const { traders } = await service.get<Board>(path);
    return traders.map(({ profile }) => profile.address);
  }

  async function findLeader(): Promise<string> {
    for (const address of await best(50)) {
      const path = `/v2/traders/${address}`;
      const [{ stats }, { total_count }] = await Promise.all([
        service.get<{ stats: unknown[] }>(`${path}/hourly_stats`),
        service.get<{ total_count: number }>(`${path}/markets?is_active=false&limit=1`),
      ]);
      if (stats.length >= 3 && total_count > 0) return address;
    }
    throw new Error('none of the best traders was active in three hours with a market resolved');
  }

  beforeAll(async () => {
    directory = temporaryDirectory();
    // A fixed port, so that a restarted api is found where it was.
    const port = await freePort();
    const args = ['--port', String(port), '--history-days', '4', '--demo-rate', '8'];
    [service, browser] = await Promise.all([
      startService(`${directory.path}/data`, { args }),
      launch(),
    ]);
  });

  afterAll(async () => {
    await browser?.close();
    await service?.up.stop();
    directory?.remove();
  });

  afterEach(async () => {
    const done = tab;
    tab = undefined;
    await done?.close();
    expect(done?.foreign ?? []).toEqual([]);
    expect((done?.errors ?? []).filter((text) => !NETWORK_ERROR.test(text))).toEqual([]);
    expect((done?.urls ?? []).filter((one) => one.includes(service.ready.key))).toEqual([]);
  });

  return {
    get service() {
      return service;
    },
    get url() {
      return service.ready.url;
    },
    get key() {
      return service.ready.key;
    },
    async at(path, options = {}) {
      const { url, key } = service.ready;
      tab = await open(browser, url, { key, path, ...options });
      return tab;
    },
    async leader() {
      leader ??= await findLeader();
      return leader;
    },
    async leaders() {
      leaders ??= await best(3);
      return leaders;
    },
  };
}
