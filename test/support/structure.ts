/**
 * Prints how big the code is: lines and files per folder, import cycles, the longest files and functions,
 * dependencies and migrations. `npm run structure`. Functions are measured by indentation, which Biome's
 * formatting makes reliable.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
/** Folders with a row of their own; every other file counts for its top-level folder. */
const FOLDERS = [
  'api/analytics',
  'api/auth',
  'api/feed',
  'api/http',
  'api/service',
  'api/sessions',
  'api/streams',
  'apps/client',
  'apps/cli',
  'apps/mcp',
  'apps/reference',
  'apps/web',
  'local/clickhouse',
  'local/devnet',
  'local',
  'infra/nats',
  ...['chain', 'events', 'ledger', 'metadata', 'pending'].map((room) => `ingest/${room}`),
];
const OTHER_KINDS = ['css', 'sql', 'sol'];

export type SourceFile = { readonly path: string; readonly text: string };

function tracked(): string[] {
  return execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).split('\n');
}

/** TypeScript sources, tests excluded unless asked for. */
export function sources(isTest = false): SourceFile[] {
  return tracked()
    .filter((path) => /\.tsx?$/.test(path) && path.startsWith('test/') === isTest)
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));
}

function linesOf(text: string): number {
  return text.split('\n').length - 1;
}

/** Relative imports of a file as repository paths. Type imports count: they couple readers, too. */
export function importsOf({ path, text }: SourceFile): string[] {
  return [...text.matchAll(/(?:from|import|import\() ?'(\.[^']+)'/g)].map((match) =>
    normalize(join(dirname(path), match[1] ?? '')),
  );
}

/** Groups of files that import each other, by Tarjan's algorithm. */
export function importCycles(files: readonly SourceFile[]): string[][] {
  const imports = new Map(files.map((file) => [file.path, importsOf(file)]));
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  function visit(path: string): number {
    const own = index.size;
    index.set(path, own);
    low.set(path, own);
    stack.push(path);
    for (const next of imports.get(path) ?? []) {
      if (!imports.has(next)) continue;
      if (!index.has(next)) low.set(path, Math.min(low.get(path) ?? own, visit(next)));
      else if (stack.includes(next)) {
        low.set(path, Math.min(low.get(path) ?? own, index.get(next) ?? own));
      }
    }
    if (low.get(path) === own) {
      const group = stack.splice(stack.indexOf(path));
      if (group.length > 1 || imports.get(path)?.includes(path)) cycles.push(group.toSorted());
    }
    return low.get(path) ?? own;
  }
  for (const path of imports.keys()) if (!index.has(path)) visit(path);
  return cycles;
}

type Measured = { readonly name: string; readonly lines: number };

function functionsOf({ path, text }: SourceFile): Measured[] {
  const lines = text.split('\n');
  const start =
    /^(\s*)(?:export )?(?:async )?function\*? (\w+)|^( {2})(?:static |async |get |set |\*)*(#?\w+)\(/;
  return lines.flatMap((line, at) => {
    const match = start.exec(line);
    if (match === null) return [];
    const indent = match[1] ?? match[3] ?? '';
    const name = match[2] ?? match[4] ?? '';
    // A call closes with a parenthesis, a function with a brace.
    const end = lines.findIndex((other, i) => i > at && other.startsWith(`${indent}}`));
    if (end < 0 || lines[end] !== `${indent}}`) return [];
    return [{ name: `${path} ${name}`, lines: end - at + 1 }];
  });
}

function folderOf(path: string): string {
  return FOLDERS.find((folder) => path.startsWith(`${folder}/`)) ?? path.split('/')[0] ?? '';
}

function report(): void {
  const files = sources();
  const print = (line: string) => process.stdout.write(`${line}\n`);
  const rows = Map.groupBy(files, ({ path }) => folderOf(path));
  const total = (some: readonly SourceFile[]) =>
    some.reduce((sum, { text }) => sum + linesOf(text), 0);
  print('TypeScript without tests'.padEnd(28) + 'files'.padStart(7) + 'lines'.padStart(8));
  for (const [folder, some] of [...rows].toSorted(([a], [b]) => a.localeCompare(b))) {
    print(folder.padEnd(28) + String(some.length).padStart(7) + String(total(some)).padStart(8));
  }
  print('total'.padEnd(28) + String(files.length).padStart(7) + String(total(files)).padStart(8));
  for (const kind of OTHER_KINDS) {
    const some = tracked().filter((path) => path.endsWith(`.${kind}`) && !path.startsWith('test/'));
    const lines = some.reduce(
      (sum, path) => sum + linesOf(readFileSync(join(ROOT, path), 'utf8')),
      0,
    );
    print(kind.padEnd(28) + String(some.length).padStart(7) + String(lines).padStart(8));
  }
  const tests = sources(true);
  print('test'.padEnd(28) + String(tests.length).padStart(7) + String(total(tests)).padStart(8));
  const cycles = importCycles(files);
  print(`\nimport cycles: ${cycles.length}`);
  for (const cycle of cycles) print(`  ${cycle.join(' ')}`);
  const longest = (all: readonly Measured[]) =>
    all.toSorted((a, b) => b.lines - a.lines).slice(0, 5);
  print('\nlongest files');
  for (const { name, lines } of longest(
    files.map(({ path, text }) => ({ name: path, lines: linesOf(text) })),
  )) {
    print(`  ${lines} ${name}`);
  }
  print('longest functions');
  for (const { name, lines } of longest(files.flatMap(functionsOf))) print(`  ${lines} ${name}`);
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<
    string,
    Record<string, string> | undefined
  >;
  for (const kind of ['dependencies', 'optionalDependencies', 'devDependencies']) {
    print(`${kind}: ${Object.keys(manifest[kind] ?? {}).length}`);
  }
  const migrations = tracked().filter((path) => /^sql\/migrations\/.*\.sql$/.test(path));
  print(`migrations: ${migrations.length}`);
}

if (basename(process.argv[1] ?? '') === basename(import.meta.filename)) report();
