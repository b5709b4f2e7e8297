/** Programs of this machine: the JavaScript runtimes, for tests of the published packages, and curl, for documented commands. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

type Runtime = {
  readonly name: string;
  /** Undefined if it is not installed. */
  readonly command: string | undefined;
  /** Arguments before the program's file. */
  readonly args: readonly string[];
};

const FOLDERS = [dirname(process.execPath), ...(process.env.PATH ?? '').split(delimiter)];

const RUNTIMES: readonly Runtime[] = [
  ...['20', '22', '24'].map((major) => found(`Node ${major}`, 'node', `v${major}.`)),
  found('Bun', 'bun', ''),
  found('Deno', 'deno', 'deno ', ['run', '--allow-all']),
];

/** The first program on PATH whose version has this prefix. */
function found(name: string, file: string, version: string, args: readonly string[] = []): Runtime {
  const command = FOLDERS.map((folder) => join(folder, file)).find(
    (path) =>
      existsSync(path) &&
      spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout?.startsWith(version),
  );
  return { name, command, args };
}

/** The installed runtimes; prints the missing ones. */
export function runtimesHere(): { name: string; command: string; args: readonly string[] }[] {
  return RUNTIMES.flatMap(({ name, command, args }) => {
    if (command !== undefined) return { name, command, args };
    console.info(`skipped: there is no ${name} on PATH`);
    return [];
  });
}

/** Whether documented commands can run here; prints a message if not. */
export function hasCurl(): boolean {
  const isHere = spawnSync('curl', ['--version']).error === undefined;
  if (!isHere) console.info('skipped: there is no curl here (apt-get install curl)');
  return isHere;
}

const run = promisify(execFile);

/** A directory in which one of our packages, which packages.ts has built in `dist`, is installed as npm publishes it. */
export async function installPackage(dist: string) {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-package-'));
  const { stdout } = await run('npm', ['pack', dist, '--json', '--pack-destination', directory]);
  const [{ filename, files }] = JSON.parse(stdout);
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  await run('npm', ['install', '--offline', '--no-audit', filename], { cwd: directory });
  return {
    directory,
    files: (files as { path: string }[]).map(({ path }) => path).sort(),
    /** Deno would ask another host for a newer version of itself. */
    env: { DENO_DIR: join(directory, '.deno'), DENO_NO_UPDATE_CHECK: '1' },
    stop: async () => rmSync(directory, { recursive: true, force: true }),
  };
}
