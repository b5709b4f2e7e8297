/**
 * `npm start`: the whole service on this machine. Starts NATS, ClickHouse and the devnet, unless the environment has
 * their URLs, runs the migrations, and starts projector, api and ingest. Each is a separate process on loopback; all
 * data is in one directory. Reports when the history can be queried, and stops everything at the end.
 */
import { z } from 'zod';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { readConfig, ServiceConfig, withFiles } from '../infra/config.ts';
import { isNoSpace } from '../infra/disk.ts';
import { ExpectedError, isExpected } from '../infra/expected.ts';
import { whenParentEnds } from '../infra/process.ts';
import { lockDataDirectory } from './data-directory.ts';
import { openFilesFault } from './limits.ts';
import { Service, type ServiceOptions } from './service.ts';
import { consoleReporter, jsonReporter } from './up-report.ts';

const HELP = `Fillstream: trader analytics and a resumable order stream, on this machine.

  npm start -- [options]

  --port N          port of the API (default HTTP_PORT, or 8080; 0 = a free port)
  --data DIR        directory for all data (default .data)
  --demo-rate N     devnet matches per second (default 1)
  --history-days N  days of devnet history in a new directory (default 30)
  --json            print one JSON line per state change instead of text
  --help            print this text

If NATS_URL, CLICKHOUSE_URL or RPC_URL (with CHAIN=polygon and GAMMA_URL) is set, that server is used and
none is started. docs/configuration.md lists all variables.`;

const Options = z.object({
  port: z.coerce.number().int().min(0).max(65_535).optional(),
  data: z.string().min(1).default('.data'),
  'demo-rate': z.coerce.number().positive().max(500).default(1),
  'history-days': z.coerce.number().positive().max(365).default(30),
  json: z.boolean().default(false),
});

const options = readOptions();
if (options !== undefined) await main(options);

/** Returns the options; or prints the help or an error. */
function readOptions(): ServiceOptions | undefined {
  const names = { port: text, data: text, 'demo-rate': text, 'history-days': text };
  let values: Record<string, unknown>;
  try {
    values = readArguments({ options: { ...names, json: flag, help: flag } }).values;
  } catch (error) {
    return refuse((error as Error).message);
  }
  if (values.help === true) {
    process.stdout.write(`${HELP}\n`);
    return undefined;
  }
  const parsed = Options.safeParse(values);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}`);
    return refuse(lines.join('\n'));
  }
  const { port, data, json, 'demo-rate': demoRate, 'history-days': historyDays } = parsed.data;
  return { port, data, demoRate, historyDays, report: json ? jsonReporter() : consoleReporter() };
}

function refuse(message: string): never {
  process.stderr.write(`${message}\nSee --help.\n`);
  process.exit(2);
}

async function main(given: ServiceOptions): Promise<void> {
  // If output goes to a file on a full disk, it is lost, but nothing else.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error) => {
      if (!isNoSpace(error)) throw error;
    });
  }
  const stop = Promise.withResolvers<void>();
  // Through npm, Ctrl-C arrives twice, and a second signal must not end this process before its
  // parts.
  process.on('SIGINT', () => stop.resolve());
  process.on('SIGTERM', () => stop.resolve());
  whenParentEnds(() => stop.resolve());
  let release = () => {};
  let service: Service | undefined;
  try {
    const environment = withFiles(process.env);
    const config = readConfig(ServiceConfig, environment);
    const fault = openFilesFault();
    if (fault !== undefined) throw new ExpectedError(fault);
    release = await lockDataDirectory(given.data);
    service = new Service(given, config, environment);
    // A signal during startup ends the startup.
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
