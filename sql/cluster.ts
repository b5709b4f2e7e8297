/**
 * Rewrites the statements of sql/migrations and sql/analyst for a cluster. A trader's rows are all on one shard, chosen
 * by cityHash64(trader). Each shard's materialized views and leaderboards read its own rows. Every node has all
 * metadata. Statements of an unknown kind are refused, so that no migration runs on a single node by accident.
 */

export type Cluster = {
  /** Name in the servers' remote_servers, or the macro `{cluster}`. */
  readonly cluster: string;
  readonly database: string;
};

/** Replicated tables split by trader: `<table>_local` on the shards, `<table>` Distributed over them. */
export const SHARDED_TABLES: ReadonlySet<string> = new Set([
  'bookings',
  'trader_hours',
  'trader_markets',
  'trader_market_hours',
  'bookings_by_time',
  'market_traders',
  'market_bookings',
  'trader_activity',
  'matches',
  'market_minutes',
  'market_days',
  'market_marks',
  'movements',
]);

/** Views that the refreshable views of a shard read; they cover the rows of the shard. */
const SHARD_VIEWS: ReadonlySet<string> = new Set(['leaderboard_window']);

/**
 * Each replica computes its own leaderboards, because a refresh replaces the whole table, which the
 * engine refuses for a replicated table outside a Replicated database.
 */
const BOARD = /^leaderboard_\d+[hd]$/;

/** Each node computes these from the rows of all shards, because any node may receive the query. */
const COMPUTED_EVERYWHERE = /^(search_markets|search_traders|market_counts|market_stats)(_mv)?$/;

/** Ten years, so that a batch is recognised however long the projector was down. */
const DEDUPLICATION_SECONDS = 315_360_000;

/** The statement has no known cluster form. */
export class ClusterFormError extends Error {}

/** The statements that apply `statement` to the whole cluster, in order. Throws ClusterFormError. */
export function clusterForm(statement: string, cluster: Cluster): readonly string[] {
  const text = statement.trim();
  // Runs once, through the Distributed tables, for all shards.
  if (/^INSERT INTO \w+\s+SELECT\b/.test(text)) return [text];
  const found =
    /^(CREATE (?:OR REPLACE )?(?:DATABASE|TABLE|MATERIALIZED VIEW|VIEW|DICTIONARY)(?: IF NOT EXISTS)?|ALTER TABLE) ([\w.]+)([\s\S]*)$/.exec(
      text,
    );
  if (found === null) {
    throw new ClusterFormError(`no known cluster form for: ${text.slice(0, 80)}`);
  }
  const [, verb = '', name = '', rest = ''] = found;
  const on = `ON CLUSTER '${cluster.cluster}'`;
  if (COMPUTED_EVERYWHERE.test(name) && verb.startsWith('CREATE')) {
    return [`${verb} ${name} ${on}${rest}`];
  }
  if (verb.startsWith('CREATE MATERIALIZED VIEW')) return [`${verb} ${name} ${on}${local(rest)}`];
  if (verb.startsWith('CREATE TABLE')) return createTable(verb, name, rest, cluster);
  if (verb === 'ALTER TABLE') return alterTable(name, rest, on);
  const body = SHARD_VIEWS.has(name) ? local(rest) : rest;
  return [`${verb} ${name} ${on}${body}`];
}

function createTable(verb: string, name: string, rest: string, cluster: Cluster) {
  const on = `ON CLUSTER '${cluster.cluster}'`;
  if (BOARD.test(name)) {
    return [`${verb} ${name}_local ${on}${rest}`, distributed(verb, name, rest, cluster)];
  }
  if (!SHARDED_TABLES.has(name)) {
    // One replication path across all shards, so every node has all rows.
    return [`${verb} ${name} ${on}${replicated(name, rest, 'all', '{shard}-{replica}')}`];
  }
  return [
    `${verb} ${name}_local ${on}${replicated(name, rest, '{shard}', '{replica}')}`,
    distributed(verb, name, rest, cluster),
  ];
}

function distributed(verb: string, name: string, rest: string, { cluster, database }: Cluster) {
  // Only `bookings` is written through its Distributed table, so tables without a trader need no key.
  const key = /^\s+trader /m.test(rest) ? ', cityHash64(trader)' : '';
  const comment = /\bCOMMENT '[^']*'\s*$/.exec(rest)?.[0] ?? '';
  return `${verb} ${name} ON CLUSTER '${cluster}' AS ${database}.${name}_local
ENGINE = Distributed('${cluster}', '${database}', '${name}_local'${key})
${comment}`.trim();
}

/** The path contains the table's UUID, which ON CLUSTER makes the same on all nodes, so tables can be exchanged. */
function replicated(name: string, rest: string, shard: string, replica: string): string {
  const engine = /\bENGINE = (\w*MergeTree)(?:\((\w+)\))?/;
  if (!engine.test(rest)) throw new ClusterFormError(`table ${name} has no MergeTree engine`);
  return rest
    .replace(engine, (_, kind: string, version: string | undefined) => {
      const path = `'/clickhouse/tables/{uuid}/${shard}'`;
      const parameters = [path, `'${replica}'`, ...(version === undefined ? [] : [version])];
      return `ENGINE = Replicated${kind}(${parameters.join(', ')})`;
    })
    .replace(
      /\bnon_replicated_deduplication_window = (\d+)/,
      `replicated_deduplication_window = $1, replicated_deduplication_window_seconds = ${DEDUPLICATION_SECONDS}`,
    );
}

/** Changes the stored table on the shards and, for columns, the Distributed table over them. */
function alterTable(name: string, rest: string, on: string): readonly string[] {
  if (!SHARDED_TABLES.has(name) && !BOARD.test(name)) return [`ALTER TABLE ${name} ${on}${rest}`];
  const shards = `ALTER TABLE ${name}_local ${on}${rest.replace('non_replicated_', 'replicated_')}`;
  if (/^\s*(ADD|DROP|MODIFY|COMMENT|RENAME) COLUMN\b/.test(rest)) {
    return [shards, `ALTER TABLE ${name} ${on}${rest}`];
  }
  if (/^\s*((ADD|DROP|MATERIALIZE) (INDEX|PROJECTION)|MODIFY (TTL|SETTING))\b/.test(rest)) {
    return [shards];
  }
  throw new ClusterFormError(`no known cluster form for: ALTER TABLE ${name}${rest}`);
}

/** Replaces sharded tables that the body reads or fills with their local ones. Columns keep the table's name. */
function local(body: string): string {
  return body.replace(/\b(FROM|TO|JOIN) (\w+)\b( AS\b)?/g, (whole, word, table, alias = '') => {
    if (!SHARDED_TABLES.has(table) && !BOARD.test(table)) return whole;
    const name = word === 'TO' || alias !== '' ? alias : ` AS ${table}`;
    return `${word} ${table}_local${name}`;
  });
}
