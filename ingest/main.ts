/**
 * The ingest process: final blocks → LEDGER, pending matches and new blocks → FEED, metadata → both.
 * Starts alone from environment variables (infra/config.ts); after any crash it goes on where LEDGER
 * ends. It deliberately knows nothing of ClickHouse.
 */

import { Gauge, type Registry } from 'prom-client';
import { type Config, readConfig, rpcWebSocketUrl } from '../infra/config.ts';
import { createRegistry, serveMetrics } from '../infra/metrics.ts';
import { connectNats, type Nats } from '../infra/nats.ts';
import { type Kv, openKv } from '../infra/nats-kv.ts';
import { OrderedPublisher } from '../infra/nats-publisher.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { ensureStreams, INGEST_BUCKET } from '../infra/streams.ts';
import { Balances } from './balances.ts';
import { Catalogue } from './catalogue.ts';
import { CHAINS } from './chains.ts';
import { FEED_STREAM, LEDGER_STREAM, type LedgerEvent } from './contract.ts';
import { FeedWriter } from './feed.ts';
import { followFinal, publishEvent, readCursor } from './follow.ts';
import { connectGamma } from './gamma.ts';
import { Live } from './live.ts';
import { Operators } from './operators.ts';
import { connectRpc, type Rpc } from './rpc.ts';
import { subscribe } from './subscription.ts';

/** How far before the cursor the feed's ids are read back after a restart. */
const FEED_MEMORY_MS = 600_000;

await runProcess('ingest', async (context) => {
  const config = readConfig();
  const nats = await connectNats({ url: config.NATS_URL, name: 'ingest' });
  const registry = createRegistry('ingest');
  const notReady: Record<string, string> = { final: 'catching up' };
  const metrics =
    config.METRICS_PORT === undefined
      ? undefined
      : await serveMetrics({
          registry,
          host: config.METRICS_HOST,
          port: config.METRICS_PORT,
          notReady: () => (nats.connected ? notReady : { ...notReady, nats: 'not connected' }),
        });
  if (metrics !== undefined) context.report({ event: 'metrics', port: metrics.port });
  try {
    await ensureStreams(nats, config.NATS_REPLICAS);
    await ingest({ config, nats, registry, notReady }, context);
  } finally {
    await nats.close();
    await metrics?.close();
  }
});

type Given = {
  readonly config: Config;
  readonly nats: Nats;
  readonly registry: Registry;
  /** Reasons for /readyz, by part; a part removes its own when it is well. */
  readonly notReady: Record<string, string>;
};

async function ingest(
  { config, nats, registry, notReady }: Given,
  context: ProcessContext,
): Promise<void> {
  const { logger, report } = context;
  const failed = new AbortController();
  const signal = AbortSignal.any([context.signal, failed.signal]);
  const chain = CHAINS[config.CHAIN];
  const rpc = connectRpc(config.RPC_URL);
  const kv = await openKv(nats, INGEST_BUCKET, { replicas: config.NATS_REPLICAS });
  const ledger = new OrderedPublisher(nats, { stream: LEDGER_STREAM });
  const feedPublisher = new OrderedPublisher(nats, { stream: FEED_STREAM });
  const fail = (error: unknown) => failed.abort(error);
  const publish = (event: LedgerEvent) => publishEvent(ledger, event);
  const catalogue = new Catalogue({
    chain,
    gamma: connectGamma(config.GAMMA_URL, logger),
    logger,
    signal,
    onChange: (event) => void publish(event).catch(fail),
  });
  await catalogue.restore(nats);
  const balances = new Balances({
    rpc,
    token: chain.collateral,
    logger,
    signal,
    onBalance: publish,
  });
  const operators = await Operators.load(kv, config.OPERATORS);
  const feed = new FeedWriter(feedPublisher, catalogue);
  const { marker } = await readCursor(nats);
  await feed.restore(nats, marker === undefined ? 0 : marker.blockTime * 1_000 - FEED_MEMORY_MS);
  const shownFrom = await firstShownBlock(kv, rpc);
  const live = new Live({ rpc, chain, catalogue, feed, operators, logger });
  countFeed(registry, feed, live);
  const background: Promise<void>[] = [];
  const running = [
    followFinal({
      rpc,
      chain,
      finality: config.FINALITY,
      startBlock: config.START_BLOCK,
      nats,
      ledger,
      catalogue,
      balances,
      logger,
      signal,
      onBlock: (facts) => live.show(facts, shownFrom),
      onCaughtUp: (sequence) => {
        delete notReady.final;
        report({ event: 'caught_up', sequence });
        // Balances are read at the newest final block: not worth asking for before it is near.
        background.push(balances.run());
      },
    }),
    subscribe({
      url: rpcWebSocketUrl(config),
      logger,
      signal,
      onHead: (number) => live.head(number),
      onPending: (transaction) => void live.pending(transaction).catch(fail),
    }),
  ];
  try {
    await Promise.all(running);
    if (failed.signal.aborted) throw failed.signal.reason;
  } finally {
    failed.abort();
    await Promise.allSettled([...running, ...background]);
    ledger.close();
    feedPublisher.close();
  }
}

function countFeed(registry: Registry, feed: FeedWriter, live: Live): void {
  new Gauge({
    name: 'fillstream_feed_matches_shown',
    help: 'matches shown in FEED since the start, by where they were seen first',
    labelNames: ['source'],
    registers: [registry],
    collect() {
      this.set({ source: 'mempool' }, feed.shown.pending);
      this.set({ source: 'block' }, feed.shown.confirmed);
    },
  });
  new Gauge({
    name: 'fillstream_pending_calls_refused',
    help: 'pending calls that were not shown since the start, by reason',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      for (const [reason, count] of live.refused) this.set({ reason }, count);
    },
  });
}

/** The feed begins at the head of the first start: history is for the ledger alone. */
async function firstShownBlock(kv: Kv, rpc: Rpc): Promise<number> {
  const key = 'feed_start_block';
  const stored = await kv.get(key);
  if (stored !== undefined) return Number(new TextDecoder().decode(stored.value));
  const first = (await rpc.blockNumber('latest')) + 1;
  await kv.put(key, String(first));
  return first;
}
