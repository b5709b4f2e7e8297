/**
 * The cluster form of a migration's statement: pure text to text, for the statements that
 * sql/migrations and sql/analyst use. Facts of a trader live on one shard, cityHash64(trader); each
 * shard's materialized views and leaderboards run over its own rows; metadata is on every node.
 * A statement of an unknown kind is refused, so that a new migration cannot run on one node only.
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
  'market_traders',
  'market_fills',
  'positions',
  'trader_activity',
]);

/** Views that a shard's refreshable views read: over the rows of the shard. */
const SHARD_VIEWS: ReadonlySet<string> = new Set(['leaderboard_window']);

/**
 * A replica computes its own leaderboards: a refresh replaces the whole table, and the engine refuses
 * to replace a replicated one outside a Replicated database.
 */
const BOARD = /^leaderboard_\d+[hd]$/;

/** Kept for ten years, so that a batch is recognised however long the projector was away. */
const DEDUPLICATION_SECONDS = 315_360_000;

/** Thrown for a statement that has no cluster form. */
export class ClusterFormError extends Error {}

/**
 * The statements that do on every node of the cluster what `statement` does on one, in order.
 * Throws ClusterFormError for a kind of statement that it does not know.
 */
export function clusterForm(statement: string, cluster: Cluster): readonly string[] {
  const text = statement.replace(/^(?:\s*--[^\n]*\n)*\s*/, '').trim();
  const found =
    /^(CREATE (?:OR REPLACE )?(?:DATABASE|TABLE|MATERIALIZED VIEW|VIEW|DICTIONARY)(?: IF NOT EXISTS)?|ALTER TABLE) ([\w.]+)([\s\S]*)$/.exec(
      text,
    );
  if (found === null) {
    throw new ClusterFormError(`No cluster form is known of: ${text.slice(0, 80)}`);
  }
  const [, verb = '', name = '', rest = ''] = found;
  const on = `ON CLUSTER '${cluster.cluster}'`;
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
    // One path for the replicas of all shards: every node has all rows.
    return [`${verb} ${name} ${on}${replicated(name, rest, 'all', '{shard}-{replica}')}`];
  }
  return [
    `${verb} ${name}_local ${on}${replicated(name, rest, '{shard}', '{replica}')}`,
    distributed(verb, name, rest, cluster),
  ];
}

function distributed(verb: string, name: string, rest: string, { cluster, database }: Cluster) {
  const comment = /\bCOMMENT '[^']*'\s*$/.exec(rest)?.[0] ?? '';
  return `${verb} ${name} ON CLUSTER '${cluster}' AS ${database}.${name}_local
ENGINE = Distributed('${cluster}', '${database}', '${name}_local', cityHash64(trader))
${comment}`.trim();
}

/** The path has the table's UUID, which ON CLUSTER makes the same everywhere: names can be exchanged. */
function replicated(name: string, rest: string, shard: string, replica: string): string {
  const engine = /\bENGINE = (\w*MergeTree)(?:\((\w+)\))?/;
  if (!engine.test(rest)) throw new ClusterFormError(`Table ${name} has no MergeTree engine.`);
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

/** What is stored changes on the shards; what a reader of all shards sees changes too. */
function alterTable(name: string, rest: string, on: string): readonly string[] {
  if (!SHARDED_TABLES.has(name) && !BOARD.test(name)) return [`ALTER TABLE ${name} ${on}${rest}`];
  const shards = `ALTER TABLE ${name}_local ${on}${rest}`;
  if (/^\s*(ADD|DROP|MODIFY|COMMENT|RENAME) COLUMN\b/.test(rest)) {
    return [shards, `ALTER TABLE ${name} ${on}${rest}`];
  }
  if (/^\s*((ADD|DROP|MATERIALIZE) (INDEX|PROJECTION)|MODIFY (TTL|SETTING))\b/.test(rest)) {
    return [shards];
  }
  throw new ClusterFormError(`No cluster form is known of: ALTER TABLE ${name}${rest}`);
}

/** The body with the shard's own tables where it reads or fills a sharded one. */
function local(body: string): string {
  return body.replace(/\b(FROM|TO|JOIN) (\w+)\b/g, (whole, word: string, table: string) =>
    SHARDED_TABLES.has(table) || BOARD.test(table) ? `${word} ${table}_local` : whole,
  );
}
