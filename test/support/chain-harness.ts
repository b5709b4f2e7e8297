/**
 * Shared by the tests of the final follower: a devnet that mines on request, endpoints in front of
 * it that misbehave on purpose, ingest as a process, and LEDGER next to the chain's own logs.
 */
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { readRange } from '../../ingest/chain/block-range.ts';
import { factsOf } from '../../ingest/chain/blocks.ts';
import { connectRpc } from '../../ingest/chain/rpc.ts';
import type { LedgerEvent } from '../../ingest/contract.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { BlockMovements } from '../../ingest/events/shares/block-movements.ts';
import { structuredId } from '../../ingest/events/structured-ids.ts';
import { TokenMap } from '../../ingest/events/token-ids.ts';
import { type Block, type BlockRange, storedMessages } from '../../ingest/ledger/ledger.ts';
import { openDevnet } from '../../local/devnet/devnet.ts';
import { Sender } from '../../local/devnet/rpc.ts';
import type { PlannedMatch, World } from '../../local/devnet/world.ts';
import { freePort } from '../../local/ports.ts';
import { rpc } from './service.ts';

export const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'devnet' }));

/** A devnet with a short history that mines only when `mine` is called. */
export async function startStillDevnet(
  directory: string,
  matches: number,
  given?: { readonly rpcPort: number; readonly gammaPort: number },
) {
  const ports = given ?? { rpcPort: await freePort(), gammaPort: await freePort() };
  mkdirSync(directory, { recursive: true });
  const devnet = await openDevnet({
    directory,
    ...ports,
    seed: 7,
    traders: 40,
    historyDays: 3,
    historyMatches: matches,
    blockTimeSeconds: 0,
    matchesPerSecond: 0,
    now: Date.now,
    report: () => undefined,
  });
  const { world } = devnet;
  const sender = new Sender(devnet.chain.rpc);
  const { url } = devnet.chain;
  const portOf = (one: string) => Number(new URL(one).port);
  return {
    url,
    /** For a devnet that is started again in its place. */
    ports: { rpcPort: portOf(url), gammaPort: portOf(devnet.gammaUrl) },
    /** kill −9 of anvil, once what it has mined is on the disk; resolves when all of it is gone. */
    async kill(): Promise<void> {
      await devnet.record();
      process.kill(devnet.chain.pid, 'SIGKILL');
      await devnet.ended;
      await devnet.close();
    },
    env: { RPC_URL: url, GAMMA_URL: devnet.gammaUrl, CHAIN: 'devnet', MEMPOOL: 'off' },
    call: <T>(method: string, ...params: unknown[]) => devnet.chain.rpc.call<T>(method, ...params),
    async mine(blocks: number): Promise<void> {
      for (let i = 0; i < blocks; i++) await devnet.chain.rpc.call('evm_mine');
    },
    /** Sends a transaction of any wallet, for the next block. */
    async send(from: `0x${string}`, to: `0x${string}`, data: `0x${string}`): Promise<void> {
      await devnet.chain.rpc.call('anvil_impersonateAccount', from);
      await sender.send([{ from, to, data }]);
    },
    /** The wallets that trade. */
    traders: world.traders.map(({ address }) => address),
    /** After transactions that the devnet did not plan: reads what its traders have. Nothing may be pending. */
    reload: () =>
      world.holdings.load(
        devnet.chain.rpc,
        world.traders.map(({ address }) => address),
        world.unresolved,
      ),
    /** Sends one match, for the next block; resolves with its transaction. */
    async trade(): Promise<string> {
      const [hash = ''] = await sender.send([(await planMatch(world, sender)).transaction]);
      return hash;
    },
    async number(tag: string): Promise<number> {
      const block = await rpc<{ number: string }>(url, 'eth_getBlockByNumber', [tag, false]);
      return Number(block.number);
    },
    close: () => devnet.close(),
  };
}
export type StillDevnet = Awaited<ReturnType<typeof startStillDevnet>>;

/** Books a match that the exchange will execute; its market is listed at once. */
export async function planMatch(world: World, sender: Sender): Promise<PlannedMatch> {
  for (;;) {
    const now = Date.now();
    const market = world.chooseMarket(world.chooseTopic(), Math.floor(now / 1_000));
    if (market === undefined) continue;
    await sender.send(world.list([market]));
    const planned = world.match(market, now);
    if (planned !== undefined) return planned;
  }
}

/** The blocks up to this one that have events, with movements, read in one go. */
export async function blocksWithMovements(
  url: string,
  to: number,
): Promise<readonly { readonly number: number; readonly events: readonly LedgerEvent[] }[]> {
  const chain = chainOf(readConfig(IngestConfig, { CHAIN: 'devnet', MOVEMENTS: 'on' }));
  if (chain.shares === undefined) throw new Error('movements are off');
  const movements = new BlockMovements(chain.shares, chain.exchanges);
  const tokens = new TokenMap(chain, pino({ level: 'silent' }));
  const markets = {
    outcomeOf: (conditionId: string, token: string, exchange: string) =>
      tokens.outcomeOf(conditionId, token, exchange),
    conditionOfToken: async (token: string) => structuredId(token)?.conditionId,
  };
  const { blocks } = await readRange({ rpc: connectRpc(url, { chainId: chain.id }), chain }, 0, to);
  const found = [];
  for (const { raw } of blocks) {
    if (raw === undefined) continue;
    const { block, events, shares } = await factsOf(raw, chain, markets);
    const at = { blockNumber: block.number, blockTime: block.timestamp };
    found.push({ number: block.number, events: movements.complete({ ...at, events, shares }) });
  }
  return found;
}

/**
 * Places of LEDGER's matches and resolutions in stream order, the blocks that its ranges list, and how many of the
 * facts are earlier resolutions, known up to which block. Throws unless every range follows the one before it.
 */
export async function factsOfLedger(nats: Nats) {
  const facts: string[] = [];
  const blocks: Block[] = [];
  const ranges: BlockRange[] = [];
  const earlier = { facts: 0, to: -1 };
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    for (const block of range.blocks) {
      for (const { kind, txHash, logIndex } of block.events) {
        if (kind !== 'match' && kind !== 'resolution') continue;
        facts.push(`${block.number}:${txHash}:${logIndex}`);
      }
    }
    if (range.kind === 'earlier-resolutions') {
      earlier.facts = facts.length;
      earlier.to = range.to;
      continue;
    }
    const last = blocks.at(-1);
    const follows =
      last === undefined || (range.from === last.number + 1 && range.parentHash === last.hash);
    if (!follows) throw new Error(`block ${range.from} does not follow block ${last.number}`);
    ranges.push(range);
    blocks.push(...range.blocks);
  }
  return { facts, blocks, ranges, earlier };
}

export type Call = { readonly id: number; readonly method: string; readonly params: unknown[] };
export type Reply = { readonly id: number; result?: unknown; error?: unknown };
/** The response of an endpoint: a JSON body, or raw text with status and headers. */
export type Misbehave = (calls: readonly Call[], replies: Reply[]) => Changed | Promise<Changed>;
type Changed = readonly Reply[] | Raw | undefined;
type Raw = {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly text: string;
};

/** An endpoint in front of `target`; `misbehave` may change each response, and undefined leaves it unchanged. */
export async function startEndpoint(target: string, misbehave: Misbehave) {
  let asked = 0;
  const server = createServer(async (request, response) => {
    asked += 1;
    const body = (await buffer(request)).toString();
    // A client that was stopped meanwhile.
    if (body === '') return void response.destroy();
    const parsed = JSON.parse(body);
    const calls: Call[] = Array.isArray(parsed) ? parsed : [parsed];
    const headers = { 'content-type': 'application/json' };
    const answer = await (await fetch(target, { method: 'POST', headers, body })).json();
    const replies = (Array.isArray(answer) ? answer : [answer]) as Reply[];
    const changed = await misbehave(calls, replies);
    if (changed !== undefined && 'text' in changed) {
      response.writeHead(changed.status ?? 200, { ...headers, ...changed.headers });
      response.end(changed.text);
      return;
    }
    const given = changed ?? replies;
    response.writeHead(200, headers);
    response.end(JSON.stringify(Array.isArray(parsed) ? given : given[0]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get asked() {
      return asked;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** For `startEndpoint`: changes the results of one method. */
export function results(method: string, change: (result: never, call: Call) => unknown): Misbehave {
  return (calls, replies) =>
    replies.map((reply): Reply => {
      const call = calls.find(({ id }) => id === reply.id);
      if (call?.method !== method) return reply;
      return { id: reply.id, result: change(reply.result as never, call) };
    });
}
