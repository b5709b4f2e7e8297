/**
 * Reads LEDGER and its archive as one log, because `npm run export -- --trim` removes archived messages from LEDGER. Used by
 * readers that start at the first block or look up an old one.
 */
import type { Nats } from '../../infra/nats/connection.ts';
import { type Kv, openKv } from '../../infra/nats/kv.ts';
import { INGEST_BUCKET } from '../streams.ts';
import { Archive, ArchiveError } from './archive.ts';
import { type BlockRange, type BlocksMessage, messageAt, oldestBlocks } from './ledger.ts';

/** Key of the newest block of each --trim, separated by commas. */
const TRIMMED_KEY = 'trimmed_to';

/** Where to read from: first the archived messages, then LEDGER. */
export type Source = {
  readonly archived: AsyncIterable<BlockRange>;
  readonly fromSequence: number;
};

export class WholeLedger {
  readonly #nats: Nats;
  readonly #kv: Kv;
  readonly #directory: string | undefined;

  private constructor(nats: Nats, kv: Kv, directory: string | undefined) {
    this.#nats = nats;
    this.#kv = kv;
    this.#directory = directory;
  }

  static async open(
    nats: Nats,
    config: { readonly LEDGER_ARCHIVE?: string | undefined; readonly NATS_REPLICAS: number },
  ): Promise<WholeLedger> {
    const kv = await openKv(nats, INGEST_BUCKET, { replicas: config.NATS_REPLICAS });
    return new WholeLedger(nats, kv, config.LEDGER_ARCHIVE);
  }

  /** The message whose range includes the block. Throws UnreadableLedgerError. */
  async messageAt(block: number): Promise<BlockRange | undefined> {
    const held = await messageAt(this.#nats, block);
    if (held !== undefined) return held.range;
    const { archive } = await this.#beginning();
    return (await archive?.messageAt(block))?.range;
  }

  /** The first block; undefined if there is none. Throws UnreadableLedgerError. */
  async firstBlock(): Promise<number | undefined> {
    const { archive, oldest } = await this.#beginning();
    return archive?.files[0]?.from ?? oldest?.range.from;
  }

  /**
   * Where to read everything from the message that contains `block`; by default everything, including earlier resolutions.
   * Throws UnreadableLedgerError.
   */
  async from(block?: number): Promise<Source> {
    const held = block === undefined ? undefined : await messageAt(this.#nats, block);
    if (held !== undefined) return { archived: none(), fromSequence: held.sequence };
    const { archive, oldest } = await this.#beginning();
    if (archive === undefined) return { archived: none(), fromSequence: 1 };
    return {
      archived: rangesOf(archive, (block ?? 0) - 1, oldest?.range.from),
      fromSequence: oldest?.sequence ?? 1,
    };
  }

  /**
   * The oldest message of LEDGER, and the archive if it has earlier blocks. Throws ArchiveError if LEDGER was trimmed but
   * LEDGER_ARCHIVE is not set, or if blocks are missing between the archive and LEDGER.
   */
  async #beginning(): Promise<{
    readonly archive?: Archive;
    readonly oldest?: BlocksMessage | undefined;
  }> {
    const oldest = await oldestBlocks(this.#nats);
    const begin = oldest?.range.from ?? Number.POSITIVE_INFINITY;
    const isTrimmed = await wasTrimmed(this.#kv, begin);
    if (this.#directory === undefined) {
      if (!isTrimmed) return { oldest };
      throw new ArchiveError(
        `LEDGER begins with block ${begin}, because the blocks before it are archived: set LEDGER_ARCHIVE to the directory of the archive`,
      );
    }
    const archive = await Archive.open(this.#directory);
    const [from = begin, to = -1] = [archive.files[0]?.from, archive.end?.number];
    const isEarlier = from < begin;
    if (!isEarlier && !isTrimmed) return { oldest };
    if (isEarlier && (oldest === undefined || to >= begin - 1)) return { archive, oldest };
    throw new ArchiveError(
      `${this.#directory} holds the blocks ${from} to ${to}, but LEDGER begins with block ${begin}: the blocks before it are missing`,
    );
  }
}

/** Whether LEDGER begins with this block because --trim removed the blocks before it. */
export async function wasTrimmed(kv: Kv, begin: number): Promise<boolean> {
  return (await trims(kv)).includes(begin - 1);
}

/** Records that LEDGER will begin after this block. Call it before the messages are removed. */
export async function rememberTrim(kv: Kv, block: number): Promise<void> {
  // If this trim ends before the removal, LEDGER still begins after an earlier one.
  await kv.put(TRIMMED_KEY, [...new Set([...(await trims(kv)), block])].join(','));
}

async function trims(kv: Kv): Promise<readonly number[]> {
  const entry = await kv.get(TRIMMED_KEY);
  return entry === undefined ? [] : new TextDecoder().decode(entry.value).split(',').map(Number);
}

async function* none(): AsyncGenerator<never> {}

/** The archived messages that end after a block, up to the first block of LEDGER. */
async function* rangesOf(
  archive: Archive,
  after: number,
  begin = Number.POSITIVE_INFINITY,
): AsyncGenerator<BlockRange> {
  for await (const { range } of archive.messages(after)) {
    if (range.to >= begin) return;
    yield range;
  }
}
