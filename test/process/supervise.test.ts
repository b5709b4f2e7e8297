// The logs of `npm start`'s parts.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Child, LOG_BYTES_MAX } from '../../local/supervise.ts';
import { start, until } from '../support/service.ts';

const LINES = 21_000;
const LINE = `${'x'.repeat(999)}\n`;

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'fillstream-logs-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true, force: true });
});

const sizeOf = (name: string) =>
  statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0;

test('a long log of a part is continued in a new file, without losing a line', async () => {
  const module = join(directory, 'talker.mjs');
  const said = '{"event":"said"}\n';
  writeFileSync(
    module,
    `for (let n = 0; n < ${LINES}; n++) process.stdout.write(${JSON.stringify(LINE)});
    process.stdout.write(${JSON.stringify(said)});
    process.on('SIGTERM', () => process.exit());`,
  );
  const child = new Child({
    name: 'talker',
    module,
    args: [],
    env: process.env,
    logs: directory,
    onMessage: () => undefined,
    onRestart: () => undefined,
    onSpawn: () => undefined,
  });
  await child.start('said');
  const full = sizeOf('talker.log.1');
  expect(full - LOG_BYTES_MAX).toBe(LINE.length);
  expect(full + sizeOf('talker.log')).toBe(LINES * LINE.length + said.length);
  await child.stop(5_000);
});

test('the log of nats-server is copied and emptied when it is long', async () => {
  const log = join(directory, 'nats-server.log');
  writeFileSync(log, LINE.repeat(LINES));
  const nats = start('local/nats-server.ts', ['--data', directory]);
  await nats.event('listening');
  await until(async () => sizeOf('nats-server.log') < LOG_BYTES_MAX || undefined);
  expect(readFileSync(`${log}.1`, 'utf8').startsWith(LINE.repeat(LINES))).toBe(true);
  const kept = sizeOf('nats-server.log');
  expect(await nats.stop()).toBe(0);
  // It continues in the same file.
  expect(sizeOf('nats-server.log')).toBeGreaterThan(kept);
});
