/**
 * Part `saturation` of `npm run bench:api`: a mix of uncached requests by 1 to 64 connections, to one api and to two at the
 * same ClickHouse. The processor time of each side says which one is full first. With two apis, each gets half of the connections.
 */
import { type Case, casesOf } from './endpoint-calls.ts';
import { cpuSeconds } from './feed-targets.ts';
import type { Dataset } from './fills.ts';
import { getRequest, type Load, load } from './load.ts';
import { median, readable } from './report.ts';

const CONNECTIONS = [1, 4, 16, 64];
const MIX = [
  ...['v2 leaderboard 7D', 'v2 trader', 'v2 positions', 'v2 trades of a trader'],
  ...['v2 market by condition', 'v2 trades of a market', 'v2 markets'],
];
/** Nothing of an api is compiled when it starts. */
const WARM_SECONDS = 5;

export type Server = { readonly port: number; readonly pid: number };

type Round = { readonly loads: readonly Load[]; readonly api: number; readonly store: number };

/** Medians of the rounds; one api and two by turns. */
export async function measureSaturation(options: {
  readonly data: Dataset;
  readonly apis: readonly [Server, Server];
  readonly storePid: number;
  readonly headers: (i: number) => Readonly<Record<string, string>>;
  readonly rounds: number;
  readonly seconds: number;
}) {
  const { data, apis, storePid, headers, seconds } = options;
  const cases = MIX.map((name) => caseOf(casesOf(data), name));
  let asked = 0;
  // Goes through all different requests before it repeats one, so few are answered from a cache.
  const request = () => {
    const i = asked++;
    const one = cases[i % cases.length];
    return getRequest(one?.ask(Math.floor(i / cases.length)) ?? '/', headers(i));
  };
  const run = async (servers: readonly Server[], connections: number, forSeconds: number) => {
    const before = [sum(servers), cpuSeconds(storePid)] as const;
    const startedAtMs = performance.now();
    const loads = await Promise.all(
      servers.map(({ port }) =>
        load({
          ...{ port, request, seconds: forSeconds },
          connections: connections / servers.length,
        }),
      ),
    );
    const elapsed = (performance.now() - startedAtMs) / 1_000;
    const [api, store] = [sum(servers) - before[0], cpuSeconds(storePid) - before[1]];
    return { loads, api: api / elapsed, store: store / elapsed } satisfies Round;
  };
  await run(apis, 2, WARM_SECONDS);
  const rows = [];
  for (const connections of CONNECTIONS) {
    // One connection is to one api.
    const counts = connections === 1 ? [1] : [1, 2];
    const rounds = new Map<number, Round[]>(counts.map((count) => [count, []]));
    for (let round = 0; round < options.rounds; round++) {
      for (const [count, found] of rounds) {
        found.push(await run(apis.slice(0, count), connections, seconds));
      }
    }
    for (const [count, found] of rounds) {
      const of = (figure: (round: Round) => number) => median(found.map(figure));
      const perSecond = of(({ loads }) => loads.reduce((all, one) => all + one.perSecond, 0));
      rows.push({
        ...{ connections, apis: count, 'requests/s': readable(perSecond) },
        'p50, ms': readable(of(({ loads }) => Math.max(...loads.map(({ p50 }) => p50)))),
        'p99, ms': readable(of(({ loads }) => Math.max(...loads.map(({ p99 }) => p99)))),
        'cores of the apis': readable(of(({ api }) => api)),
        'of ClickHouse': readable(of(({ store }) => store)),
        'ms of the apis a request': readable((of(({ api }) => api) / perSecond) * 1_000),
        'of ClickHouse, ms': readable((of(({ store }) => store) / perSecond) * 1_000),
        refused: refusedOf(found),
      });
      console.log(Object.values(rows.at(-1) ?? {}).join('  '));
    }
  }
  return rows;
}

function caseOf(cases: readonly Case[], name: string): Case {
  const found = cases.find((one) => one.name === name);
  if (found === undefined) throw new RangeError(`no case ${name}`);
  return found;
}

const sum = (servers: readonly Server[]) =>
  servers.reduce((all, { pid }) => all + cpuSeconds(pid), 0);

/** Responses with 503, which a store without room gives. Throws if there is any other failure. */
function refusedOf(rounds: readonly Round[]): number {
  const statuses = rounds.flatMap(({ loads }) => loads.flatMap((one) => [...one.statuses]));
  const wrong = statuses.filter(([status]) => ![200, 404, 503].includes(status));
  if (wrong.length > 0) throw new Error(wrong.map((one) => one.join(' × ')).join());
  return statuses.reduce((all, [status, count]) => (status === 503 ? all + count : all), 0);
}
