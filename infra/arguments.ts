/** Parses command lines. The published command line includes this file, so it imports little. */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { UsageError } from './expected.ts';

/** An option with a value. */
export const text = { type: 'string' } as const;
/** An option without one. */
export const flag = { type: 'boolean' } as const;

/** Parses the arguments of this process, or those given. Throws UsageError with the help. */
export function readArguments<Config extends ParseArgsConfig>(config: Config, help = '') {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError((error as Error).message, help);
  }
}
