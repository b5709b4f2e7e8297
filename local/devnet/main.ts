/**
 * The devnet as a process: chain, contracts, history, metadata API and live traders. Prints one JSON line per step on
 * stdout; the last is `ready`, with the URLs. A restart on the same directory continues the same chain, without a
 * second deployment or history. SIGUSR2 ends the trading; the chain continues with empty blocks. With --keep-blocks,
 * the parent sends `{stored: N}` when LEDGER contains the blocks up to N. Stops on SIGTERM, SIGINT, or when its
 * parent disconnects. Exits with code 1 when the chain dies, for the supervisor to restart it.
 */
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { whenParentEnds } from '../../infra/process.ts';
import { DamagedFileError } from '../lock.ts';
import { openDevnet } from './devnet.ts';

const FromParent = z.object({ stored: z.number() });

const Options = z.object({
  data: z.string().min(1),
  'rpc-port': z.coerce.number().int().min(0).max(65_535).default(0),
  'gamma-port': z.coerce.number().int().min(0).max(65_535).default(0),
  seed: z.coerce.number().int().min(0).default(1),
  'demo-rate': z.coerce.number().positive().max(500).default(1),
  'history-days': z.coerce.number().positive().max(365).default(30),
  'history-matches': z.coerce.number().int().min(1).max(200_000).default(4_000),
  'block-time': z.coerce.number().int().min(1).max(60).default(2),
  /** How many blocks to keep; all by default. Older ones are kept until the parent reports them as stored. */
  'keep-blocks': z.coerce.number().int().min(50).optional(),
  traders: z.coerce.number().int().min(40).max(5_000).default(150),
  'no-live': z.boolean().default(false),
});

async function main(): Promise<void> {
  const names = Object.keys(Options.shape).map(
    (name) => [name, { type: name === 'no-live' ? 'boolean' : 'string' }] as const,
  );
  const { values } = parseArgs({ options: Object.fromEntries(names) });
  const options = Options.parse(values);
  mkdirSync(options.data, { recursive: true });
  const stop = Promise.withResolvers<undefined>();
  const onStop = () => stop.resolve(undefined);
  process.once('SIGTERM', onStop).once('SIGINT', onStop);
  whenParentEnds(onStop);
  const rest = new AbortController();
  process.once('SIGUSR2', () => rest.abort());
  let ports = { rpcPort: options['rpc-port'], gammaPort: options['gamma-port'] };
  let stored = 0;
  process.on('message', (message) => {
    stored = FromParent.parse(message).stored;
  });
  const { 'keep-blocks': keepBlocks } = options;
  const given = {
    directory: options.data,
    seed: options.seed,
    traders: options.traders,
    historyDays: options['history-days'],
    historyMatches: options['history-matches'],
    blockTimeSeconds: options['block-time'],
    matchesPerSecond: options['no-live'] ? 0 : options['demo-rate'],
    dropping: keepBlocks === undefined ? undefined : { keepBlocks, stored: () => stored },
    rest: rest.signal,
    now: Date.now,
    report: (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`),
  };
  for (;;) {
    const devnet = await Promise.race([openDevnet({ ...given, ...ports }), stop.promise]);
    // Anvil ends with this process.
    if (devnet === undefined) process.exit(0);
    const reason = await Promise.race([devnet.ended, stop.promise]);
    await devnet.close();
    ports = { rpcPort: portOf(devnet.chain.url), gammaPort: portOf(devnet.gammaUrl) };
    if (reason === 'renew') continue;
    if (reason !== undefined) process.stderr.write(`devnet: ${reason}\n`);
    process.exit(reason === undefined ? 0 : 1);
  }
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

main().catch((error: unknown) => {
  // Damaged or inaccessible files need no stack trace.
  const isExpected =
    error instanceof DamagedFileError || (error instanceof Error && 'syscall' in error);
  if (!isExpected) throw error;
  process.stderr.write(`devnet: ${error.message}\n`);
  process.exit(1);
});
