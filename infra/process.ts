/**
 * Shared by all processes of the service: a logger, a signal that aborts on SIGTERM, SIGINT or when the supervisor
 * dies, a clear message instead of a stack trace for bad configuration, and a time limit for stopping.
 */
import { type Logger, pino } from 'pino';
import { ConfigError, logLevelOf, withFiles } from './config.ts';
import { concealer } from './secrets.ts';

const STOP_MAX_MS = 4_000;

export type ProcessContext = {
  readonly logger: Logger;
  /** Aborts when the process should stop. */
  readonly signal: AbortSignal;
  /** Sends a message to the supervisor, if there is one. */
  readonly report: (message: Readonly<Record<string, unknown>>) => void;
};

/** Calls `stop` when the parent process, which started this one with an IPC channel, ends or has already ended. */
export function whenParentEnds(stop: () => void): void {
  // `connected` is undefined without a channel. If the parent ended while modules were loading, no event follows.
  if (process.connected === false) stop();
  else process.once('disconnect', stop);
}

/** Runs `main` and exits with code 0 after a requested stop, or 1 after an error. */
export async function runProcess(
  name: string,
  main: (context: ProcessContext) => Promise<void>,
): Promise<void> {
  let environment: NodeJS.ProcessEnv;
  try {
    environment = withFiles(process.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${name}: ${error.message}\n`);
    process.exit(1);
  }
  const logger = pino({
    name,
    level: logLevelOf(environment),
    hooks: { streamWrite: concealer(environment) },
  });
  const stop = new AbortController();
  const onStop = () => {
    if (stop.signal.aborted) return;
    stop.abort();
    setTimeout(() => {
      logger.error({ STOP_MAX_MS }, 'stopping took too long, exiting now');
      process.exit(1);
    }, STOP_MAX_MS).unref();
  };
  process.on('SIGTERM', onStop);
  process.on('SIGINT', onStop);
  whenParentEnds(onStop);
  const report = (message: Readonly<Record<string, unknown>>) => {
    // Ignored: if the supervisor is gone, `disconnect` stops this process.
    if (process.connected) process.send?.(message, () => undefined);
  };
  try {
    await main({ logger, signal: stop.signal, report });
    process.exit(0);
  } catch (error) {
    if (stop.signal.aborted) process.exit(0);
    if (error instanceof ConfigError) process.stderr.write(`${name}: ${error.message}\n`);
    else {
      logger.fatal({ err: error }, 'stopped by an error');
      // One line for the supervisor, or for a user who started the process by hand.
      const [reason = ''] = String(error instanceof Error ? error.message : error).split('\n', 1);
      process.stderr.write(`${name}: ${concealer(environment)(reason)}\n`);
    }
    process.exit(1);
  }
}
