/** The two checks of `npm run soak` whose bugs nothing else would reveal. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type FaultWindow, readLogs } from '../release/faults/soak-logs.ts';
import { levelOf } from '../release/faults/soak-memory.ts';

const MIB = 1_048_576;

describe('levelOf', () => {
  const growing = (from: number, perSample: number) =>
    Array.from({ length: 300 }, (_, n) => (from + n * perSample) * MIB);

  test('ignores growth in the first third, in which caches fill', () => {
    const samples = growing(100, 3).map((bytes) => Math.min(bytes, 400 * MIB));
    expect(levelOf(samples)).toMatchObject({ thirds: [247, 400, 400], most: 400, isLevel: true });
  });

  test('detects steady growth, but tolerates small growth', () => {
    expect(levelOf(growing(100, 1))).toMatchObject({ thirds: [149, 249, 349], isLevel: false });
    expect(levelOf(growing(40, 0.1)).isLevel).toBe(true);
  });
});

describe('readLogs', () => {
  const line = (level: number, time: number, msg: string) => JSON.stringify({ level, time, msg });
  const refused = 'the analytics store cannot answer now: connect ECONNREFUSED 127.0.0.1:1';
  const error = (time: number) =>
    JSON.stringify({ level: 50, time, err: { message: refused }, msg: 'request failed' });
  const windows: FaultWindow[] = [{ fault: 'clickhouse', fromMs: 100, toMs: 200 }];

  function findings(log: string, lines: readonly string[]) {
    const directory = mkdtempSync(join(tmpdir(), 'fillstream-logs-'));
    mkdirSync(join(directory, 'logs'));
    writeFileSync(join(directory, 'logs', log), `${lines.join('\n')}\n`);
    const found = readLogs(directory, windows);
    rmSync(directory, { recursive: true });
    return found;
  }

  test('explains an error by its fault, and only while that lasts', () => {
    const found = findings('api.log', [error(150), error(201), line(30, 150, 'request')]);
    expect([...found.explained.values()]).toEqual([1]);
    expect(found.unexplained).toBe(1);
  });

  test('treats every fatal line, exception and nats-server error as an error', () => {
    const bad = [line(60, 150, 'stopped by an error'), 'TypeError: x is not a function'];
    expect(findings('ingest.log', bad).unexplained).toBe(2);
    const nats = ['[7] 2026/11/21 06:00:00.0 [ERR] no space', '[7] 2026/11/21 06:00:00.0 [INF] ok'];
    expect(findings('nats.log', nats).unexplained).toBe(1);
  });

  test('counts warnings by message, and ignores messages to the supervisor', () => {
    const found = findings('projector.log', [
      line(40, 1, 'trying again'),
      line(40, 2, 'trying again'),
      '{"event":"stored","sequence":7}',
    ]);
    expect(found.unexplained).toBe(0);
    expect([...found.warnings]).toEqual([['logs/projector.log: trying again', 2]]);
  });
});
