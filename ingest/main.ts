/**
 * The ingest process: final blocks → LEDGER, pending matches and new blocks → FEED, metadata → both.
 * Starts alone from environment variables (infra/config.ts); after any crash it goes on where LEDGER
 * ends. It deliberately knows nothing of ClickHouse.
 */
import { type Config, readConfig, rpcWebSocketUrl } from '../infra/config.ts';
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
const COUNTS_MS = 60_000;

await runProcess('ingest', async (context) => {
  const config = readConfig();
  const nats = await connectNats({ url: config.NATS_URL, name: 'ingest' });
  try {
    await ensureStreams(nats, config.NATS_REPLICAS);
    await ingest(config, nats, context);
  } finally {
    await nats.close();
  }
});

async function ingest(config: Config, nats: Nats, context: ProcessContext): Promise<void> {
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
  const counts = setInterval(
    () => logger.info({ shown: feed.shown, refused: Object.fromEntries(live.refused) }, 'feed'),
    COUNTS_MS,
  );
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
    clearInterval(counts);
    await Promise.allSettled([...running, ...background]);
    ledger.close();
    feedPublisher.close();
  }
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
