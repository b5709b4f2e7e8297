/**
 * The time from the node's report that a block is final until the api shows the trade in the positions of the taker of
 * its last match: the whole service of `npm start`, one match a block.
 */
import {
  rpc,
  type Service,
  startService,
  temporaryDirectory,
  until,
} from '../../support/service.ts';
import { blockNumber, chainFacts } from '../faults/chain-facts.ts';

type Positions = {
  readonly positions: readonly { readonly last_trade_at: string }[];
  readonly next_cursor: string;
};

/** Milliseconds of each match in these seconds. */
export async function measurePositions(matchesPerSecond: number, seconds: number) {
  const directory = temporaryDirectory();
  const args = ['--demo-rate', String(matchesPerSecond)];
  const service = await startService(directory.path, { args });
  const { rpc_url: url } = service.ready;
  const took: number[] = [];
  try {
    let known = await blockNumber(url, 'finalized');
    for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
      const final = await until(async () => {
        const number = await blockNumber(url, 'finalized');
        return number > known ? number : undefined;
      });
      const since = performance.now();
      const facts = await chainFacts(url, known + 1, final);
      const last = facts.findLast((one) => one.kind === 'match');
      known = final;
      if (last === undefined) continue;
      const params = [`0x${last.block.toString(16)}`, false];
      const { timestamp } = await rpc<{ timestamp: string }>(url, 'eth_getBlockByNumber', params);
      const taker = last.fills.at(-1)?.trader ?? '';
      await until(() => isShown(service, taker, Number(timestamp) * 1_000));
      took.push(performance.now() - since);
    }
  } finally {
    await service.up.stop();
    directory.remove();
  }
  return took;
}

async function isShown(service: Service, taker: string, atMs: number): Promise<true | undefined> {
  for (let next: string | undefined; next !== ''; ) {
    const cursor = next === undefined ? '' : `&cursor=${next}`;
    const query = `status=all&sort_by=age&order=asc&limit=100${cursor}`;
    const page: Positions = await service.get(`/v2/traders/${taker}/positions?${query}`);
    if (page.positions.some((one) => Date.parse(one.last_trade_at) === atMs)) return true;
    next = page.next_cursor;
  }
  return undefined;
}
