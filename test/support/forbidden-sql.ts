/** Statements that analysts may not run, and the nestings that could hide them. */
import { join } from 'node:path';

type Targets = {
  /** A file with a secret in it, in a folder of `root`. */
  readonly file: string;
  readonly root: string;
  /** An HTTP server that counts its visitors. */
  readonly port: number;
};

/** Sources of rows that an analyst may read. */
export const HARMLESS = ['fillstream.fills', 'numbers(2)', "values('a String, b UInt8', ('y', 2))"];

/** Sources of rows that must stay closed. */
export function forbiddenSources({ file, root, port }: Targets): string[] {
  const address = `http://127.0.0.1:${port}/x.csv`;
  const relative = '../open/secret.csv';
  return [
    ...[file, relative, `../../${file}`, join(root, '*', '*.csv')].flatMap((path) => [
      `default.\`${path}\``,
      `"default"."${path}"`,
      `\`${path}\``,
    ]),
    `\`default\`.\`${file.replaceAll('/', '\\x2f')}\``,
    `file('${file}')`,
    `file('${file}', 'CSV', 'a String, b UInt8')`,
    `\`f\\x69le\`('${file}')`,
    `fileCluster('default', '${file}')`,
    `filesystem('${root}')`,
    `url('${address}', CSV, 'a String')`,
    `urlCluster('default', '${address}', CSV, 'a String')`,
    `s3('${address}', CSV, 'a String')`,
    `executable('cat ${file}', CSV, 'a String')`,
    `sqlite('${join(root, 'leak')}', 't')`,
    `remote('127.0.0.1:${port}', system.one)`,
    `mysql('127.0.0.1:${port}', 'd', 't', 'u', 'p')`,
    `merge('default', '.*')`,
    `merge(REGEXP('.*'), '.*')`,
    `loop(default.\`${file}\`)`,
    `eval('SELECT file(\\'${file}\\')')`,
    `viewIfPermitted(SELECT * FROM default.\`${file}\` ELSE null('a String'))`,
    `format(Template, 'x') SETTINGS format_template_row = '${file}'`,
    `(SELECT * FROM format(Template, 'x') SETTINGS readonly = 0, format_template_row = '${file}')`,
    `(SELECT * FROM default.\`${file}\` SETTINGS readonly = 0)`,
    `(SELECT file('${file}') AS a)`,
    `(SELECT arrayMap(file, ['${file}']) AS a)`,
    `(SELECT arrayMap(path -> file(path), ['${file}']) AS a)`,
    `(SELECT * APPLY file FROM (SELECT '${file}' AS a))`,
    `(SELECT * APPLY (path -> file(path)) FROM (SELECT '${file}' AS a))`,
    `(SELECT * REPLACE (file(a) AS a) FROM (SELECT '${file}' AS a))`,
    `(SELECT a FROM numbers(1) ORDER BY file('${file}') AS a)`,
    `(SELECT number AS a FROM numbers(1) WINDOW w AS (ORDER BY file('${file}')))`,
    `(SELECT sum(number) OVER (ROWS BETWEEN length(file('${file}')) PRECEDING AND CURRENT ROW) AS a FROM numbers(1))`,
    `(SELECT number AS a FROM numbers(1) LIMIT length(file('${file}')) BY number)`,
    `(SELECT number AS a FROM numbers(1) ORDER BY number WITH FILL FROM length(file('${file}')))`,
    `(SELECT number AS a, b FROM numbers(1) ORDER BY number WITH FILL INTERPOLATE (b AS file('${file}')))`,
    `(SELECT getServerSetting('path') AS a)`,
    `(SELECT getSetting('max_memory_usage') AS a)`,
    `(SELECT hostName() AS a)`,
    `(SELECT 1 AS a WHERE 1 IN (SELECT length(value) FROM system.server_settings))`,
    `(SELECT 1 AS a WHERE 'x' IN system.disks)`,
    `dictionary('${file}')`,
    `(SELECT dictGet('${file}', 'a', 1) AS a)`,
    `(SELECT joinGet('default.x', 'a', 1) AS a)`,
    `(SELECT catboostEvaluate('${file}', 1) AS a)`,
    `(SELECT sleep(1) AS a)`,
    'system.disks',
    'system.server_settings',
    'system.processes',
    'system.query_log',
    'system.storage_policies',
    'system.remote_data_paths',
    'system.user_directories',
    '`system`.`stack_trace`',
  ];
}

type Nest = readonly [name: string, nest: (rows: string) => string];

/** Each turns a source of rows into a source of rows. */
export const NESTINGS: readonly Nest[] = [
  ['subquery', (rows) => `(SELECT * FROM ${rows})`],
  ['common table expression', (rows) => `(WITH c AS (SELECT * FROM ${rows}) SELECT * FROM c)`],
  ['scalar', (rows) => `(SELECT (SELECT count() FROM ${rows}) AS a)`],
  ['named scalar', (rows) => `(WITH (SELECT count() FROM ${rows}) AS n SELECT n AS a)`],
  ['IN', (rows) => `(SELECT 1 AS a WHERE (1, 1) IN (SELECT 1, count() FROM ${rows}))`],
  ['UNION ALL', (rows) => `(SELECT count() FROM numbers(1) UNION ALL SELECT count() FROM ${rows})`],
  ['EXCEPT', (rows) => `(SELECT count() FROM ${rows} EXCEPT SELECT 7)`],
  [
    'JOIN',
    (rows) => `(SELECT * FROM numbers(1) AS l CROSS JOIN (SELECT count() FROM ${rows}) AS r)`,
  ],
  ['view', (rows) => `view(SELECT * FROM ${rows})`],
  ['EXISTS', (rows) => `(SELECT 1 AS a WHERE exists(SELECT 1 FROM ${rows}))`],
  [
    'array join',
    (rows) => `(SELECT a FROM (SELECT [count()] AS l FROM ${rows}) ARRAY JOIN l AS a)`,
  ],
  ['lambda', (rows) => `(SELECT arrayMap(x -> x + (SELECT count() FROM ${rows}), [1]) AS a)`],
  ['aliases', (rows) => `(SELECT * FROM (SELECT count() FROM ${rows}) AS t(n))`],
];

/** Each turns a source of rows into a statement. */
export const STATEMENTS: readonly Nest[] = [
  ['SELECT', (rows) => `SELECT * FROM ${rows}`],
  ['FROM first', (rows) => `FROM ${rows} SELECT *`],
  ['CTE first', (rows) => `WITH c AS (SELECT * FROM ${rows}) SELECT * FROM c`],
  ['parentheses', (rows) => `((SELECT * FROM ${rows}))`],
  ['FORMAT', (rows) => `SELECT * FROM ${rows} FORMAT JSONEachRow`],
  ['DESCRIBE', (rows) => `DESCRIBE TABLE ${rows}`],
  ['EXPLAIN', (rows) => `EXPLAIN SELECT * FROM ${rows}`],
  ['EXPLAIN AST', (rows) => `EXPLAIN AST SELECT * FROM ${rows}`],
  ['EXPLAIN QUERY TREE', (rows) => `EXPLAIN QUERY TREE SELECT * FROM ${rows}`],
];

/** SETTINGS must be rejected in every position. */
export const SETTINGS: readonly Nest[] = [
  ['in a subquery', (rows) => `(SELECT * FROM ${rows} SETTINGS readonly = 0)`],
  ['before FORMAT', (rows) => `(SELECT * FROM (SELECT 1) SETTINGS max_threads = 1), ${rows} AS r`],
  ['in a table function', (rows) => `view(SELECT * FROM ${rows} SETTINGS readonly = 2)`],
];
