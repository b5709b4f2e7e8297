/**
 * Final blocks → LEDGER, in chain order, each closed by a marker, which is the cursor after a restart.
 * Every block must name its predecessor's hash: where it does not, "final" was wrong, and ingest stops
 * with an alarm rather than write another history. Blocks are read ahead in parallel and published in
 * order; a node that fails or lags behind is asked again.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats.ts';
import type { OrderedPublisher } from '../infra/nats-publisher.ts';
import { lastMessage, storedSince } from '../infra/nats-read.ts';
import type { Balances } from './balances.ts';
import { type BlockFacts, factsOf, readBlock } from './blocks.ts';
import type { Catalogue } from './catalogue.ts';
import type { Chain } from './chains.ts';
import {
  BLOCK_SUBJECT,
  type BlockMarker,
  decodeLedgerEvent,
  encodeEvent,
  LEDGER_STREAM,
  type LedgerEvent,
  ledgerMessageId,
  ledgerSubject,
} from './contract.ts';
import type { Rpc } from './rpc.ts';

const READ_AHEAD_MAX = 16;
const POLL_MS = 250;
const RETRY_MIN_MS = 200;
const RETRY_MAX_MS = 5_000;
const PROGRESS_MS = 2_000;

/** A final block was replaced: nothing that follows can be trusted. See docs/operations. */
export class FinalReorgError extends Error {}

export type FollowOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly finality: 'finalized' | number;
  readonly startBlock: number;
  readonly nats: Nats;
  readonly ledger: OrderedPublisher;
  readonly catalogue: Catalogue;
  readonly balances: Balances;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called before a block is published, in order. */
  readonly onBlock: (facts: BlockFacts) => Promise<void>;
  /** Called once, when LEDGER holds every block that was final. */
  readonly onCaughtUp: (sequence: number) => void;
};

/** Publishes an event of LEDGER under its own subject and id. */
export function publishEvent(ledger: OrderedPublisher, event: LedgerEvent): Promise<void> {
  const data = encodeEvent(event);
  const version = createHash('sha256').update(data).digest('base64url').slice(0, 16);
  return ledger.publish(ledgerSubject(event), ledgerMessageId(event, version), data);
}

/** The newest block marker of LEDGER and what was published after it; undefined when it is empty. */
export async function readCursor(nats: Nats) {
  const message = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  const event = message === undefined ? undefined : decodeLedgerEvent(message.data);
  const marker = event?.kind === 'block' ? event : undefined;
  const published = new Set<string>();
  const start = { sequence: (message?.sequence ?? 0) + 1 };
  for await (const later of storedSince(nats, LEDGER_STREAM, start)) published.add(later.messageId);
  return { marker, published };
}

/** Follows the final head until the signal aborts. Throws FinalReorgError. */
export async function followFinal(options: FollowOptions): Promise<void> {
  const { nats, logger, signal, ledger, startBlock } = options;
  const { marker, published } = await readCursor(nats);
  const progress = new Progress(logger);
  let last: Pick<BlockMarker, 'blockNumber' | 'blockHash'> | undefined = marker;
  let caughtUp = false;
  while (!signal.aborted) {
    const next = last === undefined ? startBlock : last.blockNumber + 1;
    const final = await finalBlock(options);
    for await (const facts of factsInOrder(options, next, final)) {
      const { block } = facts;
      if (last !== undefined && block.parentHash !== last.blockHash) {
        throw new FinalReorgError(
          `block ${block.number} follows ${block.parentHash}, but LEDGER holds ${last.blockHash} ` +
            `as block ${last.blockNumber}: a final block was replaced. Nothing was published.`,
        );
      }
      await options.onBlock(facts);
      await publishBlock(options, facts, published);
      published.clear();
      last = { blockNumber: block.number, blockHash: block.hash };
      progress.block(facts, final);
    }
    if (!caughtUp) {
      caughtUp = true;
      const { lastSequence } = await ledger.flush();
      progress.done(last?.blockNumber ?? startBlock);
      options.onCaughtUp(lastSequence);
    }
    await delay(POLL_MS, undefined, { signal });
  }
}

async function finalBlock({ rpc, finality, logger, signal }: FollowOptions): Promise<number> {
  return patiently(logger, signal, 'final head', async () =>
    finality === 'finalized'
      ? rpc.blockNumber('finalized')
      : (await rpc.blockNumber('latest')) - finality,
  );
}

/** Blocks `from` … `to` in order, with READ_AHEAD_MAX of them being read at a time. */
async function* factsInOrder(options: FollowOptions, from: number, to: number) {
  const { rpc, chain, catalogue, logger, signal } = options;
  const read = (number: number) =>
    patiently(logger, signal, 'block', async () => {
      const raw = await readBlock(rpc, chain, number);
      if (raw === undefined) throw new BlockMissingError(number);
      return factsOf(raw, chain, catalogue);
    });
  const ahead: Promise<BlockFacts>[] = [];
  let next = from;
  for (let number = from; number <= to; number++) {
    while (next <= to && ahead.length < READ_AHEAD_MAX) {
      const promise = read(next);
      // A later block's failure is reported when its turn comes.
      promise.catch(() => undefined);
      ahead.push(promise);
      next += 1;
    }
    const facts = await ahead.shift();
    if (facts !== undefined) yield facts;
  }
}

/** The node named a final block that it cannot give: it lags behind itself; ask again. */
class BlockMissingError extends Error {
  constructor(number: number) {
    super(`the node has no block ${number}`);
  }
}

async function publishBlock(
  options: FollowOptions,
  facts: BlockFacts,
  published: ReadonlySet<string>,
): Promise<void> {
  const { ledger, catalogue, balances } = options;
  const { block } = facts;
  const at = { blockNumber: block.number, blockTime: block.timestamp };
  for (const event of eventsOf(facts)) {
    if (published.has(ledgerMessageId(event, ''))) continue;
    await publishEvent(ledger, event);
  }
  for (const resolution of facts.resolutions) {
    catalogue.resolve(resolution.conditionId, resolution.payouts, block.timestamp);
  }
  const traders = new Set(facts.matches.flatMap((match) => match.fills.map((fill) => fill.trader)));
  for (const match of facts.matches) await catalogue.learn(match.conditionId, traders, 0);
  balances.touch(traders, block.number);
  await publishEvent(ledger, {
    kind: 'block',
    ...at,
    blockHash: block.hash,
    matches: facts.matches.length,
    fills: facts.matches.reduce((count, match) => count + match.fills.length, 0),
    resolutions: facts.resolutions.length,
  });
}

/** Chain facts of a block in log order: a resolution between two matches stays between them. */
function eventsOf({ block, matches, resolutions, refused }: BlockFacts): LedgerEvent[] {
  const at = { blockNumber: block.number, blockTime: block.timestamp };
  const events: Exclude<LedgerEvent, { kind: 'block' | 'listing' | 'profile' | 'balance' }>[] = [
    ...matches.map((match) => ({
      kind: 'match' as const,
      ...at,
      txHash: match.txHash,
      logIndex: match.logIndex,
      exchange: match.exchange,
      conditionId: match.conditionId,
      fills: match.fills.map(({ order: _order, ...fill }) => ({
        ...fill,
        tokenId: fill.tokenId.toString(),
      })),
    })),
    ...resolutions.map((resolution) => ({
      kind: 'resolution' as const,
      ...at,
      ...resolution,
      payouts: [...resolution.payouts] as [bigint, bigint],
    })),
    ...refused.map(({ txHash, logIndex, error, logs }) => ({
      kind: 'refused' as const,
      reason: error.reason,
      blockNumber: block.number,
      txHash,
      logIndex,
      detail: JSON.stringify(logs),
    })),
  ];
  return events.toSorted((a, b) => a.logIndex - b.logIndex);
}

async function patiently<T>(
  logger: Logger,
  signal: AbortSignal,
  what: string,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
    try {
      return await attempt();
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn({ err: error, what, waitMs }, 'the chain node did not answer, asking again');
      await delay(waitMs, undefined, { signal });
    }
  }
}

/** Tells how far a catch-up is: block, rate and time left, every PROGRESS_MS. */
class Progress {
  readonly #logger: Logger;
  #startedAt = performance.now();
  #toldAt = this.#startedAt;
  #blocks = 0;
  #fills = 0;
  #done = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  block(facts: BlockFacts, final: number): void {
    this.#blocks += 1;
    for (const match of facts.matches) this.#fills += match.fills.length;
    const now = performance.now();
    if (this.#done || now - this.#toldAt < PROGRESS_MS) return;
    this.#toldAt = now;
    const seconds = (now - this.#startedAt) / 1_000;
    const blocksPerSecond = this.#blocks / seconds;
    this.#logger.info(
      {
        block: facts.block.number,
        final,
        blocksPerSecond: Math.round(blocksPerSecond),
        fillsPerSecond: Math.round(this.#fills / seconds),
        secondsLeft: Math.round((final - facts.block.number) / blocksPerSecond),
      },
      'catching up',
    );
  }

  done(block: number): void {
    this.#done = true;
    const seconds = Math.round((performance.now() - this.#startedAt) / 100) / 10;
    this.#logger.info(
      { block, blocks: this.#blocks, fills: this.#fills, seconds },
      'caught up with the final head',
    );
  }
}
