/**
 * The cluster form of every statement: the engine's own parser reads and formats it, and the rules
 * for each table are stated here. two-shards.test.ts runs it, except for the parts that need
 * several servers.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  killStatement,
  reloadStatement,
  runningStatement,
  syncStatements,
} from '../../projector/store.ts';
import { ClusterFormError, clusterForm } from '../../sql/cluster.ts';
import { statementsOf } from '../../sql/migrate.ts';
import { type Schema, startSchema } from '../support/stack.ts';

const SQL = join(import.meta.dirname, '../../sql');
const TARGET = { database: 'fillstream', cluster: '{cluster}' };
const FILES = ['migrations', 'analyst/views'].flatMap((folder) =>
  readdirSync(join(SQL, folder)).map((name) => join(SQL, folder, name)),
);
let clickhouse: Schema;
/** Each statement as the engine formats it, without line breaks. */
const statements: string[] = [];
/** The last of each `kind name`. */
const formatted = new Map<string, string>();

beforeAll(async () => {
  clickhouse = await startSchema();
  for (const file of FILES) {
    for (const statement of statementsOf(readFileSync(file, 'utf8'), TARGET)) {
      const result = await clickhouse.client.query({
        query: 'SELECT formatQuerySingleLine({statement:String}) AS text',
        query_params: { statement },
        format: 'JSONEachRow',
      });
      const [row] = await result.json<{ text: string }>();
      const text = row?.text ?? '';
      const [, kind, name] =
        /^(?:CREATE (?:OR REPLACE )?)?(.+?)(?: IF NOT EXISTS)? ([\w.]+) ON CLUSTER/.exec(text) ??
        /^(INSERT INTO) (\w+)/.exec(text) ??
        [];
      statements.push(text);
      expect(kind, text).toBeDefined();
      formatted.set(`${kind} ${name}`, text);
    }
  }
});

afterAll(() => clickhouse?.stop());

const SHARDED = [
  ...['bookings', 'trader_hours', 'trader_markets', 'trader_market_hours', 'market_traders'],
  ...['market_bookings', 'trader_activity', 'matches', 'market_minutes', 'market_days'],
  'market_marks',
  'bookings_by_time',
  'movements',
];
const NO_TRADER = ['market_minutes', 'market_days', 'market_marks'];
const EVERYWHERE = [
  ...['markets', 'resolutions', 'traders', 'balances', 'share_balances', 'refused_events'],
  ...['projector_checkpoints', 'search_words', 'search_variants'],
];
const BOARDS = ['1h', '4h', '1d', '3d', '7d', '30d'].map((frame) => `leaderboard_${frame}`);
const COMPUTED = ['search_markets', 'search_traders', 'market_counts', 'market_stats'];

describe('clusterForm', () => {
  test('runs every statement on the cluster', () => {
    for (const text of statements) {
      expect(text).toMatch(
        /ON CLUSTER `\{cluster\}`|^INSERT INTO (?:market_days|trader_market_hours|bookings_by_time)\s/,
      );
    }
    const single = FILES.flatMap((file) =>
      statementsOf(readFileSync(file, 'utf8'), { database: TARGET.database }),
    );
    // These tables are created twice: where rows are stored, and where they are read.
    expect(statements.length).toBe(single.length + SHARDED.length + BOARDS.length);
  });

  test.each(SHARDED)('%s is replicated on its shard and Distributed by trader', (table) => {
    const local = formatted.get(`TABLE ${table}_local`);
    expect(local).toMatch(
      /ENGINE = Replicated\w*MergeTree\('\/clickhouse\/tables\/\{uuid\}\/\{shard\}', '\{replica\}'/,
    );
    expect(local).toContain('replicated_deduplication_window = 1000');
    expect(local).not.toContain('non_replicated');
    // Nobody inserts through a Distributed table without a trader, so it has no sharding key.
    const key = NO_TRADER.includes(table) ? '' : ', cityHash64(trader)';
    expect(formatted.get(`TABLE ${table}`)).toContain(
      `AS fillstream.${table}_local ENGINE = Distributed('{cluster}', 'fillstream', ` +
        `'${table}_local'${key})`,
    );
  });

  test.each(EVERYWHERE)('%s is on every node', (table) => {
    expect(formatted.get(`TABLE ${table}`)).toMatch(
      /Replicated\w*MergeTree\('\/clickhouse\/tables\/\{uuid\}\/all', '\{shard\}-\{replica\}'/,
    );
    expect(formatted.has(`TABLE ${table}_local`)).toBe(false);
  });

  test.each(BOARDS)('%s is computed by each replica from its shard', (table) => {
    expect(formatted.get(`TABLE ${table}_local`)).toContain('ENGINE = MergeTree ');
    expect(formatted.get(`TABLE ${table}`)).toContain('ENGINE = Distributed(');
    expect(formatted.get(`MATERIALIZED VIEW ${table}_mv`)).toContain(`TO ${table}_local`);
  });

  test.each(COMPUTED)('%s is computed by each node from all shards', (table) => {
    expect(formatted.get(`TABLE ${table}`)).toContain('ENGINE = MergeTree ');
    const view = formatted.get(`MATERIALIZED VIEW ${table}_mv`);
    expect(view).toContain(` TO ${table} `);
    expect(view).not.toContain('_local');
  });

  test('materialized views and the window read the shard, analysts read all shards', () => {
    for (const [name, text] of formatted) {
      const reads = /FROM (?:fillstream\.)?bookings(?:_by_time)?(_local)?\b/.exec(text);
      if (reads === null) continue;
      expect(reads[1] ?? '', name).toBe(/^(?:VIEW analyst\.|INSERT )/.test(name) ? '' : '_local');
      const target = /^MATERIALIZED VIEW (\w+)_mv$/.exec(name)?.[1];
      if (target !== undefined) expect(text).toContain(`TO ${target}_local`);
    }
    for (const table of ['trader_hours', 'bookings_by_time', 'trader_activity']) {
      expect(formatted.get('VIEW leaderboard_window')).toContain(`FROM ${table}_local`);
    }
  });

  test('columns keep the name of the table that the shard reads', () => {
    const cluster = { database: 'fillstream', cluster: 'c' };
    const view = 'CREATE MATERIALIZED VIEW v TO matches AS SELECT bookings.usdc FROM bookings';
    expect(clusterForm(view, cluster)).toEqual([
      "CREATE MATERIALIZED VIEW v ON CLUSTER 'c' TO matches_local AS SELECT bookings.usdc FROM bookings_local AS bookings",
    ]);
    expect(
      clusterForm('CREATE MATERIALIZED VIEW v AS SELECT b.a FROM bookings AS b', cluster),
    ).toEqual(["CREATE MATERIALIZED VIEW v ON CLUSTER 'c' AS SELECT b.a FROM bookings_local AS b"]);
  });

  test('knows every table of the migrations', () => {
    const known = [...SHARDED, ...EVERYWHERE, ...BOARDS, ...COMPUTED];
    const created = [...formatted.keys()].flatMap((name) => /^TABLE (\w+)$/.exec(name)?.[1] ?? []);
    expect(created.filter((table) => !known.includes(table.replace(/_local$/, '')))).toEqual([]);
  });

  test('keeps versions, columns, order and comments', () => {
    const resolutions = formatted.get('TABLE resolutions');
    expect(resolutions).toContain("'{shard}-{replica}', block_number) ORDER BY condition_id");
    expect(formatted.get('TABLE market_traders')).toMatch(/COMMENT 'sums and newest [^']*'$/);
    expect(formatted.get('TABLE bookings_local')).toContain('PARTITION BY toYYYYMM(block_time)');
    expect(formatted.get('TABLE trader_hours_local')).toContain('min_age_to_force_merge');
  });

  test('alters what is stored on the shards, and columns for readers too', () => {
    const cluster = { database: 'fillstream', cluster: 'c' };
    expect(clusterForm('ALTER TABLE bookings ADD COLUMN a UInt8', cluster)).toEqual([
      "ALTER TABLE bookings_local ON CLUSTER 'c' ADD COLUMN a UInt8",
      "ALTER TABLE bookings ON CLUSTER 'c' ADD COLUMN a UInt8",
    ]);
    expect(clusterForm('ALTER TABLE bookings DROP INDEX i', cluster)).toHaveLength(1);
    expect(clusterForm('ALTER TABLE markets ADD INDEX i a TYPE minmax', cluster)).toEqual([
      "ALTER TABLE markets ON CLUSTER 'c' ADD INDEX i a TYPE minmax",
    ]);
  });

  test('refuses a statement that it does not know', () => {
    for (const statement of [
      'EXCHANGE TABLES bookings AND bookings_new',
      'ALTER TABLE bookings DELETE WHERE 1',
      'CREATE TABLE t (a UInt8) ENGINE = Log',
    ]) {
      expect(() => clusterForm(statement, TARGET)).toThrow(ClusterFormError);
    }
  });
});

describe('the projector on a cluster', () => {
  const where = "Settings['log_comment'] = 'x'";
  const statements = [
    ...syncStatements(TARGET),
    runningStatement(TARGET, where),
    killStatement(TARGET, where),
    reloadStatement(TARGET),
  ];

  test.each(statements)('the engine parses: %s', async (statement) => {
    const result = await clickhouse.client.query({
      query: 'SELECT formatQuerySingleLine({statement:String}) AS text',
      query_params: { statement },
      format: 'JSONEachRow',
    });
    const [row] = await result.json<{ text: string }>();
    expect(row?.text).toMatch(/ON CLUSTER `?'?\{cluster\}|clusterAllReplicas\('\{cluster\}'/);
  });

  test('waits for every table that a checkpoint is read from, by the name that is replicated', () => {
    const tables = syncStatements(TARGET).map(
      (statement) => statement.split('fillstream.')[1] ?? '',
    );
    for (const table of tables) {
      const isSharded = SHARDED.includes(table.replace(/_local$/, ''));
      expect(isSharded ? table.endsWith('_local') : EVERYWHERE.includes(table), table).toBe(true);
      expect(formatted.get(`TABLE ${table}`)).toMatch(/ENGINE = Replicated/);
    }
    expect(tables).toHaveLength(4);
  });

  test('sends a single node none of the statements for a cluster', () => {
    const single = { database: 'fillstream' };
    expect(syncStatements(single)).toEqual([]);
    expect(runningStatement(single, where)).toContain('FROM system.processes WHERE');
    expect(killStatement(single, where)).not.toContain('ON CLUSTER');
  });
});
