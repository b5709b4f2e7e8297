/**
 * The ingest process: final blocks → LEDGER, pending matches and new blocks → FEED, metadata → METADATA.
 * Configuration comes from environment variables (infra/config.ts) and the commands of cli.ts. After a crash it
 * resumes at the end of LEDGER. It does not use ClickHouse.
 */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { IngestConfig, readConfig, rpcWebSocketUrls } from '../infra/config.ts';
import { diskReasons } from '../infra/disk.ts';
import { UsageError } from '../infra/expected.ts';
import { createRegistry, serveMetricsOf } from '../infra/metrics-server.ts';
import { connectNats, type Nats, natsOptions, oldServerNotice } from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { lastMessage, StreamDamagedError, type StreamMessage } from '../infra/nats/reader.ts';
import { reportState } from '../infra/nats/states.ts';
import { openWriter, type StreamWriter } from '../infra/nats/writer.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { Balances } from './chain/balances.ts';
import { retryReads } from './chain/block-range.ts';
import { connectRpc, type Rpc } from './chain/rpc.ts';
import { SampledShares } from './chain/share-balances.ts';
import { UnknownEvents } from './chain/unknown-events.ts';
import { UnwatchedFlow } from './chain/unwatched-flow.ts';
import { type Command, HELP, readCommand } from './cli.ts';
import {
  FEED_FINAL_SUBJECT,
  FEED_STREAM,
  type Hash,
  METADATA_STREAM,
  type MetadataEvent,
} from './contract.ts';
import { type Chain, chainOf } from './events/chains.ts';
import { BlockMovements } from './events/shares/block-movements.ts';
import type { KnownMarkets } from './events/shares/known-markets.ts';
import { FinalReorgError, writeFinalBlocks } from './final-blocks.ts';
import {
  type BlockRange,
  eventsOf,
  LEDGER_STREAM,
  storedMessages,
  UnreadableLedgerError,
} from './ledger/ledger.ts';
import {
  type LedgerEnd,
  LedgerFencedError,
  LedgerStateError,
  LedgerWriter,
  readEnd,
  refuseHalfRewound,
  settleStart,
} from './ledger/ledger-writer.ts';
import { MarketSnapshots } from './ledger/market-snapshots.ts';
import { WholeLedger } from './ledger/whole-ledger.ts';
import { Gamma } from './metadata/gamma.ts';
import { Metadata } from './metadata/metadata.ts';
import { storeMetadata } from './metadata/metadata-stream.ts';
import {
  countBalances,
  countMetadata,
  countShares,
  countUnknown,
  countWriters,
  pendingMetrics,
  setSource,
} from './metrics.ts';
import { FeedWriter } from './pending/feed.ts';
import { connectMempoolNode, Subscription } from './pending/mempool.ts';
import { Operators } from './pending/operators.ts';
import { decoded, followOther, PendingMatches, restoreFeed } from './pending/pending.ts';
import { PendingFeed } from './pending/pending-feed.ts';
import { FinalBlocksProgress, Readiness } from './progress.ts';
import { ensureStreams, FEED_START_KEY, INGEST_BUCKET, MOVEMENTS_START_KEY } from './streams.ts';

/** After a restart, the feed's ids are read back from this long before the end of LEDGER. */
const FEED_MEMORY_MS = 600_000;

/** Progress of reading LEDGER at startup. */
const MOVEMENTS_LOG_MS = 5_000;

/** Exit code when a final block was replaced and an operator has to decide. See docs/operations.md. */
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

type Running = Exclude<Command, { name: 'help' }>;

async function run(command: Running, context: ProcessContext): Promise<void> {
  const config = readConfig(IngestConfig);
  const { logger, signal } = context;
  const registry = createRegistry('ingest');
  const readiness = new Readiness();
  const notReady = () => ({ ...diskReasons(config.DATA_DIRECTORY), ...readiness.notReady });
  const metrics = await serveMetricsOf(config, context.report, { registry, notReady });
  let nats: Nats | undefined;
  let stopReporting = (_why?: string) => {};
  try {
    nats = await connectNats({
      ...natsOptions(config),
      ...{ name: 'ingest', signal },
      onWait: (err) => logger.warn({ err }, 'NATS is unreachable, waiting'),
    });
    const connected = nats;
    readiness.nats = connected;
    const old = oldServerNotice(connected);
    if (old !== undefined) logger.warn(old);
    const kv = await retryReads({ logger, signal }, 'streams', () =>
      openStreams(connected, config),
    );
    const reporting = reportState(connected, { name: 'ingest' }, () => ({ reasons: notReady() }));
    stopReporting = reporting.stop;
    await ingest({ command, config, nats: connected, kv, registry, readiness }, context);
  } catch (error) {
    if (error instanceof FinalReorgError) {
      stopReporting(error.message);
      await nats?.close();
      context.logger.fatal({ err: error }, 'ALARM: a final block was replaced, stopping');
      process.stderr.write(`ingest: ${error.message}\n`);
      process.exit(FINAL_REORG_CODE);
    }
    if (
      error instanceof LedgerStateError ||
      error instanceof LedgerFencedError ||
      error instanceof UnreadableLedgerError ||
      error instanceof StreamDamagedError
    ) {
      stopReporting(error.message);
      await nats?.close();
      process.stderr.write(`ingest: ${error.message}\n`);
      process.exit(1);
    }
    throw error;
  } finally {
    stopReporting();
    await nats?.close();
    await metrics?.close();
  }
}

async function openStreams(nats: Nats, config: IngestConfig): Promise<Kv> {
  const { NATS_REPLICAS: replicas, FEED_HOURS } = config;
  await ensureStreams(nats, replicas, FEED_HOURS);
  return openKv(nats, INGEST_BUCKET, { replicas });
}

type Started = {
  readonly command: Running;
  readonly config: IngestConfig;
  readonly nats: Nats;
  readonly kv: Kv;
  readonly registry: Registry;
  readonly readiness: Readiness;
};

/** Needed by every part of the process. */
type Setup = Started & {
  readonly chain: Chain;
  readonly rpc: Rpc;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Retries the step until it succeeds, because NATS may become unavailable during startup. */
  readonly step: <T>(what: string, attempt: () => Promise<T>) => Promise<T>;
  /** Stops ingest with this error. */
  readonly fail: (error: unknown) => void;
};

async function ingest(started: Started, context: ProcessContext): Promise<void> {
  const { command, config, nats, kv, registry, readiness } = started;
  const { logger, report } = context;
  const failed = new AbortController();
  const signal = AbortSignal.any([context.signal, failed.signal]);
  const step: Setup['step'] = (what, attempt) => retryReads({ logger, signal }, what, attempt);
  const fail = (error: unknown) => failed.abort(error);
  const chain = chainOf(config);
  const backfill = command.name === 'backfill' ? command : undefined;
  const { toBlock } = backfill ?? {};
  await step('rewind', () => refuseHalfRewound(kv));
  const wanted = {
    startBlock: backfill?.fromBlock ?? config.START_BLOCK,
    insists: backfill !== undefined,
  };
  const startBlock = await step('start', () => settleStart(nats, kv, wanted));
  const rpc = connectRpc(config.RPC_URL, { chainId: chain.id, registry, logger });
  const setup: Setup = { ...started, chain, rpc, logger, signal, step, fail };
  const { reasons } = readiness;
  const progress = new FinalBlocksProgress({
    logger,
    registry,
    notReady: reasons,
    rpcUrl: config.RPC_URL,
  });
  const ledger = await step('ledger', () => LedgerWriter.open(nats, chain.shares !== undefined));
  const end = await step('end of LEDGER', () => readEnd(nats));
  const snapshots = await step('snapshots', () =>
    MarketSnapshots.open(nats, config.NATS_REPLICAS, logger),
  );
  const movements = await step('movements', () => openMovements(setup, snapshots, end));
  const metadataWriter = await step('metadata writer', () =>
    openWriter(nats, { stream: METADATA_STREAM }),
  );
  const onBalances = (event: MetadataEvent) => storeMetadata(metadataWriter, event);
  const balances = new Balances({ rpc, token: chain.collateral, logger, signal, onBalances });
  countBalances(registry, balances);
  const coveredFrom = await step('first movements', () => movementsFrom(setup, end, startBlock));
  const shares =
    movements === undefined
      ? undefined
      : new SampledShares({
          ...{ rpc, conditionalTokens: chain.conditionalTokens, known: movements.known },
          positionManager: chain.shares?.v2?.positionManager,
          ...{ coveredFrom, logger, signal, onBalances },
        });
  countShares(registry, shares);
  const unknown = new UnknownEvents({ rpc, chain, logger });
  const flow = new UnwatchedFlow({ rpc, chain, logger });
  countUnknown(registry, unknown, flow);
  // They would only slow a catch-up.
  let isCaughtUp = false;
  const metadata = await startMetadata(setup, metadataWriter, balances, movements?.known);
  const marketOf = (conditionId: Hash) => movements?.known.marketOf(conditionId) ?? conditionId;
  const feed = await openFeed(setup, metadata, end, marketOf);
  const writers = {
    [LEDGER_STREAM]: ledger,
    [FEED_STREAM]: feed.writer,
    [METADATA_STREAM]: metadataWriter,
  };
  countWriters(registry, writers);
  readiness.writers = writers;
  // A finite backfill does not write FEED, which begins when ingest first follows the head.
  const shownFrom =
    toBlock === undefined
      ? await retryReads({ logger, signal, onAnswer: progress.answered }, 'head', () =>
          firstShownBlock(nats, kv, feed.isComplete, () => rpc.blockNumber('latest')),
        )
      : Number.POSITIVE_INFINITY;
  const background: Promise<void>[] = [];
  report({ event: 'following' });
  const following = writeFinalBlocks({
    ...{ rpc, chain, nats, ledger, end, metadata, balances, movements, shares, progress },
    ...{ logger, signal, startBlock },
    finality: config.FINALITY,
    resolutionsFrom: backfill?.resolutionsFrom ?? config.RESOLUTIONS_FROM_BLOCK ?? chain.firstBlock,
    ...(toBlock === undefined ? {} : { toBlock }),
    onBlock: (facts) => feed.pendingFeed.final(facts, shownFrom),
    onFlushed: (block) => {
      if (movements !== undefined) snapshots.saveIfDue(block, movements.known);
    },
    onStored: (block) => {
      if (isCaughtUp) for (const one of [unknown, flow]) one.stored(block);
      report({ event: 'ledger', block });
    },
    onCaughtUp: (block) => {
      report({ event: 'caught_up', block });
      isCaughtUp = true;
      // Balances are read at the newest final block, so earlier reads would be outdated.
      background.push(balances.run());
      if (shares !== undefined) background.push(shares.run());
    },
  });
  const running = [following, ...(toBlock === undefined ? feed.run() : [])];
  try {
    await Promise.all(running);
    if (toBlock !== undefined) {
      const waiting = { ...metadata.waiting, balances: balances.waiting };
      logger.info(waiting, 'LEDGER is complete, waiting for metadata and balances');
      await metadata.answered(balances);
      await metadataWriter.flush();
    }
    if (failed.signal.aborted) throw failed.signal.reason;
  } catch (error) {
    // The other parts only report that they were aborted.
    throw failed.signal.aborted ? failed.signal.reason : error;
  } finally {
    failed.abort();
    metadataWriter.close();
    await Promise.allSettled([...running, ...background]);
    ledger.close();
    feed.writer.close();
  }
}

/** Reads from LEDGER what movements depend on; undefined if they are not watched. */
async function openMovements(
  { chain, config, nats, logger }: Setup,
  snapshots: MarketSnapshots,
  end: LedgerEnd,
): Promise<BlockMovements | undefined> {
  if (chain.shares === undefined) return undefined;
  const ledger = await WholeLedger.open(nats, config);
  const saved = await snapshots.load();
  const range = saved === undefined ? undefined : await ledger.messageAt(saved.block.number);
  const isOfLedger = range?.blocks.some(({ hash }) => hash === saved?.block.hash) ?? false;
  const from = isOfLedger ? saved?.block.number : undefined;
  const known = isOfLedger ? saved?.known : undefined;
  const movements = new BlockMovements(chain.shares, chain.exchanges, known);
  const { archived, fromSequence } = await ledger.from(from);
  const to = end.block?.number ?? end.earlierTo ?? -1;
  let loggedAt = performance.now();
  const learn = (range: BlockRange) => {
    for (const { number, events } of range.blocks)
      if (from === undefined || number > from) for (const event of events) movements.learn(event);
    if (performance.now() - loggedAt < MOVEMENTS_LOG_MS) return;
    loggedAt = performance.now();
    logger.info({ block: range.to, to }, 'reading from LEDGER what movements depend on');
  };
  for await (const range of archived) learn(range);
  for await (const { range } of storedMessages(nats, { sequence: fromSequence })) {
    // What another ingest has stored since is read from the chain.
    if (range.to > to) break;
    learn(range);
  }
  return movements;
}

/** The block from which on the movements of all blocks are read. It is stored, unless they are not read now. */
async function movementsFrom(
  { chain, kv }: Setup,
  { block: newest }: LedgerEnd,
  startBlock: number,
): Promise<number> {
  const next = newest === undefined ? startBlock : newest.number + 1;
  if (chain.shares === undefined) {
    await kv.delete(MOVEMENTS_START_KEY);
    return next;
  }
  const entry = await kv.get(MOVEMENTS_START_KEY);
  const stored = entry === undefined ? next : Number(new TextDecoder().decode(entry.value));
  const from = newest?.coversMovements === true ? Math.min(stored, next) : next;
  if (entry === undefined || from !== stored) await kv.put(MOVEMENTS_START_KEY, String(from));
  return from;
}

async function startMetadata(
  { config, nats, registry, chain, logger, signal, step, fail }: Setup,
  writer: StreamWriter,
  balances: Balances,
  known: KnownMarkets | undefined,
): Promise<Metadata> {
  const gamma = new Gamma({ url: config.GAMMA_URL, logger, signal });
  const onChange = (event: MetadataEvent) => storeMetadata(writer, event).catch(fail);
  const metadata = new Metadata({ chain, gamma, logger, signal, onChange, known });
  await step('metadata', () =>
    metadata.restore(nats, (block) => {
      balances.reached(block.number);
      for (const match of eventsOf('matches', [block])) balances.matched(match);
    }),
  );
  countMetadata(registry, metadata, gamma);
  void metadata.run().catch(fail);
  return metadata;
}

/** Everything that writes FEED; `run` starts following the mempool. */
async function openFeed(
  setup: Setup,
  metadata: Metadata,
  end: LedgerEnd,
  marketOf: (conditionId: Hash) => Hash,
) {
  const { config, nats, kv, registry, chain, rpc, logger, signal, step, fail } = setup;
  const onForeign = (message: StreamMessage) => followOther(message, feed, pending);
  const writer = await step('feed writer', () =>
    openWriter(nats, { stream: FEED_STREAM, onForeign }),
  );
  const feed = new FeedWriter(writer, metadata);
  const operators = await step('operators', () => Operators.load(kv, config.OPERATORS));
  const metrics = pendingMetrics(registry);
  const node = connectMempoolNode(config.RPC_URL, { chainId: chain.id });
  const secondsMax = config.PENDING_SECONDS_MAX;
  const pending = new PendingMatches({ feed, node, secondsMax, metrics, logger });
  const { block: newest, storedAtMs } = end;
  // A shown match may stay open for `secondsMax`.
  const memoryMs = FEED_MEMORY_MS + secondsMax * 1_000;
  // The chain's clock or the server's, whichever is behind.
  const sinceMs = Math.min((newest?.time ?? 0) * 1_000, storedAtMs) - memoryMs;
  const isComplete = await step('feed', () =>
    restoreFeed(nats, Math.max(sinceMs, 0), feed, pending),
  );
  const pendingFeed = new PendingFeed({
    ...{ rpc, chain, metadata, marketOf, feed, operators, pending, metrics, logger, signal },
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
    onDropped: (reason) => metrics.dropped.inc({ reason }),
  });
  return { writer, pendingFeed, isComplete, run: () => [subscription.run(), pending.run(signal)] };
}

/**
 * FEED begins at the chain's head at the first start; older blocks go to LEDGER only. If LEDGER ends before FEED, because
 * it is read again, the blocks up to FEED's newest final match were shown by an earlier process. FEED forgets, so unless
 * all ids since the end of LEDGER are known, as they are after a rewind, these blocks are not shown again.
 */
async function firstShownBlock(
  nats: Nats,
  kv: Kv,
  isComplete: boolean,
  head: () => Promise<number>,
): Promise<number> {
  const stored = await kv.get(FEED_START_KEY);
  const start = stored === undefined ? undefined : Number(new TextDecoder().decode(stored.value));
  if (start !== undefined && isComplete) return start;
  const newest = await newestFinalOf(nats);
  const first =
    start === undefined
      ? Math.min(newest ?? Number.POSITIVE_INFINITY, (await head()) + 1)
      : Math.max(newest ?? start, start);
  // Stored, because FEED may have forgotten that match before LEDGER reaches it.
  if (first !== start) await kv.put(FEED_START_KEY, String(first));
  return first;
}

/** Block of FEED's newest final match. A crash may have left other matches of this block unshown. */
async function newestFinalOf(nats: Nats): Promise<number | undefined> {
  const message = await lastMessage(nats, FEED_STREAM, FEED_FINAL_SUBJECT);
  const event = message === undefined ? undefined : decoded(message);
  return event?.kind === 'final' ? event.blockNumber : undefined;
}
