/**
 * Repairs a data directory after a kill while the disk was full. chdb ignores failed writes, so a table definition that
 * was being written can be empty, and then the engine does not open at all. While the service runs, only refreshable
 * views write definitions: each refresh replaces a table, and the projector changes the interval. The next refresh
 * restores all of their data.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

const SCHEMA = new URL('../../sql/schema.sql', import.meta.url);

/** The beginning of every definition. An empty file, or one of zeros, lacks it. */
const DEFINITION = /^(?:ATTACH|CREATE) /;
const TEMPORARY = /^(?:\.|_tmp_replace_)/;

/** A definition that cannot be used and cannot be recreated from the schema. */
export class DamagedDefinitionError extends Error {}

/**
 * Moves unusable definitions out of the engine's directory, and returns the statements that recreate the tables and
 * views; temporary tables need none. Throws DamagedDefinitionError for a table with its own data, and leaves its
 * definition in place.
 */
export function setAsideDefinitions(directory: string): readonly string[] {
  const damaged = damagedDefinitions(join(directory, 'engine', 'metadata'));
  if (damaged.length === 0) return [];
  const refreshed = refreshedStatements();
  const lost = damaged.find(({ table }) => !TEMPORARY.test(table) && !refreshed.has(table));
  if (lost !== undefined) {
    throw new DamagedDefinitionError(
      `the definition of the table ${lost.database}.${lost.table} is damaged`,
    );
  }
  mkdirSync(join(directory, 'set-aside'), { recursive: true });
  for (const { path, table } of damaged) {
    renameSync(path, join(directory, 'set-aside', `${Date.now()}-${table}.sql`));
  }
  return [...refreshed].flatMap(([table, statement]) => {
    const found = damaged.find((one) => one.table === table);
    return found ? [statement.replaceAll('fillstream.', `${found.database}.`)] : [];
  });
}

type Definition = { readonly path: string; readonly database: string; readonly table: string };

function damagedDefinitions(metadata: string): readonly Definition[] {
  if (!existsSync(metadata)) return [];
  const databases = readdirSync(metadata).filter((name) => !name.includes('.'));
  return databases.flatMap((database) =>
    readdirSync(join(metadata, database))
      .filter((file) => file.endsWith('.sql'))
      .map((file) => ({ file, path: join(metadata, database, file) }))
      .filter(({ path }) => !DEFINITION.test(readFileSync(path, 'latin1')))
      .map(({ file, path }) => ({ path, database, table: decodeURIComponent(file.slice(0, -4)) })),
  );
}

/** CREATE statements of all refreshable views and their tables, by name. */
function refreshedStatements(): ReadonlyMap<string, string> {
  const views = new Map<string, string>();
  const tables = new Map<string, string>();
  const targets = new Set<string>();
  for (const part of readFileSync(SCHEMA, 'utf8').split(';\n')) {
    const statement = part.trim();
    const [, kind, name = ''] =
      /^CREATE (TABLE|MATERIALIZED VIEW) fillstream\.(\w+)/m.exec(statement) ?? [];
    const [, target] = /^REFRESH .* TO fillstream\.(\w+)/m.exec(statement) ?? [];
    if (target !== undefined) targets.add(target);
    if (target !== undefined) views.set(name, statement);
    else if (kind === 'TABLE') tables.set(name, statement);
  }
  const refreshed = [...tables].filter(([name]) => targets.has(name));
  // A view names its table.
  return new Map([...refreshed, ...views]);
}
