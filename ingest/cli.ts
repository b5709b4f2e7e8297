/**
 * The command line of the ingest process, and the commands that inspect or repair LEDGER. All other configuration
 * comes from environment variables (infra/config.ts).
 */
import { z } from 'zod';
import { readArguments } from '../infra/command.ts';
import { NatsConfig, readConfig } from '../infra/config.ts';
import { ExpectedError, UsageError } from '../infra/expected.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { type LedgerMessage, messageAt } from './ledger/ledger.ts';
import { planRewind, rewind } from './ledger/rewind.ts';

export const HELP = `Fillstream's ingest: final blocks to LEDGER, pending matches to FEED.

  node ingest/main.ts
      Follows the chain from the end of LEDGER, or from START_BLOCK if LEDGER is empty.

  node ingest/main.ts backfill --from-block N [--to-block M] [--resolutions-from-block R]
      Fills an empty LEDGER from block N, or resumes an interrupted backfill.
      With --to-block it does not write the feed and exits with code 0 after block M.
      Before that, it stores the conditions that were resolved in blocks R to N - 1
      (default R: the first block of the chain's ConditionalTokens).

  node ingest/main.ts rewind --to-block N [--yes]
      Shows what a rewind to block N would remove from LEDGER; with --yes, removes it.
      For use after a final block was replaced: see docs/operations.md. Stop ingest first.

  node ingest/main.ts ledger show BLOCK        (npm run ledger -- show BLOCK)
      Prints a block of LEDGER: its events, and the block range of its message. LEDGER does not
      list a block without events unless it is the last of its range; for such a block, only the
      range is printed. Needs only NATS_URL (npm start prints the URL of its server).

Exit codes: 0 done or stopped, 1 failed, 2 invalid command line, 3 a final block was replaced.
Settings are environment variables; docs/configuration.md lists them.
`;

const BlockNumber = z
  .string('is required')
  .regex(/^\d{1,15}$/, 'must be a block number')
  .transform(Number);
const Backfill = z
  .strictObject({
    'from-block': BlockNumber,
    'to-block': BlockNumber.optional(),
    'resolutions-from-block': BlockNumber.optional(),
  })
  .refine((given) => given['from-block'] <= (given['to-block'] ?? Number.POSITIVE_INFINITY), {
    path: ['to-block'],
    message: 'must not be before --from-block',
  })
  .transform((given) => ({
    fromBlock: given['from-block'],
    toBlock: given['to-block'],
    resolutionsFrom: given['resolutions-from-block'],
  }));
const Rewind = z
  .strictObject({ 'to-block': BlockNumber, yes: z.boolean().default(false) })
  .transform((given) => ({ toBlock: given['to-block'], yes: given.yes }));
const NoOptions = z.strictObject({});

export type Command = ReturnType<typeof readCommand>;

/** Parses the arguments. Throws UsageError naming the invalid one. */
export function readCommand(args: readonly string[]) {
  const { values, positionals } = parsed(args);
  if (values.help === true) return { name: 'help' as const };
  const [name = 'follow', ...rest] = positionals;
  if (rest.length > 0 && name !== 'ledger') {
    throw new UsageError(`unexpected: ${rest.join(' ')}`);
  }
  switch (name) {
    case 'ledger': {
      checked(NoOptions, values);
      const [show, block, ...more] = rest;
      const number = BlockNumber.safeParse(block);
      if (show !== 'show' || !number.success || more.length > 0) {
        throw new UsageError('usage: ledger show BLOCK');
      }
      return { name: 'ledger' as const, block: number.data };
    }
    case 'follow':
      checked(NoOptions, values);
      return { name: 'follow' as const };
    case 'backfill':
      return { name: 'backfill' as const, ...checked(Backfill, values) };
    case 'rewind':
      return { name: 'rewind' as const, ...checked(Rewind, values) };
    default:
      throw new UsageError(`unknown command: ${name}`);
  }
}

function parsed(args: readonly string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  return readArguments(
    {
      args: [...args],
      allowPositionals: true,
      options: {
        'from-block': text,
        'to-block': text,
        'resolutions-from-block': text,
        yes: flag,
        help: flag,
      },
    },
    '',
  );
}

function checked<T>(schema: z.ZodType<T>, values: object): T {
  const result = schema.safeParse(values);
  if (result.success) return result.data;
  const lines = result.error.issues.map((issue) => {
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [issue.path.join('.')];
    return `${names.map((name) => `--${name}`).join(', ')}: ${issue.message}`;
  });
  throw new UsageError(lines.join('\n'));
}

/** Prints what a rewind would remove; with `yes`, removes it. */
export async function runRewind(
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

/** `ledger show`: prints a block of LEDGER as JSON. Throws ExpectedError if LEDGER does not have it. */
export async function showBlock(block: number): Promise<undefined> {
  const message = await find(block);
  if (message === undefined) throw new ExpectedError(`LEDGER does not hold block ${block}`);
  process.stdout.write(`${describe(message, block)}\n`);
}

async function find(block: number): Promise<LedgerMessage | undefined> {
  const nats = await connectNats({
    ...natsOptions(readConfig(NatsConfig)),
    name: 'ledger',
    isPatient: false,
  });
  try {
    return await messageAt(nats, block);
  } finally {
    await nats.close();
  }
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
