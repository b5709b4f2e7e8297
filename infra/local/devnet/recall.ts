/**
 * Finds out from the chain what the devnet's world looks like: which markets are listed and resolved, who
 * holds what. Nothing else remembers it, so a chain that lost its last blocks is simply an earlier world.
 */
import {
  decodeEventLog,
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  toEventSelector,
} from 'viem';
import { conditionalTokensAbi } from './abi.ts';
import { CONDITIONAL_TOKENS } from './addresses.ts';
import { LIST_AHEAD_SECONDS } from './live.ts';
import { type Market, rememberTokenIds } from './markets.ts';
import type { Rpc } from './rpc.ts';
import { Sender } from './sender.ts';
import { redemptions, World, type WorldOptions } from './world.ts';

type ConditionEvent = 'ConditionPreparation' | 'ConditionResolution';
type LogEntry = {
  readonly topics: [Hex, ...Hex[]];
  readonly data: Hex;
  readonly blockTimestamp: Hex;
};

/** A killed run may have reported results without paying for them; older ones were paid. */
const UNPAID_MARKETS_MAX = 200;

/** The world at the chain's head, which must have nothing pending. */
export async function recallWorld(rpc: Rpc, options: WorldOptions): Promise<World> {
  const head = Number(await rpc.call<Hex>('eth_blockNumber'));
  const world = new World(options, `block ${head}`);
  const prepared = await conditionLogs(rpc, 'ConditionPreparation');
  const resolved = await conditionLogs(rpc, 'ConditionResolution');
  const listed = findMarkets(world, prepared);
  world.recall(listed, new Set(resolved.map((log) => log.conditionId)));
  await readTokenIds(rpc, listed);
  const wallets = world.traders.map((trader) => trader.address);
  await payForgotten(rpc, world, listed, wallets);
  await world.holdings.load(rpc, wallets, world.unresolved);
  return world;
}

/** The markets of those conditions: each was open, or about to open, when it was prepared. */
function findMarkets(
  world: World,
  prepared: readonly { readonly conditionId: Hex; readonly time: number }[],
): readonly Market[] {
  const wanted = new Set(prepared.map((log) => log.conditionId));
  const found = new Map<Hex, Market>();
  for (const time of new Set(prepared.map((log) => log.time))) {
    // A block may be mined some seconds after the market in it was chosen.
    const from = time - LIST_AHEAD_SECONDS;
    for (const market of world.calendar.between(from, time + LIST_AHEAD_SECONDS)) {
      if (wanted.has(market.conditionId)) found.set(market.conditionId, market);
    }
  }
  return [...found.values()];
}

async function readTokenIds(rpc: Rpc, markets: readonly Market[]): Promise<void> {
  const functionName = 'positionIds';
  const answers = await rpc.batch<Hex>(
    markets.map(({ conditionId }) => ({
      method: 'eth_call',
      params: [
        {
          to: CONDITIONAL_TOKENS,
          data: encodeFunctionData({
            abi: conditionalTokensAbi,
            functionName,
            args: [conditionId],
          }),
        },
        'latest',
      ],
    })),
  );
  for (const [i, { conditionId }] of markets.entries()) {
    const data = answers[i] ?? '0x';
    const ids = decodeFunctionResult({ abi: conditionalTokensAbi, functionName, data });
    rememberTokenIds(conditionId, ids);
  }
}

async function payForgotten(
  rpc: Rpc,
  world: World,
  listed: readonly Market[],
  wallets: readonly Hex[],
): Promise<void> {
  const recent = listed
    .filter((market) => world.resolved.has(market.conditionId))
    .sort((a, b) => b.resolveTime - a.resolveTime)
    .slice(0, UNPAID_MARKETS_MAX);
  await world.holdings.load(rpc, wallets, recent);
  const unpaid = recent.filter((market) => world.holdings.owners(market).length > 0);
  if (unpaid.length === 0) return;
  await new Sender(rpc).send(
    unpaid.flatMap((market) => redemptions(market, world.holdings.owners(market))),
  );
  await rpc.call('evm_mine');
}

async function conditionLogs(rpc: Rpc, eventName: ConditionEvent) {
  const item = conditionalTokensAbi.find((one) => one.type === 'event' && one.name === eventName);
  if (item?.type !== 'event') throw new TypeError(`no event ${eventName}`);
  const logs = await rpc.call<readonly LogEntry[]>('eth_getLogs', {
    address: CONDITIONAL_TOKENS,
    topics: [toEventSelector(item)],
    fromBlock: '0x0',
    toBlock: 'latest',
  });
  return logs.map(({ topics, data, blockTimestamp }) => {
    const { args } = decodeEventLog({ abi: conditionalTokensAbi, eventName, topics, data });
    return { conditionId: args.conditionId, time: Number(blockTimestamp) };
  });
}
