/**
 * Snapshots of what ingest knows of markets, as of a block of LEDGER, so that a restart reads only the blocks after it. Without a
 * snapshot, or if it does not fit LEDGER, everything is learnt from LEDGER again.
 */
import { setImmediate } from 'node:timers/promises';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';
import { type Objects, openObjects } from '../../infra/nats/objects.ts';
import { Address, Hash, Index } from '../contract.ts';
import { type KnownMarket, KnownMarkets } from '../events/shares/known-markets.ts';
import type { BlockRef } from './ledger.ts';

const STORE = 'ingest_markets';
const NAME = 'known';
/** Reading so many blocks again takes seconds. */
const BLOCKS = 10_000;
const MARKETS_AT_ONCE = 20_000;

const Amount = z.string().transform((text) => BigInt(text));
const Snapshot = z.object({
  version: z.literal(2),
  number: Index,
  hash: Hash,
  markets: z.array(
    z.tuple([
      Hash,
      z.tuple([Address, z.string(), z.string()]).nullable(),
      Amount.nullable(),
      z.tuple([Amount, Amount]).nullable(),
      // Missing without a fee, legs, or a continuation.
      Index.nullable(),
      z.array(z.string()).nullable(),
      Hash.nullable(),
    ]),
  ),
});

export class MarketSnapshots {
  readonly #objects: Objects;
  readonly #logger: Logger;
  #savedAt: number | undefined;
  #isSaving = false;

  private constructor(objects: Objects, logger: Logger) {
    this.#objects = objects;
    this.#logger = logger;
  }

  static async open(nats: Nats, replicas: number, logger: Logger): Promise<MarketSnapshots> {
    return new MarketSnapshots(await openObjects(nats, STORE, { replicas }), logger);
  }

  /** The newest snapshot; undefined if there is none that can be read. */
  async load(): Promise<{ readonly block: BlockRef; readonly known: KnownMarkets } | undefined> {
    const data = await this.#objects.get(NAME);
    if (data === undefined) return undefined;
    try {
      const { number, hash, markets } = Snapshot.parse(JSON.parse(`${zstdDecompressSync(data)}`));
      const all = markets.map(([conditionId, tokens, price, payouts, fee, legs, continuedBy]) => ({
        ...{ conditionId, tokens: tokens === null ? undefined : tokensOf(tokens) },
        ...{ price: price ?? undefined, payouts: payouts ?? undefined, feeBips: fee ?? undefined },
        ...{ legs: legs ?? undefined, continuedBy: continuedBy ?? undefined },
      }));
      return { block: { number, hash }, known: new KnownMarkets(all) };
    } catch (err) {
      this.#logger.warn({ err }, 'the snapshot of markets cannot be read, reading LEDGER');
      return undefined;
    }
  }

  /** Saves what is known as of this block in the background, if enough blocks have passed. */
  saveIfDue({ number, hash }: BlockRef, known: KnownMarkets): void {
    this.#savedAt ??= number;
    if (this.#isSaving || number < this.#savedAt + BLOCKS) return;
    this.#isSaving = true;
    this.#savedAt = number;
    // Later events replace these objects instead of changing them, so the list stays as of this block.
    void this.#save({ number, hash }, known.all())
      .catch((err) => this.#logger.warn({ err }, 'the snapshot of markets was not saved'))
      .finally(() => {
        this.#isSaving = false;
      });
  }

  async #save(block: BlockRef, markets: readonly KnownMarket[]): Promise<void> {
    const parts: string[] = [];
    for (let from = 0; from < markets.length; from += MARKETS_AT_ONCE) {
      parts.push(
        markets
          .slice(from, from + MARKETS_AT_ONCE)
          .map(textOf)
          .join(','),
      );
      await setImmediate();
    }
    const head = JSON.stringify({ version: 2, ...block });
    const json = `${head.slice(0, -1)},"markets":[${parts.join(',')}]}`;
    await this.#objects.put(NAME, zstdCompressSync(json));
    this.#logger.info({ block: block.number, markets: markets.length }, 'saved what is known');
  }
}

function tokensOf([collateral, zero, one]: readonly [Address, string, string]) {
  return { collateral, ids: [zero, one] } as const;
}

function textOf(market: KnownMarket): string {
  const { conditionId, tokens, price, payouts, feeBips, legs, continuedBy } = market;
  return JSON.stringify([
    conditionId,
    tokens === undefined ? null : [tokens.collateral, ...tokens.ids],
    price?.toString() ?? null,
    payouts?.map(String) ?? null,
    ...[feeBips ?? null, legs ?? null, continuedBy ?? null],
  ]);
}
