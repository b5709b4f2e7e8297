/** `npm run ledger`: prints a block of LEDGER, or removes the blocks after one. */
import { z } from 'zod';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { runCommand } from '../infra/command.ts';
import { NatsConfig, readConfig } from '../infra/config.ts';
import { ExpectedError, UsageError } from '../infra/expected.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { type LedgerMessage, messageAt } from '../ingest/ledger/ledger.ts';
import { createStreams, INGEST_BUCKET } from '../ingest/streams.ts';
import { planRewind, rewind } from './rewind.ts';

const HELP = `LEDGER of Fillstream.

  npm run ledger -- show BLOCK
  npm run ledger -- rewind --to-block N [--yes]

  show     prints a block: its events, and the block range of its message. LEDGER does not list a
           block without events unless it is the last of its range; for such a block, only the
           range is printed
  rewind   shows what a rewind to block N would remove; with --yes, removes it. For use after a
           final block was replaced: see docs/operations.md. Stop ingest first

Both use NATS_URL and NATS_REPLICAS like the processes (npm start shows the URL of its own server).`;

const BlockNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

await runCommand('ledger', main);

async function main(): Promise<undefined> {
  const { values, positionals } = readArguments(
    { allowPositionals: true, options: { 'to-block': text, yes: flag, help: flag } },
    HELP,
  );
  if (values.help === true) return void process.stdout.write(`${HELP}\n`);
  const { 'to-block': toBlock, yes = false } = values;
  const [name, ...rest] = positionals;
  if (name === 'show' && toBlock === undefined && !yes) {
    const block = blockOf(rest, 'BLOCK');
    await withNats((nats) => showBlock(nats, block));
  } else if (name === 'rewind' && rest.length === 0) {
    const block = blockOf(toBlock === undefined ? [] : [toBlock], '--to-block');
    await withNats(async (nats, replicas) => {
      await createStreams(nats, replicas);
      const kv = await openKv(nats, INGEST_BUCKET, { replicas });
      await runRewind(nats, kv, { toBlock: block, yes });
    });
  } else throw new UsageError(`unknown command: ${[name, ...rest].join(' ').trim()}`, HELP);
}

/** Throws UsageError unless there is one block number. */
function blockOf(given: readonly string[], name: string): number {
  const [block, ...more] = given;
  const number = BlockNumber.safeParse(block);
  if (number.success && more.length === 0) return number.data;
  throw new UsageError(`${name} must be a block number`, HELP);
}

async function withNats(use: (nats: Nats, replicas: number) => Promise<void>): Promise<void> {
  const config = readConfig(NatsConfig);
  const nats = await connectNats({ ...natsOptions(config), name: 'ledger', isPatient: false });
  try {
    await use(nats, config.NATS_REPLICAS);
  } finally {
    await nats.close();
  }
}

/** Prints what a rewind would remove; with `yes`, removes it. */
async function runRewind(
  nats: Nats,
  kv: Kv,
  { toBlock, yes }: { readonly toBlock: number; readonly yes: boolean },
): Promise<void> {
  const plan = await planRewind(nats, toBlock);
  const { keeps, newest, removed } = plan;
  const counts = Object.entries(removed).map(([kind, count]) => `${count} ${kind}`);
  process.stdout.write(
    `LEDGER keeps everything up to block ${keeps.number} (${keeps.hash}).\n` +
      `Removed: the blocks after it, up to ${newest}: ${counts.join(', ')}.\n`,
  );
  if (!yes) {
    process.stdout.write(
      'Nothing was removed. Add --yes to remove these blocks, then rebuild the projections.\n',
    );
    return;
  }
  await rewind(nats, kv, plan);
  process.stdout.write('Removed. Rebuild the projections before you start the projector again.\n');
}

/** Prints a block as JSON. Throws ExpectedError if LEDGER does not have it. */
async function showBlock(nats: Nats, block: number): Promise<void> {
  const message = await messageAt(nats, block);
  if (message === undefined) throw new ExpectedError(`LEDGER does not contain block ${block}`);
  process.stdout.write(`${describe(message, block)}\n`);
}

function describe({ sequence, storedAtMs, range }: LedgerMessage, number: number): string {
  const { blocks, ...message } = range;
  const block = blocks.find((listed) => listed.number === number) ?? null;
  const storedAt = new Date(storedAtMs).toISOString();
  return JSON.stringify(
    { message: { sequence, storedAt, ...message, listed: blocks.length }, block },
    (_key, value) => (typeof value === 'bigint' ? value.toString() : value),
    2,
  );
}
