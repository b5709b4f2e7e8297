/**
 * The archive of LEDGER: a directory with one Parquet file per calendar month (UTC), one row per message, and a manifest
 * with hashes and counts. A file is listed in the manifest only after it was written and read back. docs/ledger.md
 * describes the format.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import {
  asyncBufferFromFile,
  type Compressors,
  parquetMetadataAsync,
  parquetReadObjects,
  type RowGroup,
} from 'hyparquet';
import { type BasicType, fileWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import { z } from 'zod';
import { Hash, Index } from '../contract.ts';
import {
  addCounts,
  type Block,
  type BlockRange,
  type BlockRef,
  COUNTED,
  type Counts,
  countsOf,
  type LedgerMessage,
  lastBlock,
  parseRange,
  UnreadableLedgerError,
} from './ledger.ts';

const MANIFEST = 'manifest.json';
const VERSION = 1;
/** Names of the archive's own files. Other files in the directory are left alone. */
const OWN_FILES = /^(ledger-\d{4}-\d\d\.\d+-\d+\.parquet|(month\.parquet|manifest\.json)\.part)$/;
/** Bytes of JSON per row group, the unit of writing and reading; a single message may be larger. */
const GROUP_BYTES = 16 * 1_048_576;
/** Bytes of JSON that are compressed together. */
const PAGE_BYTES = 4 * 1_048_576;
/** Level 15 saves 7 %, but compresses only 4 MB a second. */
const ZSTD_LEVEL = 1;

/** The archive is damaged or incomplete, or its blocks differ from those of LEDGER. The message names the file. */
export class ArchiveError extends UnreadableLedgerError {}

export type ArchivedFile = z.output<typeof ArchivedFile>;
/** A message as it was stored in LEDGER. */
export type ArchivedMessage = Pick<LedgerMessage, 'range' | 'json'>;

const Tally = z.object({
  messages: Index,
  // Older archives have no movements.
  ...(Object.fromEntries(COUNTED.map((what) => [what, Index.default(0)])) as Record<
    keyof Counts,
    z.ZodDefault<typeof Index>
  >),
});
type Tally = z.output<typeof Tally>;
const ArchivedFile = z.object({
  file: z.string().regex(OWN_FILES),
  month: z.string().regex(/^\d{4}-\d\d$/),
  /** Whether a later month had begun when the file was written. */
  complete: z.boolean(),
  /** First and last block. */
  from: Index,
  to: Index,
  /** Hash of block `from` − 1, and of block `to`. */
  parentHash: Hash,
  lastHash: Hash,
  ...Tally.shape,
  bytes: Index,
  sha256: z.string(),
});
const Manifest = z.object({ version: z.literal(VERSION), files: z.array(ArchivedFile) });

export class Archive {
  readonly directory: string;
  #files: readonly ArchivedFile[];
  /** Files whose hash has been verified. */
  readonly #intact = new Set<string>();

  private constructor(directory: string, files: readonly ArchivedFile[]) {
    this.directory = directory;
    this.#files = files;
  }

  /** Reads the manifest. Throws ArchiveError if it is missing, or lists files that do not link. */
  static async open(directory: string): Promise<Archive> {
    const path = join(directory, MANIFEST);
    let files: readonly ArchivedFile[];
    try {
      files = Manifest.parse(JSON.parse(await readFile(path, 'utf8'))).files;
    } catch (error) {
      throw new ArchiveError(`${path} cannot be read: ${reasonOf(error)}`);
    }
    let before: ArchivedFile | undefined;
    for (const file of files) {
      if (before !== undefined) assertLink(join(directory, file.file), endOf(before), file);
      before = file;
    }
    return new Archive(directory, files);
  }

  /**
   * Opens an archive to extend it, or creates one. Removes the unfinished files of an interrupted export, but no month, which
   * may be the only copy. Throws ArchiveError for months without a manifest.
   */
  static async openToWrite(directory: string): Promise<Archive> {
    await mkdir(directory, { recursive: true });
    const found = await readdir(directory);
    const isNew = !found.includes(MANIFEST);
    const own = found.filter((name) => OWN_FILES.test(name));
    const months = own.filter((name) => !name.endsWith('.part'));
    if (isNew && months.length > 0) {
      throw new ArchiveError(
        `${directory} has ${months.join(', ')}, but no ${MANIFEST}: restore it. If an interrupted first export left ` +
          'the file, delete it',
      );
    }
    const archive = isNew ? new Archive(directory, []) : await Archive.open(directory);
    const unfinished = own.filter((name) => name.endsWith('.part'));
    for (const name of unfinished) await rm(join(directory, name));
    return archive;
  }

  get files(): readonly ArchivedFile[] {
    return this.#files;
  }

  /** The newest block; undefined in an empty archive. */
  get end(): BlockRef | undefined {
    const last = this.#files.at(-1);
    return last === undefined ? undefined : endOf(last);
  }

  pathOf({ file }: ArchivedFile): string {
    return join(this.directory, file);
  }

  /**
   * The messages that end after a block, in the order of LEDGER; by default all. Checks the hash of a file before it
   * yields the first message, and links and counts along the way. Throws ArchiveError.
   */
  async *messages(after = -1): AsyncGenerator<ArchivedMessage> {
    for (const file of this.#files) {
      if (file.to <= after) continue;
      await this.#refuseAltered(file);
      yield* readMonth(this.pathOf(file), file, after);
    }
  }

  /** The message whose range includes the block. Throws ArchiveError. */
  async messageAt(block: number): Promise<ArchivedMessage | undefined> {
    for await (const message of this.messages(block - 1)) {
      const { range } = message;
      if (range.kind === 'blocks') return range.from <= block ? message : undefined;
    }
    return undefined;
  }

  /** Throws ArchiveError if a file's hash differs from the manifest's. */
  async #refuseAltered(file: ArchivedFile): Promise<void> {
    if (this.#intact.has(file.file)) return;
    const path = this.pathOf(file);
    let sha256: string;
    try {
      sha256 = await hashOf(path);
    } catch (error) {
      throw new ArchiveError(`${path} cannot be read: ${reasonOf(error)}`);
    }
    if (sha256 !== file.sha256) {
      throw new ArchiveError(`${path} was altered: its SHA-256 is ${sha256}, not ${file.sha256}`);
    }
    this.#intact.add(file.file);
  }

  /** The newest block of a complete month: the next file begins after it. */
  get completeTo(): BlockRef | undefined {
    const complete = this.#files.findLast((file) => file.complete);
    return complete === undefined ? undefined : endOf(complete);
  }

  beginMonth(): MonthWriter {
    return new MonthWriter(this.directory, this.completeTo);
  }

  /** Adds a written month and replaces an incomplete one. `isComplete`: a later month has begun. */
  async add(month: MonthWriter, isComplete: boolean): Promise<ArchivedFile> {
    const added = await month.finish(isComplete);
    const replaced = this.#files.filter((file) => !file.complete && file.file !== added.file);
    this.#files = [...this.#files.filter((file) => file.complete), added];
    const path = join(this.directory, MANIFEST);
    const text = JSON.stringify({ version: VERSION, files: this.#files }, null, 2);
    await writeFile(`${path}.part`, `${text}\n`);
    await replaceBy(`${path}.part`, path);
    for (const file of replaced) await rm(this.pathOf(file), { force: true });
    return added;
  }
}

type Row = ArchivedMessage & { readonly tally: Tally };

/** Columns of a file. Imports read only the body, which comes last. */
const COLUMNS: readonly {
  readonly name: string;
  readonly type: BasicType;
  readonly value: (row: Row) => unknown;
}[] = [
  { name: 'from_block', type: 'INT64', value: ({ range }) => BigInt(range.from) },
  { name: 'to_block', type: 'INT64', value: ({ range }) => BigInt(range.to) },
  // Messages with earlier resolutions have no parent.
  { name: 'parent_hash', type: 'STRING', value: ({ range }) => parentOf(range) },
  { name: 'last_hash', type: 'STRING', value: ({ range }) => range.blocks.at(-1)?.hash },
  { name: 'first_time', type: 'TIMESTAMP', value: ({ range }) => timeOf(range.blocks.at(0)) },
  { name: 'last_time', type: 'TIMESTAMP', value: ({ range }) => timeOf(range.blocks.at(-1)) },
  ...COUNTED.map((name) => ({
    name,
    type: 'INT32' as const,
    value: ({ tally }: Row) => tally[name],
  })),
  { name: 'body', type: 'STRING', value: ({ json }) => json },
];
const BODY = 'body';

/** Writes the messages of one month. */
export class MonthWriter {
  readonly #directory: string;
  readonly #path: string;
  #parquet: ParquetWriter | undefined;
  #rows: Row[] = [];
  #bytes = 0;
  #tally: Tally = NOTHING;
  #first: (BlockRange & { readonly kind: 'blocks' }) | undefined;
  #last: BlockRef | undefined;
  #month: string | undefined;

  constructor(directory: string, before: BlockRef | undefined) {
    this.#directory = directory;
    this.#path = join(directory, 'month.parquet.part');
    this.#last = before;
  }

  /**
   * Appends the next message. Returns false and appends nothing if it belongs to a later month. Throws ArchiveError
   * if it does not continue the one before it.
   */
  add({ sequence, range, json }: LedgerMessage): boolean {
    if (range.kind === 'blocks') {
      const month = monthOf(lastBlock(range));
      if (this.#month !== undefined && month > this.#month) return false;
      if (this.#last !== undefined) assertLink(`LEDGER message ${sequence}`, this.#last, range);
      this.#month ??= month;
      this.#first ??= range;
      this.#last = lastBlock(range);
    }
    const tally = tallyOf(range);
    this.#tally = sum(this.#tally, tally);
    this.#rows.push({ range, json, tally });
    this.#bytes += json.length;
    if (this.#bytes >= GROUP_BYTES) this.#writeGroup();
    return true;
  }

  /** The month so far, undefined before the first block. */
  get month(): string | undefined {
    return this.#month;
  }

  /** Completes the file, reads it back and renames it to its final name. */
  async finish(complete: boolean): Promise<ArchivedFile> {
    this.#writeGroup();
    await this.#parquet?.finish();
    const [month, first, last] = [this.#month, this.#first, this.#last];
    if (month === undefined || first === undefined || last === undefined) {
      throw new RangeError('a month without a block');
    }
    const [from, to] = [first.from, last.number];
    const written: ArchivedFile = {
      file: `ledger-${month}.${from}-${to}.parquet`,
      month,
      complete,
      from,
      to,
      parentHash: first.parentHash,
      lastHash: last.hash,
      ...this.#tally,
      bytes: (await stat(this.#path)).size,
      sha256: await hashOf(this.#path),
    };
    for await (const _ of readMonth(this.#path, written, -1));
    await replaceBy(this.#path, join(this.#directory, written.file));
    return written;
  }

  #writeGroup(): void {
    if (this.#rows.length === 0) return;
    const columnData = COLUMNS.map(({ name, type, value }) => ({
      name,
      type,
      data: this.#rows.map(value),
      nullable: name === 'parent_hash' || name.endsWith('_time') || name === 'last_hash',
      ...(name === BODY ? { encoding: 'PLAIN' as const, statistics: false } : {}),
    }));
    this.#parquet ??= new ParquetWriter({
      writer: fileWriter(this.#path),
      schema: schemaFromColumnData({ columnData }),
      codec: 'ZSTD',
      compressors: { ZSTD: (data) => zstdCompressSync(data, { params: ZSTD_PARAMETERS }) },
      createdBy: 'fillstream',
    });
    this.#parquet.write({ columnData, rowGroupSize: this.#rows.length, pageSize: PAGE_BYTES });
    this.#rows = [];
    this.#bytes = 0;
  }
}

const ZSTD_PARAMETERS = { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL };
const DECOMPRESSORS: Compressors = {
  ZSTD: (data, maxOutputLength) => zstdDecompressSync(data, { maxOutputLength }),
};

/** The messages of a file that end after a block. Throws ArchiveError. */
async function* readMonth(
  path: string,
  file: ArchivedFile,
  after: number,
): AsyncGenerator<ArchivedMessage> {
  let last: BlockRef | undefined = { number: file.from - 1, hash: file.parentHash };
  let tally: Tally = NOTHING;
  let isWhole = true;
  for await (const json of bodies(path, after)) {
    if (json === undefined) {
      isWhole = false;
      last = undefined;
      continue;
    }
    const range = parseRange(json, `${path}: a message`);
    tally = sum(tally, tallyOf(range));
    if (range.kind === 'blocks') {
      if (last !== undefined) assertLink(path, last, range);
      last = lastBlock(range);
    }
    if (range.to > after) yield { range, json };
  }
  const isEnd = last?.number === file.to && last.hash === file.lastHash;
  const isCounted = Object.entries(tally).every(([name, n]) => file[name as keyof Tally] === n);
  if (isEnd && (isCounted || !isWhole)) return;
  throw new ArchiveError(`${path} holds other blocks or counts than the manifest says`);
}

/** The bodies of a file; undefined for each skipped row group, which ends at or before block `after`. */
async function* bodies(path: string, after: number): AsyncGenerator<string | undefined> {
  let start = 0;
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    for (const group of metadata.row_groups) {
      const rowStart = start;
      start += Number(group.num_rows);
      if (newestBlockOf(group) <= after) {
        yield undefined;
        continue;
      }
      const options = { file, metadata, columns: [BODY], compressors: DECOMPRESSORS };
      const rows = await parquetReadObjects({ ...options, rowStart, rowEnd: start });
      for (const row of rows) yield z.string().parse(row[BODY]);
    }
  } catch (error) {
    throw new ArchiveError(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

function newestBlockOf({ columns }: RowGroup): number {
  const column = columns.find(({ meta_data }) => meta_data?.path_in_schema[0] === 'to_block');
  return Number(column?.meta_data?.statistics?.max_value ?? Number.POSITIVE_INFINITY);
}

/** Throws ArchiveError, which begins with `name`, unless `range` continues after `last`. */
function assertLink(
  name: string,
  last: BlockRef,
  { from, parentHash }: { readonly from: number; readonly parentHash: Hash },
): void {
  if (from === last.number + 1 && parentHash === last.hash) return;
  throw new ArchiveError(
    `${name} begins with block ${from} after ${parentHash}, which does not follow block ${last.number}, ${last.hash}`,
  );
}

const NOTHING: Tally = { messages: 0, ...countsOf([]) };

function tallyOf({ blocks }: BlockRange): Tally {
  return { messages: 1, ...countsOf(blocks) };
}

function sum(a: Tally, b: Tally): Tally {
  return { messages: a.messages + b.messages, ...addCounts(a, b) };
}

/** Calendar month of a block, UTC: YYYY-MM. */
export function monthOf({ time }: Pick<Block, 'time'>): string {
  return new Date(time * 1_000).toISOString().slice(0, 7);
}

function endOf({ to, lastHash }: ArchivedFile): BlockRef {
  return { number: to, hash: lastHash };
}

function parentOf(range: BlockRange): Hash | undefined {
  return range.kind === 'blocks' ? range.parentHash : undefined;
}

function timeOf(block: Block | undefined): Date | undefined {
  return block === undefined ? undefined : new Date(block.time * 1_000);
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1_048_576 })) {
    hash.update(chunk);
  }
  return hash.digest('hex');
}

/** Syncs a file to disk, then renames it. */
async function replaceBy(part: string, path: string): Promise<void> {
  await synced(part);
  await rename(part, path);
  await synced(dirname(path));
}

async function synced(path: string): Promise<void> {
  const file = await open(path, 'r');
  await file.sync().finally(() => file.close());
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error);
  return error instanceof Error ? error.message : String(error);
}
