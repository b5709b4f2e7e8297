/** Leaderboards and the analysts' examples on a benchmark's data. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Dataset } from './fills.ts';
import { median, readable } from './report.ts';
import { BOARDS, refresh } from './views.ts';

const EXAMPLES = join(import.meta.dirname, '../../../sql/analyst/examples');
const EXAMPLE_ROUNDS = 3;

export async function refreshBoards({ parts }: Dataset) {
  const rows: { board: string; 'refresh, ms': string; rows: string }[] = [];
  for (const board of BOARDS) {
    await parts.query(`SYSTEM WAIT VIEW ${board}_mv`);
    const startedAt = performance.now();
    await refresh(parts.query, `${board}_mv`);
    const ms = readable(performance.now() - startedAt);
    const [row] = await parts.query<{ n: string }>(`SELECT toString(count()) AS n FROM ${board}`);
    rows.push({ board, 'refresh, ms': ms, rows: readable(Number(row?.n)) });
  }
  return rows;
}

export function example(name: string): string {
  return readFileSync(join(EXAMPLES, `${name}.sql`), 'utf8');
}

/** Lines of the answer to a question of the analysts' user, over plain HTTP. Throws if it is refused. */
export async function asked({ parts }: Dataset, question: string): Promise<readonly string[]> {
  const url = `${new URL(parts.env.CLICKHOUSE_URL).origin}/?database=analyst`;
  const response = await fetch(url, { method: 'POST', body: question });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${question}: ${text}`);
  return text.trim().split('\n');
}

export async function measureExamples(data: Dataset) {
  const rows: { example: string; rows: string; ms: string }[] = [];
  const names = readdirSync(EXAMPLES).map((file) => file.replace('.sql', ''));
  for (const name of names.sort()) {
    const times: number[] = [];
    let lines: readonly string[] = [];
    for (let round = 0; round < EXAMPLE_ROUNDS; round++) {
      const startedAt = performance.now();
      lines = await asked(data, example(name));
      times.push(performance.now() - startedAt);
    }
    rows.push({ example: name, rows: String(lines.length), ms: readable(median(times)) });
  }
  return rows;
}
