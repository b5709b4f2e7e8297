/**
 * The JetStream stream LEDGER: final blocks in chain order, one compressed message for each block or range of
 * blocks. Contains the message format, the codec, and the reads that ingest, projector and api share.
 * docs/ledger.md describes the format; test/fixtures/ledger-1.json pins it.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { ExpectedError } from '../../infra/expected.ts';
import { type Nats, streamState } from '../../infra/nats/connection.ts';
import {
  getMessage,
  readRange,
  refuseDamage,
  StreamDamagedError,
  type StreamMessage,
  storedSince,
} from '../../infra/nats/reader.ts';
import {
  type EventList,
  Hash,
  Index,
  LEDGER_EVENTS,
  type LedgerEvent,
  Refused,
  toJson,
} from '../contract.ts';

export const LEDGER_STREAM = 'LEDGER';
/** `ledger.block.<has matches>.<has resolutions>`, each 0 or 1. */
export const LEDGER_SUBJECTS = 'ledger.block.*.*';
export const MATCHES_SUBJECT = 'ledger.block.1.*';
export const RESOLUTIONS_SUBJECT = 'ledger.block.*.1';
/** Largest message, bytes. */
export const LEDGER_MESSAGE_BYTES_MAX = 8 * 1_048_576;

/** Format version that this code writes and the only one that it reads. */
const VERSION = 1;
/** Header with the format version; a message without it was not written by this version. */
export const VERSION_HEADER = 'Fillstream-Ledger';
/** Blocks are collected in one message up to this size of its JSON, bytes; a single block may be larger. */
const RANGE_BYTES_MAX = 512 * 1_024;
/** Largest JSON text that is read, bytes. The busiest block of Polygon takes about 1 MB. */
const RAW_BYTES_MAX = 64 * 1_048_576;
/** Higher levels gain nothing: the rest is random hashes and addresses. */
const ZSTD_LEVEL = 1;

/** A final block and its events in log order. */
export type Block = {
  readonly number: number;
  readonly hash: Hash;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly events: readonly LedgerEvent[];
  readonly refused: readonly Refused[];
  /** Whether its movements were read. If not, shares may have moved without one. */
  readonly coversMovements?: true;
};

export type BlockRef = Pick<Block, 'number' | 'hash'>;

export function emptyBlock({ number, hash, time }: Pick<Block, 'number' | 'hash' | 'time'>): Block {
  return { number, hash, time, events: [], refused: [] };
}

/**
 * One message. `blocks` of a range of final blocks holds the non-empty ones, and always `to`. Resolutions of
 * blocks before the first range (`earlier-resolutions`) have no parent and cover no block.
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

/** This version cannot read a LEDGER message. Skipping it would lose its fills. */
export class UnreadableLedgerError extends ExpectedError {}

const LISTS = Object.keys(LEDGER_EVENTS) as EventList[];
/** The other lists are stored if ingest watches movements. */
const ALWAYS_STORED: readonly EventList[] = ['matches', 'resolutions'];
/** Stored once per block, not with each event. */
const OF_BLOCK = { kind: true, blockNumber: true, blockTime: true } as const;
const StoredLists = Object.fromEntries(
  Object.entries(LEDGER_EVENTS).map(([list, event]) => [
    list,
    z.array((event as z.ZodObject).omit(OF_BLOCK)),
  ]),
) as Record<EventList, z.ZodArray<z.ZodObject>>;
const StoredBlock = z.object({
  number: Index,
  hash: Hash,
  time: Index,
  ...StoredLists,
  // Missing if ingest did not watch movements.
  markets: StoredLists.markets.optional(),
  movements: StoredLists.movements.optional(),
  refused: z.array(Refused.omit({ kind: true, blockNumber: true })),
});

const range = { version: z.literal(VERSION), from: Index, to: Index, blocks: z.array(StoredBlock) };
const StoredRange = z.union([
  z.object({ ...range, parentHash: Hash }),
  z.object({ ...range, kind: z.literal('earlier-resolutions') }),
]);

/** Collects the blocks of one message up to RANGE_BYTES_MAX. */
export class RangeEncoder {
  readonly #start: { readonly from: number; readonly parentHash?: Hash };
  readonly #blocks: Block[] = [];
  readonly #texts: string[] = [];
  #bytes = 0;

  /** Without `parentHash` the message holds earlier resolutions. */
  constructor(start: { readonly from: number; readonly parentHash?: Hash }) {
    this.#start = start;
  }

  get isEmpty(): boolean {
    return this.#blocks.length === 0;
  }

  /** Appends a block, in ascending order. Returns false and appends nothing if the message is full. */
  add(block: Block): boolean {
    const text = blockText(block);
    if (this.#blocks.length > 0 && this.#bytes + text.length > RANGE_BYTES_MAX) return false;
    this.#append(block, text);
    return true;
  }

  /** The message that ends with `last`, which is appended unless it was added before. */
  endWith(last: Block): EncodedRange {
    if (this.#blocks.at(-1)?.number !== last.number) this.#append(last, blockText(last));
    return this.endAt(last.number);
  }

  /** The message that ends with block `to`. Throws RangeError if it is too large to be read. */
  endAt(to: number): EncodedRange {
    return encoded({ ...this.#start, to }, this.#blocks, this.#texts);
  }

  #append(block: Block, text: string): void {
    this.#blocks.push(block);
    this.#texts.push(text);
    this.#bytes += text.length;
  }
}

/** Encodes a message of any size. */
export function encodeRange(range: BlockRange): EncodedRange {
  const { from, to, blocks } = range;
  const parent = range.kind === 'blocks' ? { parentHash: range.parentHash } : {};
  return encoded({ from, to, ...parent }, blocks, blocks.map(blockText));
}

function encoded(
  head: { readonly from: number; readonly to: number; readonly parentHash?: Hash },
  blocks: readonly Block[],
  texts: readonly string[],
): EncodedRange {
  const { from, to, parentHash } = head;
  const kind = parentHash === undefined ? { kind: 'earlier-resolutions' } : { parentHash };
  const start = JSON.stringify({ version: VERSION, from, to, ...kind });
  const json = Buffer.from(`${start.slice(0, -1)},"blocks":[${texts.join(',')}]}`);
  if (json.length > RAW_BYTES_MAX) {
    throw new RangeError(`blocks ${from} to ${to} take ${json.length} bytes of JSON`);
  }
  return encodeJson(json, blocks);
}

/** The message with this JSON, which holds these blocks. */
export function encodeJson(json: Uint8Array | string, blocks: readonly Block[]): EncodedRange {
  const has = (list: EventList) => (eventsOf(list, blocks).length > 0 ? 1 : 0);
  return {
    subject: `ledger.block.${has('matches')}.${has('resolutions')}`,
    headers: { [VERSION_HEADER]: String(VERSION) },
    data: zstdCompressSync(json, { params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } }),
  };
}

function blockText({ number, hash, time, events, refused, coversMovements }: Block): string {
  const lists = LISTS.map(
    (list) =>
      [
        list,
        eventsOf(list, [{ events }]).map(({ kind, blockNumber, blockTime, ...event }) => event),
      ] as const,
  ).filter(([list, some]) => coversMovements || ALWAYS_STORED.includes(list) || some.length > 0);
  return toJson({
    number,
    hash,
    time,
    ...Object.fromEntries(lists),
    refused: refused.map(({ reason, txHash, logIndex, detail }) => ({
      reason,
      txHash,
      logIndex,
      detail,
    })),
  });
}

/** The fields of a stored message that a reader needs. */
type StoredMessage = {
  readonly sequence: number;
  readonly data: Uint8Array;
  header(name: string): string;
};

/** Reads a message. Throws UnreadableLedgerError, which names its sequence. */
export function decodeRange(message: StoredMessage): BlockRange {
  return parseRange(jsonOf(message), nameOf(message));
}

/** Reads the JSON of a message. Throws UnreadableLedgerError, which begins with `name`. */
export function parseRange(json: string, name: string): BlockRange {
  try {
    return checked(StoredRange.parse(JSON.parse(json)));
  } catch (error) {
    throw unreadable(name, error instanceof z.ZodError ? z.prettifyError(error) : String(error));
  }
}

function jsonOf(message: StoredMessage): string {
  const version = message.header(VERSION_HEADER);
  const name = nameOf(message);
  if (version === '') throw unreadable(name, 'it has no format version', UPGRADE_FROM_0_1);
  if (version !== String(VERSION)) {
    throw unreadable(name, `format version ${version} is unknown; this version reads ${VERSION}`);
  }
  try {
    return zstdDecompressSync(message.data, { maxOutputLength: RAW_BYTES_MAX }).toString();
  } catch (error) {
    throw unreadable(name, String(error));
  }
}

function nameOf({ sequence }: StoredMessage): string {
  return `LEDGER message ${sequence}`;
}

const UPGRADE_FROM_0_1 =
  '. Data of version 0.1 cannot be read: keep or delete the old data directory and start with an empty one';

function unreadable(name: string, why: string, hint = ''): UnreadableLedgerError {
  return new UnreadableLedgerError(`${name} cannot be read: ${why}${hint}`);
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

function blockOf({ number, hash, time, refused, ...lists }: z.output<typeof StoredBlock>): Block {
  const at = { blockNumber: number, blockTime: time };
  const events = LISTS.flatMap((list) => {
    const kind = LEDGER_EVENTS[list].shape.kind.value;
    return (lists[list] ?? []).map((event) => ({ kind, ...at, ...event }) as LedgerEvent);
  });
  return {
    number,
    hash,
    time,
    // Movements of one log stay in their order.
    events: events.sort((a, b) => a.logIndex - b.logIndex),
    refused: refused.map((one) => ({ kind: 'refused', blockNumber: number, ...one })),
    ...(lists.movements === undefined ? {} : { coversMovements: true }),
  };
}

/** The events of one kind in these blocks. */
export function eventsOf<List extends EventList>(
  list: List,
  blocks: readonly Pick<Block, 'events'>[],
): z.infer<(typeof LEDGER_EVENTS)[List]>[] {
  const kind: LedgerEvent['kind'] = LEDGER_EVENTS[list].shape.kind.value;
  const isOfKind = (event: LedgerEvent): event is z.infer<(typeof LEDGER_EVENTS)[List]> =>
    event.kind === kind;
  return blocks.flatMap(({ events }) => events.filter(isOfKind));
}

/** The number of events in these blocks, by list; fills are counted, too. */
export type Counts = Readonly<Record<(typeof COUNTED)[number], number>>;
export const COUNTED = [...LISTS, 'fills', 'refused'] as const;

export function countsOf(blocks: readonly Block[]): Counts {
  const lists = LISTS.map((list) => [list, eventsOf(list, blocks).length] as const);
  const fills = eventsOf('matches', blocks).reduce((sum, match) => sum + match.fills.length, 0);
  const refused = blocks.reduce((sum, block) => sum + block.refused.length, 0);
  return { ...(Object.fromEntries(lists) as Record<EventList, number>), fills, refused };
}

export function addCounts(a: Counts, b: Counts): Counts {
  return Object.fromEntries(COUNTED.map((what) => [what, a[what] + b[what]])) as Counts;
}

/** A stored message. */
export type LedgerMessage = {
  readonly sequence: number;
  /** When the server stored it, milliseconds since the epoch by its own clock. */
  readonly storedAtMs: number;
  readonly range: BlockRange;
  /** The range as it is stored, before compression. */
  readonly json: string;
};

function ledgerMessage(message: StreamMessage): LedgerMessage {
  const { sequence, timestampMs } = message;
  const json = jsonOf(message);
  return { sequence, storedAtMs: timestampMs, range: parseRange(json, nameOf(message)), json };
}

export type BlocksMessage = LedgerMessage & {
  readonly range: BlockRange & { readonly kind: 'blocks' };
};

/** The oldest message with blocks, before which only earlier resolutions come. Throws UnreadableLedgerError. */
export async function oldestBlocks(nats: Nats): Promise<BlocksMessage | undefined> {
  const { firstSequence } = await streamState(nats, LEDGER_STREAM);
  const first = await firstFrom(nats, firstSequence);
  if (first === undefined) return undefined;
  const message = ledgerMessage(first);
  if (isBlocks(message)) return message;
  for await (const one of storedMessages(nats, first)) if (isBlocks(one)) return one;
  return undefined;
}

function isBlocks(message: LedgerMessage): message is BlocksMessage {
  return message.range.kind === 'blocks';
}

/** The newest message. A deleted end is tolerated. Throws UnreadableLedgerError. */
export async function newestMessage(nats: Nats): Promise<LedgerMessage | undefined> {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  return messageUpTo(nats, lastSequence);
}

/** The newest message up to this sequence. Throws UnreadableLedgerError. */
export async function messageUpTo(
  nats: Nats,
  sequence: number,
): Promise<LedgerMessage | undefined> {
  let found: StreamMessage | undefined;
  let low = 1;
  for (let high = sequence; low <= high; ) {
    // The first guess is right unless messages were deleted there.
    const middle: number = high === sequence ? high : Math.floor((low + high) / 2);
    const message = await firstFrom(nats, middle);
    if (message === undefined || message.sequence > sequence) high = middle - 1;
    else {
      found = message;
      low = message.sequence + 1;
    }
  }
  return found === undefined ? undefined : ledgerMessage(found);
}

/**
 * The message whose range includes the block; undefined if LEDGER does not cover it. Blocks are in the order of
 * sequences, so this is a binary search; deleted messages are skipped. Throws UnreadableLedgerError.
 */
export async function messageAt(nats: Nats, block: number): Promise<LedgerMessage | undefined> {
  const { firstSequence, lastSequence } = await streamState(nats, LEDGER_STREAM);
  let [low, high] = [firstSequence, lastSequence];
  let found: LedgerMessage | undefined;
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const message = await firstFrom(nats, middle);
    if (message === undefined || message.sequence > high) {
      high = middle - 1;
      continue;
    }
    const one = ledgerMessage(message);
    if (isAfter(one.range, block)) high = middle - 1;
    else {
      found = one;
      low = message.sequence + 1;
    }
  }
  const covers = found?.range.kind === 'blocks' && block <= found.range.to;
  return covers ? found : undefined;
}

/** Earlier resolutions come before every range of blocks. */
function isAfter(range: BlockRange, block: number): boolean {
  return range.kind === 'blocks' && range.from > block;
}

/** The first message at or after a sequence. */
async function firstFrom(nats: Nats, sequence: number): Promise<StreamMessage | undefined> {
  const message = await getMessage(nats, LEDGER_STREAM, sequence);
  if (message !== undefined) return message;
  await readable(refuseDamage(nats, LEDGER_STREAM, sequence));
  const [next] = await readRange(nats, LEDGER_STREAM, sequence, 1);
  return next;
}

/** Every message from a sequence or a time up to the current end of LEDGER. Throws UnreadableLedgerError. */
export async function* storedMessages(
  nats: Nats,
  start: { readonly sequence: number } | { readonly timeMs: number },
): AsyncGenerator<LedgerMessage> {
  const messages = storedSince(nats, LEDGER_STREAM, start);
  for (;;) {
    const { value, done } = await readable(messages.next());
    if (done === true) return;
    yield ledgerMessage(value);
  }
}

/** The error for a damaged LEDGER, with the remedy. */
async function readable<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof StreamDamagedError)) throw error;
    throw new UnreadableLedgerError(error.message);
  }
}

/** LEDGER lacks the messages between these two, which the server does not distinguish from deleted ones. */
export function missingMessages(before: number, next: number): UnreadableLedgerError {
  const what =
    before + 2 === next ? `message ${before + 1}` : `messages ${before + 1} to ${next - 1}`;
  return new UnreadableLedgerError(`LEDGER is damaged: ${what} cannot be read. ${REPAIR}`);
}

const REPAIR = 'Restore or read it again: docs/operations.md, "Damaged data".';

/** The newest block of a range of blocks, which always lists it. */
export function lastBlock(range: BlockRange & { readonly kind: 'blocks' }): Block {
  const block = range.blocks.at(-1);
  if (block === undefined) throw new RangeError(`the range to ${range.to} holds no block`);
  return block;
}
