/**
 * Reads every log of a service and compares each error line with the list of lines that a fault explains. Error lines
 * are those of level error or above, nats-server's error lines, and lines that are not log lines at all (uncaught
 * exceptions).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fault } from './soak-faults.ts';

/** Error lines that are expected while a part is down, and only then. */
const EXPLAINED: readonly {
  readonly log: RegExp;
  readonly line: RegExp;
  readonly fault: RegExp;
  readonly why: string;
}[] = [
  {
    log: /api\.log$/,
    line: /"the analytics store cannot answer now[^"]*(ECONNREFUSED|ECONNRESET|socket hang up|no response in)/,
    fault: /clickhouse|two at once|supervisor|disk|bytes/,
    why: 'the api answers 503 while ClickHouse is away',
  },
  {
    log: /api\.log$/,
    line: /"the analytics store cannot answer now[^"]*(Checksum doesn't match|Cannot decompress|corrupted data)/i,
    fault: /bytes/,
    why: 'the api answers 503 while data is damaged',
  },
  {
    log: /api\.log$/,
    line: /"(the (streams|final matches|keys|order feed) cannot be (read|written) now|a store that this request needs cannot be read now)/,
    fault: /nats|two at once|supervisor|disk|bytes/,
    why: 'the api answers 503 while nats-server is away',
  },
];

const LEVEL_WARN = 40;
const LEVEL_ERROR = 50;
const SHOWN_MAX = 10;

export type LogFindings = {
  /** How often each explanation was used. */
  readonly explained: ReadonlyMap<string, number>;
  /** Unexplained error lines: their number, and the first few. */
  readonly unexplained: number;
  readonly shown: readonly string[];
  /** Warnings by their message, for the reader. */
  readonly warnings: ReadonlyMap<string, number>;
};

/** A fault with its start and the time when all parts were ready again, milliseconds since the epoch. */
export type FaultWindow = { readonly fault: Fault; readonly fromMs: number; readonly toMs: number };

/** Every `*.log`, and the one before it, below the data directory of `npm start`. */
export function readLogs(directory: string, windows: readonly FaultWindow[]): LogFindings {
  const explained = new Map<string, number>();
  const warnings = new Map<string, number>();
  const shown: string[] = [];
  let unexplained = 0;
  const count = (of: Map<string, number>, name: string) => of.set(name, (of.get(name) ?? 0) + 1);
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const file = path.replace(/\.log\.1$/, '.log');
    if (!file.endsWith('.log')) continue;
    for (const line of readFileSync(join(directory, path), 'utf8').split('\n')) {
      const { level, message, timeMs } = parsed(line);
      if (level === 'warning') count(warnings, `${file}: ${message}`);
      if (level !== 'error') continue;
      const faults = windows
        .filter(({ fromMs, toMs }) => fromMs <= timeMs && timeMs <= toMs)
        .map(({ fault }) => fault);
      const reason = EXPLAINED.find(
        (one) =>
          one.log.test(file) &&
          one.line.test(line) &&
          faults.some((fault) => one.fault.test(fault)),
      );
      if (reason !== undefined) {
        count(explained, reason.why);
        continue;
      }
      unexplained += 1;
      if (shown.length < SHOWN_MAX) shown.push(`${file}: ${line}`);
    }
  }
  return { explained, unexplained, shown, warnings };
}

type Line = {
  readonly level: 'error' | 'warning' | 'other';
  readonly message: string;
  readonly timeMs: number;
};

function parsed(line: string): Line {
  const timeMs = Number.NaN;
  if (line === '') return { level: 'other', message: '', timeMs };
  // nats-server: [pid] date time [LVL] text
  const nats = /^\[\d+\] \S+ \S+ \[(\w+)\] (.*)$/.exec(line);
  if (nats !== null) {
    const [, mark = '', message = ''] = nats;
    const isError = mark === 'ERR' || mark === 'FTL';
    return { level: isError ? 'error' : mark === 'WRN' ? 'warning' : 'other', message, timeMs };
  }
  try {
    const { level, msg, event, time } = JSON.parse(line);
    // A message to the supervisor.
    if (event !== undefined && level === undefined) return { level: 'other', message: '', timeMs };
    const isError = level >= LEVEL_ERROR;
    const isWarning = level === LEVEL_WARN;
    const message = String(msg);
    return { level: isError ? 'error' : isWarning ? 'warning' : 'other', message, timeMs: time };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // A kill or a full disk cut the line off, which is allowed.
    if (line.startsWith('{"level":')) return { level: 'other', message: '', timeMs };
    return { level: 'error', message: line, timeMs };
  }
}
