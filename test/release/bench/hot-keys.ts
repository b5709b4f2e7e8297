/**
 * Part `hot` of `npm run bench:api`: rates at 16 connections where few traders and markets get most of the requests
 * (Zipf over 10,000 of them), so that many requests can share a response. With OTHER, the path of another
 * checkout, its api answers the same requests by turns.
 */
import { generateKey, KEYS_BUCKET, storeKey } from '../../../api/auth/keys.ts';
import { Random } from '../../../infra/local/devnet/random.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { at } from './endpoint-calls.ts';
import type { Dataset } from './fills.ts';
import { getRequest, type Load, load, medianOf } from './load.ts';
import { percent, readable } from './report.ts';

/** A pro account has 100 requests a second, so this many together are no limit here. */
const KEYS = 1_000;
export const KEYS_MAX = 10_000;
export const CONNECTIONS = 16;
/** 1 is the usual law; a page that shows the first ones of a list makes it steeper; Infinity is a single key. */
const EXPONENTS = [1, 1.2, Infinity];

/** Ranks from 0, each as frequent as the power of its number. */
export function zipf(count: number, exponent: number, random: Random): () => number {
  const upTo: number[] = [];
  for (let rank = 1, sum = 0; rank <= count; rank++) {
    // 1 to the power of Infinity is NaN in JavaScript.
    sum += rank === 1 ? 1 : rank ** -exponent;
    upTo.push(sum);
  }
  const whole = upTo.at(-1) ?? 0;
  return () => {
    const at = random.unit() * whole;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] ?? 0) > at) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

export async function issueKeys(natsUrl: string): Promise<readonly string[]> {
  const nats = await connectNats({ url: natsUrl, name: 'bench' });
  const bucket = await openKv(nats, KEYS_BUCKET);
  const keys = Array.from({ length: KEYS }, () => generateKey('pro'));
  for (const [i, key] of keys.entries()) {
    const record = { label: 'bench', tier: 'pro', account: `bench-${i}` } as const;
    await storeKey(bucket, key, { ...record, created_at: new Date().toISOString() });
  }
  await nats.close();
  return keys;
}

const trader = (address: string) => `/v2/traders/${address}`;
const market = (id: number) => `/v2/markets/${id}`;

/** The path of a trader and of a market. */
const CASES: Readonly<Record<string, (trader: string, market: number, i: number) => string>> = {
  'v1 trader': (address) => `/v1/traders/${address}`,
  'v2 trader': trader,
  'v2 positions': (address) => `${trader(address)}/positions`,
  'v2 market': (_, id) => market(id),
  'all of these in turn': (one, id, i) =>
    [`/v1/traders/${one}`, trader(one), `${trader(one)}/positions`, market(id)][i % 4] ?? '',
};

/** Medians of `rounds` rounds at each of the apis, the first of which is the one to judge. */
export async function measureHot(options: {
  readonly data: Pick<Dataset, 'traders' | 'markets'>;
  readonly apis: readonly { readonly name: string; readonly port: number }[];
  readonly headers: (i: number) => Readonly<Record<string, string>>;
  readonly rounds: number;
  readonly seconds: number;
}) {
  const { apis, data, headers, rounds, seconds } = options;
  const [traders, markets] = [data.traders, data.markets].map((all) =>
    Math.min(all.length, KEYS_MAX),
  );
  const rows = [];
  for (const exponent of EXPONENTS) {
    for (const [name, pathOf] of Object.entries(CASES)) {
      const loads = new Map<number, Load[]>(apis.map(({ port }) => [port, []]));
      for (let round = 0; round < rounds; round++) {
        for (const { port } of apis) {
          const random = new Random(`${name} ${round}`);
          const traderOf = zipf(traders ?? 0, exponent, random);
          const marketOf = zipf(markets ?? 0, exponent, random);
          const request = (i: number) => {
            const path = pathOf(at(data.traders, traderOf()), at(data.markets, marketOf()).id, i);
            return getRequest(path, headers(i));
          };
          const found = await load({ port, connections: CONNECTIONS, seconds, request });
          const failed = [...found.statuses.keys()].filter(
            (status) => ![200, 404].includes(status),
          );
          if (failed.length > 0) throw new Error(`${name}: ${failed.join()}`);
          loads.get(port)?.push(found);
        }
      }
      const [own, other] = apis.map(({ port }) => medianOf(loads.get(port) ?? []));
      if (own === undefined) throw new Error('no api');
      rows.push({
        ...{ requests: name, exponent, 'requests/s': readable(own.perSecond) },
        ...{ 'p50, ms': readable(own.p50), 'p99, ms': readable(own.p99) },
        ...(other !== undefined && {
          [`${apis[1]?.name}: requests/s`]: readable(other.perSecond),
          ...{ 'its p50': readable(other.p50), 'its p99': readable(other.p99) },
          ratio: percent(own.perSecond, other.perSecond),
        }),
      });
      console.log(Object.values(rows.at(-1) ?? {}).join('  '));
    }
  }
  return rows;
}
