/**
 * Shared by the mempool tests: anvil with the exchange's contracts that mines on request, matches
 * to send, and the live side of ingest on a real nats-server, which a test can start and stop at
 * will. Final blocks are read manually, so that the test controls when ingest sees them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import { Registry } from 'prom-client';
import type { Hex } from 'viem';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import { factsOf, readBlock } from '../../ingest/chain/blocks.ts';
import { connectRpc } from '../../ingest/chain/rpc.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { LedgerWriter } from '../../ingest/ledger/ledger-writer.ts';
import { Gamma } from '../../ingest/metadata/gamma.ts';
import { Metadata } from '../../ingest/metadata/metadata.ts';
import { pendingMetrics, setSource } from '../../ingest/metrics.ts';
import { FeedWriter } from '../../ingest/pending/feed.ts';
import {
  connectMempoolNode,
  type MempoolSetting,
  type MempoolSource,
  Subscription,
} from '../../ingest/pending/mempool.ts';
import { Operators } from '../../ingest/pending/operators.ts';
import { followOther, PendingMatches, restoreFeed } from '../../ingest/pending/pending.ts';
import { PendingFeed } from '../../ingest/pending/pending-feed.ts';
import { ensureStreams, INGEST_BUCKET } from '../../ingest/streams.ts';
import { openDevnet } from '../../local/devnet/devnet.ts';
import { encodeMatch } from '../../local/devnet/orders.ts';
import { Sender, type Transaction } from '../../local/devnet/rpc.ts';
import type { PlannedMatch } from '../../local/devnet/world.ts';
import { planMatch } from './chain-harness.ts';

const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'devnet' }));
export const SECONDS_MAX = 120;
const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });

export type Network = Awaited<ReturnType<typeof startNetwork>>;

/** A devnet with a short history; only the test sends and mines. */
export async function startNetwork(seed: number) {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-mempool-'));
  const devnet = await openDevnet({
    directory,
    rpcPort: 0,
    gammaPort: 0,
    seed,
    traders: 40,
    historyDays: 0.5,
    historyMatches: 60,
    blockTimeSeconds: 0,
    matchesPerSecond: 0,
    now: Date.now,
    report: () => undefined,
  });
  const { chain, world, gammaUrl } = devnet;
  const sender = new Sender(chain.rpc);
  const number = async (tag: string) =>
    Number((await chain.rpc.call<{ number: Hex }>('eth_getBlockByNumber', tag, false)).number);
  return {
    rpc: chain.rpc,
    url: chain.url,
    webSocketUrl: chain.webSocketUrl,
    gammaUrl,
    number,
    /** Books a match that the exchange will execute; the market is listed at once. */
    plan: () => planMatch(world, sender),
    /** Books a match as `plan` does, without anything on the chain. */
    book(): PlannedMatch {
      for (;;) {
        const now = Date.now();
        const market = world.chooseMarket(world.chooseTopic(), Math.floor(now / 1_000));
        const planned = market === undefined ? undefined : world.match(market, now);
        if (planned !== undefined) return planned;
      }
    },
    async send(transaction: Transaction): Promise<Hex> {
      const [hash] = await sender.send([transaction]);
      if (hash === undefined) throw new Error('nothing was sent');
      return hash;
    },
    /** Reads all holdings from the chain again, because a booked match was not executed. */
    reload: () =>
      world.holdings.load(
        chain.rpc,
        world.traders.map(({ address }) => address),
        world.unresolved,
      ),
    /** Mines the pending transactions and then empty blocks; with three, everything is final. */
    async mine(blocks = 3): Promise<void> {
      for (let i = 0; i < blocks; i++) await chain.rpc.call('evm_mine');
    },
    /** Advances the chain's time by this many seconds with the next block. */
    async pass(seconds: number): Promise<void> {
      const latest = await chain.rpc.call<{ timestamp: Hex }>(
        'eth_getBlockByNumber',
        'latest',
        false,
      );
      await chain.rpc.call('evm_setNextBlockTimestamp', Number(latest.timestamp) + seconds);
      await chain.rpc.call('evm_mine');
    },
    async close() {
      await devnet.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A match that an operator sends and the exchange rejects, because its taker owns nothing. */
export function unpayable({ match, transaction }: PlannedMatch): Transaction {
  const poor = `0x${'99'.repeat(20)}` as Hex;
  const takerOrder = { ...match.takerOrder, maker: poor, signer: poor, salt: 1n };
  return { ...transaction, data: encodeMatch({ ...match, takerOrder }) };
}

export type Life = Awaited<ReturnType<typeof startLife>>;

/** One run of the live side, assembled as in ingest/main.ts, but with the final blocks read manually. */
export async function startLife(
  nats: Nats,
  network: Network,
  options: {
    readonly setting?: MempoolSetting;
    readonly url?: string;
    readonly webSocketUrl?: string;
    readonly operators?: readonly string[];
    readonly gammaUrl?: string;
  } = {},
) {
  await ensureStreams(nats, 1);
  const ending = new AbortController();
  const { signal } = ending;
  const registry = new Registry();
  const metrics = pendingMetrics(registry);
  const url = options.url ?? network.url;
  const rpc = connectRpc(url);
  const node = connectMempoolNode(url);
  const kv = await openKv(nats, INGEST_BUCKET);
  const feedWriter = await openWriter(nats, {
    stream: FEED_STREAM,
    onForeign: (message) => followOther(message, feed, pending),
  });
  const ledger = await LedgerWriter.open(nats);
  const gamma = new Gamma({ url: options.gammaUrl ?? network.gammaUrl, logger, signal });
  const metadata = new Metadata({
    chain: CHAIN,
    gamma,
    logger,
    signal,
    onChange: () => Promise.resolve(),
  });
  const operators = await Operators.load(kv, options.operators ?? []);
  const feed = new FeedWriter(feedWriter, metadata);
  const pending = new PendingMatches({ feed, node, secondsMax: SECONDS_MAX, metrics, logger });
  await restoreFeed(nats, Date.now() - 600_000, feed, pending);
  let next = Number(new TextDecoder().decode((await kv.get('test_next'))?.value)) || 0;
  if (next === 0) next = (await network.number('finalized')) + 1;
  const live = new PendingFeed({
    marketOf: (conditionId) => conditionId,
    heldBlock: next - 1,
    ...{ rpc, chain: CHAIN, metadata, feed, operators, pending, metrics, logger, signal },
    onMissed: () => subscription.missed(),
  });
  const failures: unknown[] = [];
  const heads = new Set<number>();
  const subscription = new Subscription({
    urls: (options.webSocketUrl ?? network.webSocketUrl).split(','),
    node,
    setting: options.setting ?? 'auto',
    exchanges: new Set(CHAIN.exchanges.keys()),
    logger,
    signal,
    onHead: (number) => {
      heads.add(number);
      live.head(number);
    },
    onPending: (transaction, source) =>
      void live.pending(transaction, source).catch((error) => failures.push(error)),
    onSource: (source) => setSource(metrics, source),
    onDropped: (reason) => metrics.dropped.inc({ reason }),
  });
  const startedAt = await network.number('latest');
  const running = subscription.run();
  /** Resolves when the live side has read the newest block, or there was none since its start. */
  async function headRead(): Promise<void> {
    const head = await network.number('latest');
    if (head === startedAt) return;
    while (((await metrics.head.get()).values[0]?.value ?? 0) < head) await delay(10);
  }
  return {
    live,
    pending,
    operators,
    subscription,
    heads,
    failures,
    /** Reads the blocks that are final by now, as the follower does. */
    async advance(): Promise<void> {
      // The time limit of a shown match starts with a head, so a head must have been read.
      await headRead();
      await this.finals();
      await pending.judge();
    },
    /** As `advance`, without the heads. */
    async finals(): Promise<void> {
      const final = await network.number('finalized');
      for (; next <= final; next += 1) {
        const raw = await readBlock(rpc, CHAIN, next);
        if (raw === undefined) throw new Error(`no block ${next}`);
        const facts = await factsOf(raw, CHAIN, metadata);
        await live.final(facts, 0);
        await ledger.add({ head: facts.block, facts });
        await ledger.flush();
        await kv.put('test_next', String(next + 1));
      }
    },
    headRead,
    /** Pauses for a moment, so that external events can be processed. */
    tick: () => delay(5),
    /** Resolves when pending transactions arrive from this source. */
    async uses(source: MempoolSource): Promise<void> {
      while (subscription.source !== source) await delay(5);
    },
    /** Value of a metric with these labels; 0 where there is none. */
    async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
      const found = await registry.getSingleMetric(`fillstream_${name}`)?.get();
      const value = found?.values.find((one) =>
        Object.entries(labels).every(([key, wanted]) => one.labels[key] === wanted),
      );
      return value?.value ?? 0;
    },
    /** Stops at once, like a kill: does not wait for acknowledgements. */
    async stop(): Promise<void> {
      ending.abort();
      await running;
      feedWriter.close();
      ledger.close();
    },
  };
}
