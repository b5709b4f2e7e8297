/** Shared by the operators' commands: exit codes, and one clear line per error. */
import { ClickHouseError } from '@clickhouse/client';
import { clickHouseUrlFault } from './clickhouse.ts';
import { isExpected, UsageError } from './expected.ts';

/**
 * Runs a command and exits: with the code that `main` resolves with, 0 without one, 1 after a failure, 2 if the command
 * line is invalid. An unexpected error is a fault of ours, and Node prints its stack trace.
 */
export async function runCommand(
  name: string,
  main: () => Promise<number | undefined>,
): Promise<never> {
  try {
    process.exit((await main()) ?? 0);
  } catch (error) {
    const message = explained(error);
    if (message === undefined) throw error;
    const help = error instanceof UsageError && error.help !== '' ? `\n\n${error.help}` : '';
    process.stderr.write(`${name}: ${message}${help}\n`);
    process.exit(error instanceof UsageError ? 2 : 1);
  }
}

function explained(error: unknown): string | undefined {
  const fault = clickHouseUrlFault(error);
  if (fault !== undefined) return `CLICKHOUSE_URL: ${fault}`;
  return isExpected(error) || error instanceof ClickHouseError ? error.message : undefined;
}
