/**
 * The command line of the ingest process: none, `backfill` and `rewind`. Everything else comes from
 * environment variables (infra/config.ts).
 */
import { parseArgs } from 'node:util';
import { z } from 'zod';

export const HELP = `Fillstream's ingest: final blocks to LEDGER, pending matches to FEED.

  node ingest/main.ts
      Follows the chain: from START_BLOCK into an empty LEDGER, else from where LEDGER ends.

  node ingest/main.ts backfill --from-block N [--to-block M] [--resolutions-from-block R]
      The same from block N into an empty LEDGER, or on with a backfill that was interrupted.
      With --to-block it ends after block M, without the feed, with code 0.
      Conditions that were resolved in the blocks R to N - 1 are published first
      (default R: the first block of the chain's ConditionalTokens).

  node ingest/main.ts rewind --to-block N [--yes]
      Says what removing everything after block N from LEDGER would remove; with --yes, removes it.
      For a final block that was replaced: see docs/operations.md. Ingest must not be running.

Exit codes: 0 done or stopped, 1 failed, 2 wrong command line, 3 a final block was replaced.
Settings are environment variables; docs/configuration.md lists them.
`;

/** The command line is wrong; the message is for the user. */
export class UsageError extends Error {}

const BlockNumber = z
  .string('is needed')
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
  });
const Rewind = z.strictObject({ 'to-block': BlockNumber, yes: z.boolean().default(false) });

export type Command =
  | { readonly name: 'help' }
  | { readonly name: 'follow' }
  | {
      readonly name: 'backfill';
      readonly fromBlock: number;
      readonly toBlock: number | undefined;
      readonly resolutionsFrom: number | undefined;
    }
  | { readonly name: 'rewind'; readonly toBlock: number; readonly yes: boolean };

/** Reads the arguments. Throws UsageError that names what is wrong. */
export function readCommand(args: readonly string[]): Command {
  const { values, positionals } = parsed(args);
  if (values.help === true) return { name: 'help' };
  const [name = 'follow', ...rest] = positionals;
  if (rest.length > 0) throw new UsageError(`unexpected: ${rest.join(' ')}`);
  switch (name) {
    case 'follow':
      checked(z.strictObject({}), values);
      return { name };
    case 'backfill': {
      const given = checked(Backfill, values);
      return {
        name,
        fromBlock: given['from-block'],
        toBlock: given['to-block'],
        resolutionsFrom: given['resolutions-from-block'],
      };
    }
    case 'rewind': {
      const given = checked(Rewind, values);
      return { name, toBlock: given['to-block'], yes: given.yes };
    }
    default:
      throw new UsageError(`unknown command: ${name}`);
  }
}

function parsed(args: readonly string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        'from-block': text,
        'to-block': text,
        'resolutions-from-block': text,
        yes: flag,
        help: flag,
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
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
