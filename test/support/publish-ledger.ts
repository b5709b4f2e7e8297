/** Appends to LEDGER like ingest, without a chain. */
import type { Nats } from '../../infra/nats/connection.ts';
import { openWriter, type StreamWriter } from '../../infra/nats/writer.ts';
import type { LedgerEvent } from '../../ingest/contract.ts';
import {
  type Block,
  encodeRange,
  LEDGER_STREAM,
  lastBlock,
  newestMessage,
} from '../../ingest/ledger/ledger.ts';
import { blockHash, blocksOf } from './ledger-generator.ts';

/** Appends one message at a time to the end of LEDGER. */
export class TestLedger {
  readonly #writer: StreamWriter;
  #last: Block | undefined;

  private constructor(writer: StreamWriter, last: Block | undefined) {
    this.#writer = writer;
    this.#last = last;
  }

  static async open(nats: Nats): Promise<TestLedger> {
    const writer = await openWriter(nats, { stream: LEDGER_STREAM });
    const newest = await newestMessage(nats);
    const last = newest?.range.kind === 'blocks' ? lastBlock(newest.range) : undefined;
    return new TestLedger(writer, last);
  }

  /** Appends a message with these blocks, which must come after those of LEDGER; blocks in between are empty. */
  async publish(blocks: readonly Block[]): Promise<void> {
    const [first, last] = [blocks[0], blocks.at(-1)];
    if (first === undefined || last === undefined) return;
    const from = this.#last === undefined ? first.number : this.#last.number + 1;
    if (first.number < from) throw new RangeError(`block ${first.number} is already in LEDGER`);
    const parentHash = this.#last?.hash ?? blockHash(from - 1);
    const { number: to } = last;
    const message = encodeRange({ kind: 'blocks', from, to, parentHash, blocks });
    await this.#writer.append({ id: `test:${to}`, ...message });
    this.#last = last;
  }

  close(): void {
    this.#writer.close();
  }
}

/** Appends the blocks of these events, `blocksPerMessage` in each message. */
export async function publishEvents(
  nats: Nats,
  events: Iterable<LedgerEvent>,
  blocksPerMessage = 1,
  of: Pick<Block, 'coversMovements'> = {},
): Promise<void> {
  const ledger = await TestLedger.open(nats);
  let some: Block[] = [];
  for (const block of blocksOf(events, of)) {
    some.push(block);
    if (some.length < blocksPerMessage) continue;
    await ledger.publish(some);
    some = [];
  }
  await ledger.publish(some);
  ledger.close();
}
