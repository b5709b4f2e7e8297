/**
 * `npm start`: the whole service on this machine. Starts what no URL in the environment replaces
 * (NATS, ClickHouse, devnet), then migrations, projector, api and ingest, each its own process on
 * loopback with its data under one directory; says when history is queryable; stops everything again.
 */
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { MigrationError } from '../../sql/migrate.ts';
import { ConfigError, readConfig, ServiceConfig } from '../config.ts';
import { NatsRefusedError } from '../nats/connection.ts';
import { DataDirectoryInUseError, lockDataDirectory } from './data-directory.ts';
import { PortTakenError, Service, type ServiceOptions } from './service.ts';
import { ChildStartError } from './supervise.ts';
import { consoleReporter, jsonReporter } from './up-report.ts';

const HELP = `Fillstream: trader analytics and a resumable order stream, on this machine.

  npm start -- [options]

  --port N          port of the API (default 8080; 0 = a free port)
  --data DIR        where everything is kept (default .data)
  --demo-rate N     devnet matches per second (default 5)
  --history-days N  days of devnet history that a new directory begins with (default 30)
  --json            one JSON line per state change instead of text
  --help            this text

With NATS_URL, CLICKHOUSE_URL, RPC_URL (and CHAIN=polygon, GAMMA_URL) in the environment, that part
is not started here and the given one is used. docs/configuration.md lists every variable.`;

const Options = z.object({
  port: z.coerce.number().int().min(0).max(65_535).default(8080),
  data: z.string().min(1).default('.data'),
  'demo-rate': z.coerce.number().positive().max(500).default(5),
  'history-days': z.coerce.number().positive().max(365).default(30),
  json: z.boolean().default(false),
});

/** Thrown when the command line is wrong; the message is for the user. */
class UsageError extends Error {}

const options = readOptions();
if (options !== undefined) await main(options);

function readOptions(): ServiceOptions | undefined {
  try {
    return parseOptions();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(2);
  }
}

function parseOptions(): ServiceOptions | undefined {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  let values: Record<string, unknown>;
  try {
    values = parseArgs({
      options: {
        port: text,
        data: text,
        'demo-rate': text,
        'history-days': text,
        json: flag,
        help: flag,
      },
    }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\nSee --help.`);
  }
  if (values.help === true) {
    process.stdout.write(`${HELP}\n`);
    return undefined;
  }
  const parsed = Options.safeParse(values);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}`);
    throw new UsageError(`${lines.join('\n')}\nSee --help.`);
  }
  return {
    port: parsed.data.port,
    data: parsed.data.data,
    demoRate: parsed.data['demo-rate'],
    historyDays: parsed.data['history-days'],
    report: parsed.data.json ? jsonReporter() : consoleReporter(),
  };
}

async function main(given: ServiceOptions): Promise<void> {
  const stop = Promise.withResolvers<void>();
  process.once('SIGINT', () => stop.resolve());
  process.once('SIGTERM', () => stop.resolve());
  if (process.channel !== undefined) process.once('disconnect', () => stop.resolve());
  let release = () => {};
  let service: Service | undefined;
  try {
    const config = readConfig(ServiceConfig);
    release = lockDataDirectory(given.data);
    service = new Service(given, config, process.env);
    // A stop that comes during the start ends the start.
    await Promise.race([service.start(), stop.promise]);
    await stop.promise;
    given.report({ event: 'stopping' });
    await service.stop();
    given.report({ event: 'stopped' });
  } catch (error) {
    await service?.stop();
    if (!isExpected(error)) throw error;
    process.stderr.write(`fillstream cannot start: ${error.message}\n`);
    process.exitCode = 1;
  } finally {
    release();
  }
  process.exit();
}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof ConfigError ||
    error instanceof NatsRefusedError ||
    error instanceof DataDirectoryInUseError ||
    error instanceof MigrationError ||
    error instanceof PortTakenError ||
    error instanceof ChildStartError
  );
}
