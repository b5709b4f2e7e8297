/**
 * The statements of the projector that differ on a cluster: there its rows may be on another replica than
 * the one that answers, and its inserts may run on any node. Text only; a test lets the engine parse the
 * cluster form. Not tried on real servers (docs/decisions/0006-schema-analysts-and-cluster.md).
 */

export type Deployment = {
  readonly database: string;
  /** Name in remote_servers, or the macro `{cluster}`; a single node without it. */
  readonly cluster?: string | undefined;
};

/** What a checkpoint is read from: tables split by shard by their local names. */
const CHECKPOINT_TABLES = [
  'bookings_local',
  'positions_local',
  'projector_checkpoints',
  'resolutions',
];

/** To run before the checkpoint is read: every replica has then what any of them acknowledged. */
export function syncStatements({ database, cluster }: Deployment): readonly string[] {
  if (cluster === undefined) return [];
  return CHECKPOINT_TABLES.map(
    (table) => `SYSTEM SYNC REPLICA ON CLUSTER '${cluster}' ${database}.${table}`,
  );
}

/** How many queries run that `where` holds of, on any node. */
export function runningStatement({ cluster }: Deployment, where: string): string {
  const processes =
    cluster === undefined
      ? 'system.processes'
      : `clusterAllReplicas('${cluster}', system.processes)`;
  return `SELECT count() AS running FROM ${processes} WHERE ${where}`;
}

export function killStatement({ cluster }: Deployment, where: string): string {
  const on = cluster === undefined ? '' : `ON CLUSTER '${cluster}' `;
  return `KILL QUERY ${on}WHERE ${where} ASYNC`;
}

export function reloadStatement({ cluster }: Deployment): string {
  const on = cluster === undefined ? '' : `ON CLUSTER '${cluster}' `;
  return `SYSTEM RELOAD DICTIONARY ${on}market_dictionary`;
}
