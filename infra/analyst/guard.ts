/**
 * Decides whether an analyst may run a statement, from the engine's own syntax tree (`EXPLAIN AST`), so that no spelling
 * can hide anything. Everything that is not known to be harmless is rejected: kinds of nodes, tables, functions, and
 * SETTINGS, because ClickHouse does not apply a user's constraints to SETTINGS in a subquery (ClickHouse#116028).
 */
import {
  AGGREGATE_COMBINATORS,
  CLOSED_FUNCTIONS,
  FUNCTIONS,
  namesOf,
  SYNTAX,
  TABLE_FUNCTIONS,
} from './functions.ts';

/** The statement is refused. The message tells the analyst why. */
export class RefusedStatementError extends Error {
  override readonly name = 'RefusedStatementError';
}

/** Databases whose tables an analyst may read. */
export const ANALYST_DATABASES = namesOf(`
  analyst fillstream information_schema INFORMATION_SCHEMA
`);

/** Tables of `system` that describe SQL and our tables, and reveal nothing about the machine or other users. */
const SYSTEM_TABLES = namesOf(`
  aggregate_function_combinators collations columns data_type_families databases formats
  functions keywords numbers numbers_mt one settings tables table_functions time_zones zeros
  zeros_mt
`);

/** The first line of a tree: the statements that an analyst may run. */
const STATEMENTS = new Set([
  'DescribeQuery',
  'Explain EXPLAIN',
  'Explain EXPLAIN AST',
  'Explain EXPLAIN ESTIMATE',
  'Explain EXPLAIN PIPELINE',
  'Explain EXPLAIN QUERY TREE',
  'Explain EXPLAIN SYNTAX',
  'ExistsDatabaseQuery',
  'ExistsDictionaryQuery',
  'ExistsTableQuery',
  'ExistsViewQuery',
  'SelectWithUnionQuery',
  'ShowColumns',
  'ShowCreateDatabaseQuery',
  'ShowCreateDictionaryQuery',
  'ShowCreateTableQuery',
  'ShowCreateViewQuery',
  'ShowFunctions',
  'ShowTables',
]);

/** Nodes below the first line. The names of `Function`, `Identifier` and `TableIdentifier` are checked, too. */
const KINDS = namesOf(`
  ArrayJoin Asterisk ColumnsExceptTransformer ColumnsListMatcher ColumnsRegexpMatcher
  ColumnsReplaceTransformer ColumnsReplaceTransformer::Replacement ColumnsTransformerList
  ExpressionList Function Identifier InterpolateElement Literal OrderByElement QualifiedAsterisk
  QualifiedColumnsListMatcher QualifiedColumnsRegexpMatcher SampleRatio
  SelectIntersectExceptQuery SelectQuery SelectWithUnionQuery Subquery TableExpression
  TableIdentifier TableJoin TablesInSelectQuery TablesInSelectQueryElement WindowDefinition
  WindowListElement WithElement
`);

/** A line of the tree: indentation, kind, and name (`file (alias x) (children 1)`). */
const LINE = /^( *)(\S+)(?: (.*?))?(?: \(alias .*\))?(?: \(children \d+\))?$/;

/** SHOW and EXISTS have conditions that their trees leave out, so only these texts are allowed. */
const SHOW =
  /^\s*(?:EXISTS|SHOW\s+(?:CREATE|DATABASES|FUNCTIONS|(?:EXTENDED\s+)?(?:FULL\s+)?(?:COLUMNS|TABLES)))\b[\w\s.,;%'`"-]*$/i;

/**
 * Throws RefusedStatementError unless a statement is a harmless read. `tree` is what `EXPLAIN AST` prints for the
 * statement `text`.
 */
export function refuseUnlessHarmless(tree: string, text: string): void {
  const [first = '', ...lines] = tree.replace(/\n+$/, '').split('\n');
  const statement = first.replace(/ \(children \d+\)$/, '');
  const [, show] = /^((?:Show|Exists)\w+)/.exec(statement) ?? [];
  const isOpen = show === undefined || (SHOW.test(text) && !/\bWHERE\b/i.test(text));
  if (!isOpen || !STATEMENTS.has(show ?? statement)) {
    throw refused(
      'use SELECT, WITH, EXPLAIN, DESCRIBE, EXISTS, or SHOW of databases, tables, columns or functions',
    );
  }
  const isExplain = statement.startsWith('Explain ');
  // EXPLAIN has options of its own, which come first.
  if (isExplain && lines[0] === ' Set') lines.shift();
  for (const line of lines) {
    const [, indentation = '', kind = '', name = ''] = LINE.exec(line) ?? [];
    // Nothing else puts a literal that close to the root.
    if (kind === 'Literal' && indentation.length <= (isExplain ? 2 : 1)) {
      throw refused('INTO OUTFILE is not allowed');
    }
    refuseNode(kind, name);
  }
}

function refuseNode(kind: string, name: string): void {
  if (kind === 'Set') {
    throw refused(
      'SETTINGS is not allowed in a statement; send the settings as parameters of the URL',
    );
  }
  if (kind === 'ColumnsApplyTransformer') throw refused('APPLY is not allowed');
  if (!KINDS.has(kind)) throw refused(`${kind || 'this syntax'} is not allowed`);
  if (kind === 'Function') refuseFunction(name);
  if (kind === 'TableIdentifier') refuseTable(name);
  if (kind === 'Identifier') {
    // The name of a function can be an argument, and the name of a table can follow IN.
    if (CLOSED_FUNCTIONS.has(name.toLowerCase())) throw refused(`the name ${name} is not allowed`);
    if (/^system\./i.test(name)) refuseTable(name.split('.').slice(0, 2).join('.'));
  }
}

function refuseTable(name: string): void {
  const dot = name.indexOf('.');
  // The table of a common table expression, or of the database of the request.
  if (dot < 0) return;
  const database = name.slice(0, dot);
  if (ANALYST_DATABASES.has(database)) return;
  if (database === 'system' && SYSTEM_TABLES.has(name.slice(dot + 1))) return;
  throw refused(`the table ${name} is not open to analysts`);
}

function refuseFunction(name: string): void {
  const known = name.toLowerCase();
  if (TABLE_FUNCTIONS.has(known) || SYNTAX.has(known)) return;
  let plain: string | undefined = known;
  while (plain !== undefined && !CLOSED_FUNCTIONS.has(plain)) {
    if (FUNCTIONS.has(plain)) return;
    const end: string | undefined = [...AGGREGATE_COMBINATORS].find((suffix) =>
      plain?.endsWith(suffix),
    );
    plain = end && plain.slice(0, -end.length);
  }
  throw refused(`the function ${name} is not open to analysts`);
}

function refused(reason: string): RefusedStatementError {
  return new RefusedStatementError(`Analysts can only read tables: ${reason}.`);
}
