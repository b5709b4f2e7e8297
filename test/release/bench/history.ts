/**
 * Devnets with a long history, made once and kept in the system's temporary directory: 36,000
 * matches take minutes. Removing the directory is always safe.
 */
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '../../support/service.ts';

const DAYS = 30;
export type History = {
  readonly rpcUrl: string;
  /** Environment of an ingest that reads it from its own node. */
  readonly env: Readonly<Record<'CHAIN' | 'RPC_URL' | 'GAMMA_URL', string>>;
  readonly stop: () => Promise<number>;
};

/** A devnet with that many matches behind it; it mines an empty block every `blockSeconds`. */
export async function openHistory(matches: number, blockSeconds = 60): Promise<History> {
  const data = join(tmpdir(), `fillstream-bench-history-${matches}`);
  mkdirSync(data, { recursive: true });
  const devnet = start('infra/local/devnet/main.ts', [
    ...['--data', data, '--history-matches', String(matches), '--history-days', String(DAYS)],
    ...['--no-live', '--block-time', String(blockSeconds)],
  ]);
  const ready = await devnet.event('ready');
  const rpcUrl = String(ready.rpc_url);
  return {
    rpcUrl,
    env: { CHAIN: 'devnet', RPC_URL: rpcUrl, GAMMA_URL: String(ready.gamma_url) },
    stop: () => devnet.stop(),
  };
}
