/**
 * The JetStream stream LEDGER: final blocks in chain order, one compressed message for each block or range of
 * blocks. Message format, codec, and the reads that ingest, projector and api share. docs/ledger.md
 * describes the format; test/fixtures/ledger-1.json pins it.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { Hash, Index, Match, Refused, Resolution } from './contract.ts';

/** Format version that this code writes and the only one that it reads. */
const VERSION = 1;
/** Names the format version; a message without it was not written by this version. */
export const VERSION_HEADER = 'Fillstream-Ledger';
/** Largest JSON text of a message, bytes. The busiest block of Polygon takes about 1 MB. */
const RAW_BYTES_MAX = 64 * 1_048_576;
/** Higher levels gain nothing: random hashes and addresses are what remains. */
const ZSTD_LEVEL = 1;

/** A final block and its events, each list in log order. */
export type Block = {
  readonly number: number;
  readonly hash: Hash;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly matches: readonly Match[];
  readonly resolutions: readonly Resolution[];
  readonly refused: readonly Refused[];
};

/**
 * One message. `blocks` of a range of final blocks holds those that contain something, and always `to`. Resolutions of
 * blocks before the first range (`earlier-resolutions`) link to no parent and cover no block.
 */
export type BlockRange = {
  readonly from: number;
  readonly to: number;
  readonly blocks: readonly Block[];
} & (
  | { readonly kind: 'blocks' /** Hash of block `from` − 1. */; readonly parentHash: Hash }
  | { readonly kind: 'earlier-resolutions' }
);

/** A message as it is published. */
export type EncodedRange = {
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly data: Uint8Array;
};

/** A LEDGER message that this version cannot read. Skipping it would lose its fills. */
export class UnreadableLedgerError extends Error {}

const StoredBlock = z.object({
  number: Index,
  hash: Hash,
  time: Index,
  matches: z.array(Match.omit({ kind: true, blockNumber: true, blockTime: true })),
  resolutions: z.array(Resolution.omit({ kind: true, blockNumber: true, blockTime: true })),
  refused: z.array(Refused.omit({ kind: true, blockNumber: true })),
});
type StoredBlock = z.output<typeof StoredBlock>;

const range = { version: z.literal(VERSION), from: Index, to: Index, blocks: z.array(StoredBlock) };
const StoredRange = z.union([
  z.object({ ...range, parentHash: Hash }),
  z.object({ ...range, kind: z.literal('earlier-resolutions') }),
]);

/** Collects blocks of one message and knows its size while it grows. */
export class RangeEncoder {
  readonly #start: { readonly from: number; readonly parentHash?: Hash };
  readonly #texts: string[] = [];
  #bytes = 0;
  #matches = false;
  #resolutions = false;

  /** Without `parentHash` the message holds earlier resolutions. */
  constructor(start: { readonly from: number; readonly parentHash?: Hash }) {
    this.#start = start;
  }

  /** Bytes of JSON so far. */
  get bytes(): number {
    return this.#bytes;
  }

  get from(): number {
    return this.#start.from;
  }

  /** Appends a block; blocks come in ascending order. */
  add(block: Block): void {
    const text = blockText(block);
    this.#texts.push(text);
    this.#bytes += text.length;
    this.#matches ||= block.matches.length > 0;
    this.#resolutions ||= block.resolutions.length > 0;
  }

  /** The message that covers everything up to block `to`. Throws RangeError when it is too large to be read. */
  encode(to: number): EncodedRange {
    const { from, parentHash } = this.#start;
    const kind = parentHash === undefined ? { kind: 'earlier-resolutions' } : { parentHash };
    const head = JSON.stringify({ version: VERSION, from, to, ...kind });
    const json = Buffer.from(`${head.slice(0, -1)},"blocks":[${this.#texts.join(',')}]}`);
    if (json.length > RAW_BYTES_MAX) {
      throw new RangeError(`blocks ${from} to ${to} take ${json.length} bytes of JSON`);
    }
    return {
      subject: `ledger.block.${this.#matches ? 1 : 0}.${this.#resolutions ? 1 : 0}`,
      headers: { [VERSION_HEADER]: String(VERSION) },
      data: zstdCompressSync(json, {
        params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL },
      }),
    };
  }
}

/** Encodes a whole message. */
export function encodeRange(message: BlockRange): EncodedRange {
  const { from, to, blocks } = message;
  const encoder = new RangeEncoder(
    message.kind === 'blocks' ? { from, parentHash: message.parentHash } : { from },
  );
  for (const block of blocks) encoder.add(block);
  return encoder.encode(to);
}

/** JSON of a block. Without a replacer, which takes three times as long. */
function blockText({ number, hash, time, matches, resolutions, refused }: Block): string {
  return JSON.stringify({
    number,
    hash,
    time,
    matches: matches.map(({ txHash, logIndex, exchange, conditionId, fills }) => ({
      txHash,
      logIndex,
      exchange,
      conditionId,
      fills: fills.map((fill) => ({
        ...fill,
        shares: fill.shares.toString(),
        usdc: fill.usdc.toString(),
        fee: fill.fee.toString(),
      })),
    })),
    resolutions: resolutions.map(({ txHash, logIndex, conditionId, payouts }) => ({
      txHash,
      logIndex,
      conditionId,
      payouts: payouts.map(String),
    })),
    refused: refused.map(({ reason, txHash, logIndex, detail }) => ({
      reason,
      txHash,
      logIndex,
      detail,
    })),
  });
}

/** What a reader needs of a stored message. */
type StoredMessage = {
  readonly sequence: number;
  readonly data: Uint8Array;
  header(name: string): string;
};

/** Reads a message. Throws UnreadableLedgerError, which names its sequence. */
export function decodeRange(message: StoredMessage): BlockRange {
  const version = message.header(VERSION_HEADER);
  if (version === '') throw unreadable(message, 'it has no format version', UPGRADE_FROM_0_1);
  if (version !== String(VERSION)) {
    throw unreadable(
      message,
      `format version ${version} is unknown, this version reads ${VERSION}`,
    );
  }
  try {
    const json = zstdDecompressSync(message.data, { maxOutputLength: RAW_BYTES_MAX });
    return checked(StoredRange.parse(JSON.parse(json.toString())));
  } catch (error) {
    throw unreadable(message, error instanceof z.ZodError ? z.prettifyError(error) : String(error));
  }
}

const UPGRADE_FROM_0_1 =
  '. Data of version 0.1 cannot be read: keep or delete the old data directory and start with an empty one';

function unreadable({ sequence }: StoredMessage, why: string, hint = ''): UnreadableLedgerError {
  return new UnreadableLedgerError(`LEDGER message ${sequence} cannot be read: ${why}${hint}`);
}

function checked({ blocks: stored, ...message }: z.output<typeof StoredRange>): BlockRange {
  const { from, to } = message;
  const blocks = stored.map(blockOf);
  let before = from - 1;
  for (const { number } of blocks) {
    if (number <= before) throw new RangeError(`block ${number} is out of order`);
    before = number;
  }
  if (before > to) throw new RangeError(`block ${before} is behind the end of the range, ${to}`);
  if (!('parentHash' in message)) return { kind: 'earlier-resolutions', from, to, blocks };
  if (before !== to) throw new RangeError(`the last block, ${to}, is missing`);
  return { kind: 'blocks', from, to, parentHash: message.parentHash, blocks };
}

function blockOf({ number, hash, time, ...events }: StoredBlock): Block {
  const at = { blockNumber: number, blockTime: time };
  return {
    number,
    hash,
    time,
    matches: events.matches.map((match) => ({ kind: 'match', ...at, ...match })),
    resolutions: events.resolutions.map((one) => ({ kind: 'resolution', ...at, ...one })),
    refused: events.refused.map((one) => ({ kind: 'refused', blockNumber: number, ...one })),
  };
}

/** Matches and resolutions of a block in log order. */
export function eventsOf({ matches, resolutions }: Block): readonly (Match | Resolution)[] {
  if (resolutions.length === 0) return matches;
  return [...matches, ...resolutions].sort((a, b) => a.logIndex - b.logIndex);
}
