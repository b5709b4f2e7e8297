/**
 * LEDGER and the archive of its older messages as one log: `npm run export -- --trim` removes archived messages from
 * LEDGER. For readers that begin with the first block or look for an old one.
 */
import type { Nats } from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { Archive, ArchiveError } from './archive.ts';
import { type BlockRange, type BlocksMessage, messageAt, oldestBlocks } from './ledger.ts';
import { INGEST_BUCKET } from './streams.ts';

/** Key of the newest block that was removed from LEDGER because it is archived. */
const TRIMMED_KEY = 'trimmed_to';

/** Where to read: the archived messages first, then LEDGER. */
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
   * Everything from the message that holds a block; by default from the beginning, earlier resolutions included.
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
   * The oldest message of LEDGER, and the archive if it has what came before. Throws ArchiveError if the blocks
   * before LEDGER are archived and the archive is not given, or does not reach LEDGER.
   */
  async #beginning(): Promise<{
    readonly archive?: Archive;
    readonly oldest?: BlocksMessage | undefined;
  }> {
    const oldest = await oldestBlocks(this.#nats);
    const begin = oldest?.range.from ?? Number.POSITIVE_INFINITY;
    const isTrimmed = begin === (await trimmedTo(this.#kv)) + 1;
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

/** LEDGER begins after this block if it was trimmed; NaN if it never was. */
export async function trimmedTo(kv: Kv): Promise<number> {
  const entry = await kv.get(TRIMMED_KEY);
  return entry === undefined ? Number.NaN : Number(new TextDecoder().decode(entry.value));
}

/** Remembers that LEDGER will begin after this block, because it is archived. */
export async function rememberTrim(kv: Kv, block: number): Promise<void> {
  await kv.put(TRIMMED_KEY, String(block));
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
