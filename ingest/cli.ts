/**
 * The command line of the ingest process. All other configuration comes from environment variables (infra/config.ts).
 */
import { z } from 'zod';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { UsageError } from '../infra/expected.ts';

export const HELP = `Fillstream's ingest: final blocks to LEDGER, pending matches to FEED.

  node ingest/main.ts
      Follows the chain from the end of LEDGER, or from START_BLOCK if LEDGER is empty.

  node ingest/main.ts backfill --from-block N [--to-block M] [--resolutions-from-block R]
      Fills an empty LEDGER from block N, or resumes an interrupted backfill.
      With --to-block it does not write the feed and exits with code 0 after block M.
      Before that, it stores the conditions that were resolved in blocks R to N - 1
      (default R: the first block of the chain's ConditionalTokens).

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
const NoOptions = z.strictObject({});

export type Command = ReturnType<typeof readCommand>;

/** Parses the arguments. Throws UsageError naming the invalid one. */
export function readCommand(args: readonly string[]) {
  const options = {
    'from-block': text,
    'to-block': text,
    'resolutions-from-block': text,
    help: flag,
  };
  const { values, positionals } = readArguments({
    args: [...args],
    allowPositionals: true,
    options,
  });
  if (values.help === true) return { name: 'help' as const };
  const [name = 'follow', ...rest] = positionals;
  if (rest.length > 0) throw new UsageError(`unexpected: ${rest.join(' ')}`);
  switch (name) {
    case 'follow':
      checked(NoOptions, values);
      return { name: 'follow' as const };
    case 'backfill':
      return { name: 'backfill' as const, ...checked(Backfill, values) };
    default:
      throw new UsageError(`unknown command: ${name}`);
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
