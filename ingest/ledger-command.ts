/**
 * `npm run ledger -- show BLOCK`: prints a block of LEDGER as JSON, with the message that holds it. Exit codes:
 * 0 printed, 1 LEDGER does not hold the block or cannot be read, 2 wrong command line.
 */
import { parseArgs } from 'node:util';
import { ConfigError, NatsConfig, readConfig } from '../infra/config.ts';
import { connectNats, natsOptions } from '../infra/nats/connection.ts';
import { type LedgerMessage, messageAt, UnreadableLedgerError } from './ledger.ts';

const HELP = `npm run ledger -- show BLOCK

Prints the block as LEDGER holds it: its events, and the range of the message that it is in. A block without events
that is not the last of its range is not listed; then only the range is printed.
Needs NATS_URL (npm start shows the URL of its own server).
`;
const USAGE_CODE = 2;

process.exitCode = await main();

async function main(): Promise<number> {
  const block = blockNumber();
  if (block === undefined) {
    process.stderr.write(HELP);
    return USAGE_CODE;
  }
  try {
    const message = await find(block);
    if (message === undefined) {
      process.stderr.write(`ledger: LEDGER does not hold block ${block}\n`);
      return 1;
    }
    process.stdout.write(`${describe(message, block)}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof UnreadableLedgerError)) throw error;
    process.stderr.write(`ledger: ${error.message}\n`);
    return 1;
  }
}

/** Undefined unless the command line is `show BLOCK`. */
function blockNumber(): number | undefined {
  try {
    const { positionals } = parseArgs({ allowPositionals: true });
    const [command, block = '', ...rest] = positionals;
    const isShow = command === 'show' && rest.length === 0 && /^\d{1,15}$/.test(block);
    return isShow ? Number(block) : undefined;
  } catch {
    return undefined;
  }
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
  const block = blocks.find((one) => one.number === number) ?? null;
  const storedAt = new Date(storedAtMs).toISOString();
  return JSON.stringify(
    { message: { sequence, storedAt, ...message, listed: blocks.length }, block },
    (_key, value) => (typeof value === 'bigint' ? value.toString() : value),
    2,
  );
}
