/**
 * The ingest process: final blocks → LEDGER, pending matches and new blocks → FEED, metadata →
 * METADATA.
 * Starts alone from environment variables (infra/config.ts) and the commands of cli.ts; after any
 * crash it goes on where LEDGER ends. It deliberately knows nothing of ClickHouse.
 */

import type { Registry } from 'prom-client';
import { IngestConfig, readConfig, rpcWebSocketUrls } from '../infra/config.ts';
import { createRegistry, serveMetrics } from '../infra/metrics.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { openWriter } from '../infra/nats/writer.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { Balances } from './balances.ts';
import { patiently } from './block-range.ts';
import { chainOf } from './chains.ts';
import { type Command, HELP, readCommand, UsageError } from './cli.ts';
import { FEED_STREAM, METADATA_STREAM, type MetadataEvent } from './contract.ts';
import { FeedWriter } from './feed.ts';
import { FinalReorgError, followFinal } from './final-blocks.ts';
import { connectGamma } from './gamma.ts';
import { LEDGER_STREAM, UnreadableLedgerError } from './ledger.ts';
import {
  LedgerFencedError,
  LedgerStateError,
  LedgerWriter,
  readEnd,
  settleStart,
} from './ledger-writer.ts';
import { connectMempoolNode, Subscription } from './mempool.ts';
import { Metadata } from './metadata.ts';
import { MetadataPublisher } from './metadata-stream.ts';
import {
  countBalances,
  countMetadata,
  countWriters,
  FollowProgress,
  pendingMetrics,
  Readiness,
  setSource,
} from './metrics.ts';
import { Operators } from './operators.ts';
import { PendingMatches, restoreFeed } from './pending.ts';
import { PendingFeed } from './pending-feed.ts';
import { planRewind, refuseHalfRewound, rewind } from './rewind.ts';
import { connectRpc } from './rpc.ts';
import { ensureStreams, INGEST_BUCKET } from './streams.ts';

/** How far before the cursor the feed's ids are read back after a restart. */
const FEED_MEMORY_MS = 600_000;

/** Exit code when a final block was replaced: somebody has to decide. See docs/operations.md. */
const FINAL_REORG_CODE = 3;
const USAGE_CODE = 2;

const command = commandLine();
if (command.name === 'help') process.stdout.write(HELP);
else await runProcess('ingest', (context) => run(command, context));

function commandLine(): Command {
  try {
    return readCommand(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`ingest: ${error.message}\nSee --help.\n`);
    process.exit(USAGE_CODE);
  }
}

async function run(command: Command, context: ProcessContext): Promise<void> {
  const config = readConfig(IngestConfig);
  const { logger, signal } = context;
  const registry = createRegistry('ingest');
  const readiness = new Readiness();
  const metrics =
    config.METRICS_PORT === undefined || command.name === 'rewind'
      ? undefined
      : await serveMetrics({
          registry,
          host: config.METRICS_HOST,
          port: config.METRICS_PORT,
          notReady: () => readiness.notReady,
        });
  if (metrics !== undefined) context.report({ event: 'metrics', port: metrics.port });
  let nats: Nats | undefined;
  try {
    // It waits for the first server; a stop does not.
    nats = await Promise.race([
      connectNats({
        ...natsOptions(config),
        name: 'ingest',
        onWait: (err) => logger.warn({ err }, 'NATS cannot be reached, waiting'),
      }),
      aborted(signal),
    ]);
    const connected = nats;
    readiness.connected(connected);
    const kv = await patiently({ logger, signal }, 'streams', () => openStreams(connected, config));
    if (command.name === 'rewind') await runRewind(connected, kv, command);
    else await ingest({ command, config, nats: connected, kv, registry, readiness }, context);
  } catch (error) {
    if (error instanceof FinalReorgError) {
      context.logger.fatal({ err: error }, 'ALARM: a final block was replaced, ingest stops');
      process.exit(FINAL_REORG_CODE);
    }
    if (
      error instanceof LedgerStateError ||
      error instanceof LedgerFencedError ||
      error instanceof UnreadableLedgerError
    ) {
      process.stderr.write(`ingest: ${error.message}\n`);
      process.exit(1);
    }
    throw error;
  } finally {
    await nats?.close();
    await metrics?.close();
  }
}

async function openStreams(nats: Nats, { NATS_REPLICAS: replicas }: IngestConfig): Promise<Kv> {
  await ensureStreams(nats, replicas);
  return openKv(nats, INGEST_BUCKET, { replicas });
}

/** Rejects when the signal aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

async function runRewind(
  nats: Nats,
  kv: Kv,
  { toBlock, yes }: Extract<Command, { name: 'rewind' }>,
): Promise<void> {
  const plan = await planRewind(nats, toBlock);
  const { keeps, newest, removed } = plan;
  const counts = Object.entries(removed).map(([kind, count]) => `${count} ${kind}`);
  process.stdout.write(
    `LEDGER keeps everything up to block ${keeps.number} (${keeps.hash}).\n` +
      `Removed: the blocks after it, up to ${newest}: ${counts.join(', ')}.\n`,
  );
  if (!yes) {
    process.stdout.write('Nothing was removed: say --yes. The projections must be rebuilt then.\n');
    return;
  }
  await rewind(nats, kv, plan);
  process.stdout.write('Removed. Rebuild the projections before the projector starts again.\n');
}

type Given = {
  readonly command: Command;
  readonly config: IngestConfig;
  readonly nats: Nats;
  readonly kv: Kv;
  readonly registry: Registry;
  readonly readiness: Readiness;
};

async function ingest(
  { command, config, nats, kv, registry, readiness }: Given,
  context: ProcessContext,
): Promise<void> {
  const { logger, report } = context;
  const failed = new AbortController();
  const signal = AbortSignal.any([context.signal, failed.signal]);
  const backfill = command.name === 'backfill' ? command : undefined;
  const toBlock = backfill?.toBlock;
  const chain = chainOf(config);
  // NATS may go away in the middle of the start: each step is repeated until it answers again.
  const step = <T>(what: string, attempt: () => Promise<T>) =>
    patiently({ logger, signal }, what, attempt);
  await step('rewind', () => refuseHalfRewound(kv));
  const startBlock = await step('start', () =>
    settleStart(nats, kv, {
      startBlock: backfill?.fromBlock ?? config.START_BLOCK,
      insists: backfill !== undefined,
    }),
  );
  const rpc = connectRpc(config.RPC_URL, { chainId: chain.id, registry, logger });
  const progress = new FollowProgress({ logger, registry, notReady: readiness.reasons });
  const ledger = await step('ledger', () => LedgerWriter.open(nats));
  const feedWriter = await step('feed writer', () =>
    openWriter(nats, {
      stream: FEED_STREAM,
      onForeign: ({ messageId }) => feed.remember(messageId),
    }),
  );
  const metadataPublisher = new MetadataPublisher(nats, signal);
  const writers = {
    [LEDGER_STREAM]: ledger,
    [FEED_STREAM]: feedWriter,
    [METADATA_STREAM]: metadataPublisher,
  };
  countWriters(registry, writers);
  readiness.writing(writers);
  const fail = (error: unknown) => failed.abort(error);
  const publish = (event: MetadataEvent) => metadataPublisher.publish(event);
  const gamma = connectGamma({ url: config.GAMMA_URL, logger, signal });
  const metadata = new Metadata({
    chain,
    gamma,
    logger,
    signal,
    onChange: (event) => publish(event).catch(fail),
  });
  await step('metadata', () => metadata.restore(nats));
  countMetadata(registry, metadata, gamma);
  void metadata.run().catch(fail);
  const balances = new Balances({
    rpc,
    token: chain.collateral,
    logger,
    signal,
    onBalance: publish,
  });
  countBalances(registry, balances);
  const operators = await step('operators', () => Operators.load(kv, config.OPERATORS));
  const feed = new FeedWriter(feedWriter, metadata);
  const metrics = pendingMetrics(registry);
  const node = connectMempoolNode(config.RPC_URL);
  const pending = new PendingMatches({
    feed,
    node,
    secondsMax: config.PENDING_SECONDS_MAX,
    metrics,
    logger,
  });
  const { block: newest, storedAtMs } = await step('end of LEDGER', () => readEnd(nats));
  // As far back as a match that was shown may still be open.
  const memoryMs = FEED_MEMORY_MS + config.PENDING_SECONDS_MAX * 1_000;
  // By the chain's clock or by the server's, whichever is behind.
  const sinceMs = Math.min((newest?.time ?? 0) * 1_000, storedAtMs) - memoryMs;
  await step('feed', () => restoreFeed(nats, Math.max(sinceMs, 0), feed, pending));
  // A backfill that ends shows nothing: the feed begins when ingest first lives at the head.
  const shownFrom =
    toBlock === undefined
      ? await patiently({ logger, signal, onAnswer: progress.answered }, 'head', () =>
          firstShownBlock(kv, () => rpc.blockNumber('latest')),
        )
      : Number.POSITIVE_INFINITY;
  const pendingFeed = new PendingFeed({
    rpc,
    chain,
    metadata,
    feed,
    operators,
    pending,
    metrics,
    logger,
    signal,
    heldBlock: newest?.number ?? -1,
    onMissed: () => subscription.missed(),
  });
  const subscription = new Subscription({
    urls: rpcWebSocketUrls(config),
    node,
    setting: config.MEMPOOL,
    exchanges: new Set(chain.exchanges.keys()),
    logger,
    signal,
    onHead: (number) => pendingFeed.head(number),
    onPending: (transaction, source) => void pendingFeed.pending(transaction, source).catch(fail),
    onSource: (source) => setSource(metrics, source),
    onDropped: (reason, count) => metrics.dropped.inc({ reason }, count),
  });
  const background: Promise<void>[] = [];
  report({ event: 'following' });
  const running = [
    followFinal({
      rpc,
      chain,
      finality: config.FINALITY,
      startBlock,
      resolutionsFrom:
        backfill?.resolutionsFrom ?? config.RESOLUTIONS_FROM_BLOCK ?? chain.firstBlock,
      ...(toBlock === undefined ? {} : { toBlock }),
      nats,
      ledger,
      metadata,
      balances,
      progress,
      logger,
      signal,
      onBlock: (facts) => pendingFeed.final(facts, shownFrom),
      onCaughtUp: (block) => {
        report({ event: 'caught_up', block });
        // Balances are read at the newest final block: not worth asking for before it is near.
        background.push(balances.run());
      },
    }),
    ...(toBlock === undefined ? [subscription.run(), pending.run(signal)] : []),
  ];
  try {
    await Promise.all(running);
    if (failed.signal.aborted) throw failed.signal.reason;
  } finally {
    failed.abort();
    await Promise.allSettled([...running, ...background]);
    ledger.close();
    feedWriter.close();
  }
}

/** The feed begins at the head of the first start: history is for the ledger alone. */
async function firstShownBlock(kv: Kv, head: () => Promise<number>): Promise<number> {
  const key = 'feed_start_block';
  const stored = await kv.get(key);
  if (stored !== undefined) return Number(new TextDecoder().decode(stored.value));
  const first = (await head()) + 1;
  await kv.put(key, String(first));
  return first;
}
