/** Devnets with a long history, made once and kept in the system's temporary directory, which may be removed at any time. */
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Devnet, startDevnet } from '../../support/service.ts';

const DAYS = 30;

/** A devnet with that many matches behind it; it mines an empty block every `blockSeconds`. */
export async function openHistory(matches: number, blockSeconds = 60): Promise<Devnet> {
  const data = join(tmpdir(), `fillstream-bench-history-${matches}`);
  mkdirSync(data, { recursive: true });
  const args = ['--block-time', String(blockSeconds)];
  return startDevnet(data, { matches, days: DAYS, rate: 0, args });
}
