/**
 * `bench:api -- hot`: few traders get most requests, by Zipf's law, at 16 connections and at one; and all traders alike, so
 * that nearly every request is the first for its trader. The api of this checkout, the same without memory for live sums,
 * and, with BESIDE=../old, the api of another checkout take turns on the same data.
 */
import { join } from 'node:path';
import { connectNats } from '../../../infra/nats/connection.ts';
import { reportState } from '../../../infra/nats/states.ts';
import { Random } from '../../../local/devnet/random.ts';
import { at } from './endpoint-calls.ts';
import type { Dataset } from './fills.ts';
import { getRequest, type Load, load, medianOf, startApi } from './load.ts';
import { readable } from './report.ts';

const REQUESTED_MAX = 10_000;
/** Until the popular traders were asked for, memory has no use. */
export const WARM_UP_SECONDS = 150;
const PATHS: Readonly<Record<string, (trader: string) => string>> = {
  'v1 trader': (trader) => `/v1/traders/${trader}`,
  'v2 trader': (trader) => `/v2/traders/${trader}`,
  'v2 positions': (trader) => `/v2/traders/${trader}/positions`,
  'v1 markets of a trader': (trader) => `/v1/traders/${trader}/markets`,
};
const { BESIDE } = process.env;
const APIS: Readonly<Record<string, Parameters<typeof startApi>[1]>> = {
  ...(BESIDE === undefined ? {} : { beside: { module: join(BESIDE, 'api/main.ts') } }),
  'without memory': { env: { LIVE_TRADERS_MIB: '0' } },
  live: {},
};

export async function measureHot(data: Dataset, how: { rounds: number; seconds: number }) {
  const stop = await reportStored(data);
  const rows = [];
  for (const [name, path] of Object.entries(PATHS)) {
    for (const [load, connections, rankOf] of [
      ['Zipf 1', 16, zipf],
      ['Zipf 1', 1, zipf],
      ['all alike', 16, (count: number, random: Random) => random.below(count)],
    ] as const) {
      const all = load === 'all alike' ? data.traders.length : REQUESTED_MAX;
      const count = Math.min(all, data.traders.length);
      const trader = (random: Random) => at(data.traders, rankOf(count, random));
      const isWarm = load !== 'all alike';
      const loads = await byTurns(data, { ...how, connections, path, trader, isWarm });
      const figures = Object.entries(loads).map(([api, { perSecond, p50, p99 }]) => [
        api,
        [perSecond, p50, p99].map(readable).join('; '),
      ]);
      rows.push({ endpoint: name, load, connections, ...Object.fromEntries(figures) });
      console.log(Object.values(rows.at(-1) ?? {}).join(' | '));
    }
  }
  stop();
  return rows;
}

async function byTurns(
  { parts }: Dataset,
  how: {
    readonly rounds: number;
    readonly seconds: number;
    readonly connections: number;
    readonly isWarm: boolean;
    readonly path: (trader: string) => string;
    readonly trader: (random: Random) => string;
  },
): Promise<Readonly<Record<string, Load>>> {
  const loads = new Map<string, Load[]>();
  for (let round = 0; round < how.rounds; round++) {
    for (const [name, options] of Object.entries(APIS)) {
      const api = await startApi(parts, options);
      const random = new Random(`${round}`);
      const request = (i: number) => getRequest(how.path(how.trader(random)), api.headers(i));
      const asked = { ...how, port: api.port, request };
      const hasMemory = how.isWarm && name === 'live';
      if (hasMemory) await load({ ...asked, connections: 16, seconds: WARM_UP_SECONDS });
      loads.set(name, [...(loads.get(name) ?? []), await load(asked)]);
      await api.stop();
    }
  }
  return Object.fromEntries([...loads].map(([name, own]) => [name, medianOf(own)]));
}

/** Reports as a projector does that everything is stored, because none runs. */
export async function reportStored({ parts }: Dataset): Promise<() => void> {
  const [row] = await parts.query<{ block: string }>(
    'SELECT max(block_number) AS block FROM bookings',
  );
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  const reporting = reportState(nats, { name: 'projector' }, () => ({
    ...{ reasons: {}, reached: Math.floor(Date.now() / 1_000), block: Number(row?.block) },
  }));
  return () => {
    reporting.stop();
    void nats.close();
  };
}

/** A rank from 0; the n-th has a frequency of about 1/n. */
export function zipf(count: number, random: Random): number {
  return Math.floor((count + 1) ** random.unit()) - 1;
}
