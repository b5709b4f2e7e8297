/** Programs of this machine: the JavaScript runtimes, for tests of the published packages, and curl, for documented commands. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

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

/** Whether documented commands can run here; says so if not. */
export function hasCurl(): boolean {
  const isHere = spawnSync('curl', ['--version']).error === undefined;
  if (!isHere) console.info('skipped: there is no curl here (apt-get install curl)');
  return isHere;
}
