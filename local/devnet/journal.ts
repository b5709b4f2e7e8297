/**
 * The devnet's chain on disk: every block with its transactions, written and synced before the next block is mined. A
 * block is final when two more follow, so no kill loses a block that ingest has seen as final. The next start replays
 * the blocks into an empty anvil, which gives them the same hashes.
 *
 * Files in the directory, with N the number of a block: `N.blocks` has the blocks after N, one JSON line each;
 * `N.state` is anvil's state after block N. The first state is the one after the history. If old blocks may be
 * dropped, a segment ends after SEGMENT_BLOCKS: a second anvil replays it and writes the next state. A start
 * begins with the oldest state: the second newest one, or an older one if a block since is not in LEDGER yet.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { open, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Hex } from 'viem';
import { z } from 'zod';
import { ORDERED_CALLS_MAX, type Rpc } from './rpc.ts';

/** Two minutes. A start replays two or three segments, at 15 to 30 blocks a second with the default trading rate. */
const SEGMENT_BLOCKS = 60;
/** Headers kept in a state, because ingest compares hashes near the end of LEDGER. */
const HEADERS_KEPT = 256;
const RECORD_BLOCKS_MAX = 50;
/** How many of the newest blocks a reorganisation may replace. */
const REPLACED_BLOCKS_MAX = 64;

const Line = z.object({
  number: z.number(),
  hash: z.string(),
  /** Unix seconds. */
  time: z.number(),
  /** Signed. */
  transactions: z.array(z.string()),
});
type Line = z.infer<typeof Line>;
/** A block of the newest segment. */
type Recorded = Pick<Line, 'number' | 'hash'> & {
  /** Length of its line. */
  readonly bytes: number;
};

/** The part of anvil's state file that is rewritten. */
type State = {
  blocks: { readonly header: { readonly number: Hex } }[];
  transactions: unknown[];
};

/** The chain in the directory cannot be replayed. */
class JournalError extends Error {}

/** Runs an anvil on a state until `use` is done, then writes its state. */
export type Replayer = (
  loadState: string | undefined,
  dumpState: string,
  use: (rpc: Rpc) => Promise<void>,
) => Promise<void>;

export class Journal {
  readonly #directory: string;
  readonly #replayer: Replayer | undefined;
  readonly #segmentBlocks: number;
  /** Numbers of the blocks before each segment. */
  #segments: number[];
  /** The newest blocks of the newest segment. */
  #newest: Recorded[] = [];
  /** Blocks in the newest segment. */
  #count = 0;
  /** Bytes of whole lines in the newest segment. */
  #size = 0;
  #recording: Promise<void> = Promise.resolve();
  #folding: Promise<void> | undefined;
  #isClosed = false;

  /** Without a replayer, old blocks are never dropped. */
  constructor(directory: string, replayer?: Replayer, segmentBlocks = SEGMENT_BLOCKS) {
    this.#segmentBlocks = segmentBlocks;
    mkdirSync(directory, { recursive: true });
    this.#directory = directory;
    this.#replayer = replayer;
    const numbers = readdirSync(directory).flatMap((name) =>
      /^\d+\.(?:blocks|state)$/.test(name) ? [Number.parseInt(name, 10)] : [],
    );
    this.#segments = numbers.length === 0 ? [0] : [...new Set(numbers)].sort((a, b) => a - b);
  }

  /** The block whose state an anvil starts with, before `replay`. All later blocks are kept. */
  get base(): number {
    return this.#withState()[0] ?? this.#segments[0] ?? 0;
  }

  /** The state of `base`; undefined for an empty chain. */
  get state(): string | undefined {
    return this.#stateOf(this.base);
  }

  /** Mines the blocks after the state again. Throws JournalError if a hash differs. */
  async replay(rpc: Rpc): Promise<void> {
    const { base } = this;
    for (const segment of this.#segments.filter((one) => one >= base)) {
      this.#startCounting();
      for (const { line, bytes } of linesOf(this.#file(segment, 'blocks'))) {
        await mine(rpc, line);
        this.#countLine(line, bytes);
      }
    }
  }

  /** Number of the newest block; 0 if there is none. */
  get head(): number {
    return this.#newest.at(-1)?.number ?? Math.max(...this.#segments);
  }

  clear(): void {
    rmSync(this.#directory, { recursive: true, force: true });
    mkdirSync(this.#directory);
    this.#segments = [0];
    this.#startCounting();
  }

  /** Writes all new blocks; resolves when they are on disk. */
  record(rpc: Rpc): Promise<void> {
    const recording = this.#recording.catch(() => undefined).then(() => this.#record(rpc));
    this.#recording = recording;
    return recording;
  }

  async #record(rpc: Rpc): Promise<void> {
    await this.#dropReplaced(rpc);
    const head = Number(await rpc.call<Hex>('eth_blockNumber'));
    while (this.head < head) {
      const lines: Line[] = [];
      for (
        let number = this.head + 1;
        number <= head && lines.length < RECORD_BLOCKS_MAX;
        number++
      ) {
        lines.push(await readBlock(rpc, number));
      }
      await this.#append(lines);
    }
  }

  /** After a reorganisation, which only tests cause, the next write begins at the first replaced block. */
  async #dropReplaced(rpc: Rpc): Promise<void> {
    for (;;) {
      const last = this.#newest.at(-1);
      if (last === undefined) return;
      const at = `0x${last.number.toString(16)}`;
      const block = await rpc.call<{ hash: string } | null>('eth_getBlockByNumber', at, false);
      if (block?.hash === last.hash) return;
      this.#newest.pop();
      this.#count--;
      this.#size -= last.bytes;
    }
  }

  /** Aborts the writing of a state. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#folding;
  }

  /** Begins with the state after the history. */
  async beginWith(state: Buffer, block: number): Promise<void> {
    const file = this.#file(block, 'state');
    await writeFile(`${file}.new`, state, { flush: true, mode: 0o600 });
    await rename(`${file}.new`, file);
    this.#segments = [block];
  }

  #begin(): void {
    this.#segments.push(this.head);
    this.#startCounting();
  }

  #startCounting(): void {
    this.#newest = [];
    this.#count = 0;
    this.#size = 0;
  }

  #countLine({ number, hash }: Line, bytes: number): void {
    this.#newest.push({ number, hash, bytes });
    if (this.#newest.length > REPLACED_BLOCKS_MAX) this.#newest.shift();
    this.#count++;
    this.#size += bytes;
  }

  /**
   * Begins a segment if the newest one is long enough and old blocks may be dropped. Writes its state in the
   * background, then drops old blocks up to `stored`, the newest block in LEDGER.
   */
  fold(stored: number): void {
    if (this.#replayer === undefined || this.#count < this.#segmentBlocks) return;
    if (this.#folding !== undefined) return;
    // After a failure, such as a full disk, the next segment tries again.
    this.#folding = this.#fold(this.#replayer, stored).catch((error: Error) => {
      if (!this.#isClosed) process.stderr.write(`devnet: keeping old blocks: ${error.message}\n`);
    });
    void this.#folding.then(() => {
      this.#folding = undefined;
    });
  }

  async #append(lines: readonly Line[]): Promise<void> {
    const texts = lines.map((line) => `${JSON.stringify(line)}\n`);
    const name = this.#file(this.#segments.at(-1) ?? 0, 'blocks');
    const file = await open(name, 'a', 0o600);
    try {
      // A full disk or a kill left a partial line.
      await file.truncate(this.#size);
      await file.appendFile(texts.join(''));
      await file.datasync();
    } finally {
      await file.close();
    }
    // All characters are ASCII, so each is one byte.
    for (const [i, line] of lines.entries()) this.#countLine(line, texts[i]?.length ?? 0);
  }

  /** Begins a segment, writes the state at its beginning, and drops old blocks. */
  async #fold(replayer: Replayer, stored: number): Promise<void> {
    const until = this.head;
    const first = this.#newestState();
    const older = this.#segments.filter((one) => one >= first);
    this.#removeUnfinished();
    this.#begin();
    const file = this.#file(until, 'state');
    await replayer(this.#stateOf(first), `${file}.new`, async (rpc) => {
      for (const segment of older) {
        for (const { line } of linesOf(this.#file(segment, 'blocks'))) {
          if (this.#isClosed) throw new JournalError('the devnet is stopping');
          await mine(rpc, line);
        }
      }
    });
    await writeFile(`${file}.new`, slim(await readFile(`${file}.new`, 'utf8')), { flush: true });
    await rename(`${file}.new`, file);
    const base = this.#withState()
      .slice(0, -1)
      .findLast((one) => one <= stored);
    for (const old of this.#segments.filter((one) => one < (base ?? 0))) {
      rmSync(this.#file(old, 'state'), { force: true });
      rmSync(this.#file(old, 'blocks'), { force: true });
    }
    this.#segments = this.#segments.filter((one) => one >= (base ?? 0));
  }

  /** States that a stop, a kill or a full disk left unfinished. */
  #removeUnfinished(): void {
    for (const name of readdirSync(this.#directory)) {
      if (name.endsWith('.state.new')) rmSync(join(this.#directory, name));
    }
  }

  #newestState(): number {
    return this.#withState().at(-1) ?? this.#segments[0] ?? 0;
  }

  #withState(): readonly number[] {
    const names = new Set(readdirSync(this.#directory));
    return this.#segments.filter((one) => names.has(`${one}.state`));
  }

  #stateOf(segment: number): string | undefined {
    return segment === 0 ? undefined : this.#file(segment, 'state');
  }

  #file(segment: number, kind: 'blocks' | 'state'): string {
    return join(this.#directory, `${segment}.${kind}`);
  }
}

/** The complete lines of a segment. The last line of a killed process may be cut off. */
function* linesOf(file: string): Generator<{ readonly line: Line; readonly bytes: number }> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw error;
  }
  const lines = text.split('\n');
  lines.pop();
  for (const [i, one] of lines.entries()) {
    let line: Line;
    try {
      line = Line.parse(JSON.parse(one));
    } catch {
      throw new JournalError(`${file}, line ${i + 1}, is damaged: delete the data directory`);
    }
    yield { line, bytes: one.length + 1 };
  }
}

async function mine(rpc: Rpc, { number, hash, time, transactions }: Line): Promise<void> {
  const calls = transactions.map((one) => ({ method: 'eth_sendRawTransaction', params: [one] }));
  for (let i = 0; i < calls.length; i += ORDERED_CALLS_MAX) {
    await rpc.batch(calls.slice(i, i + ORDERED_CALLS_MAX));
  }
  await rpc.call('evm_setNextBlockTimestamp', time);
  await rpc.call('evm_mine');
  const mined = await rpc.call<{ number: Hex; hash: string }>(
    'eth_getBlockByNumber',
    'latest',
    false,
  );
  if (Number(mined.number) === number && mined.hash === hash) return;
  throw new JournalError(`block ${number} has the hash ${mined.hash} after a replay, not ${hash}`);
}

async function readBlock(rpc: Rpc, number: number): Promise<Line> {
  const at = `0x${number.toString(16)}`;
  type Answer = { hash: string; timestamp: Hex; transactions: readonly string[] };
  const block = await rpc.call<Answer>('eth_getBlockByNumber', at, false);
  const transactions = await rpc.batch<string>(
    block.transactions.map((hash) => ({ method: 'eth_getRawTransactionByHash', params: [hash] })),
  );
  return {
    number,
    hash: block.hash,
    time: Number(block.timestamp),
    transactions: [...transactions],
  };
}

/** A state without old blocks and transactions. Empty storage stays: anvil counts it in the state's root. */
function slim(text: string): string {
  const state = JSON.parse(text) as State;
  state.blocks = state.blocks
    .sort((a, b) => Number(a.header.number) - Number(b.header.number))
    .slice(-HEADERS_KEPT);
  state.transactions = [];
  return JSON.stringify(state);
}
