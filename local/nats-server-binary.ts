/**
 * Finds a nats-server binary: an explicit path, PATH, our cache, or the distribution's package, which `apt-get
 * download` puts into the cache. Installs nothing and needs no root. A binary is used only if it runs `--version`.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** No usable nats-server was found, and none could be downloaded. */
export class NatsServerMissingError extends Error {
  override readonly name = 'NatsServerMissingError';
}

export const NATS_CACHE_DIR = join(import.meta.dirname, '../.cache/nats-server');
const run = promisify(execFile);
const COMMAND_MS_MAX = 120_000;
const REMEDIES =
  'install it (Debian and Ubuntu: apt-get install nats-server; macOS: brew install nats-server), ' +
  'set NATS_SERVER_BIN to the binary, or set NATS_URL to a running server';

/** The path of a working nats-server. Throws NatsServerMissingError, which says what to do. */
export async function findNatsServer(explicit: string | undefined): Promise<string> {
  if (explicit) {
    if ((await natsServerVersion(explicit)) !== undefined) return explicit;
    throw new NatsServerMissingError(`NATS_SERVER_BIN is not a working nats-server; ${REMEDIES}`);
  }
  const cached = join(NATS_CACHE_DIR, 'nats-server');
  for (const candidate of [...onPath('nats-server'), cached]) {
    if ((await natsServerVersion(candidate)) !== undefined) return candidate;
  }
  if (onPath('apt-get').length === 0) {
    throw new NatsServerMissingError(`no nats-server found; ${REMEDIES}`);
  }
  await downloadNatsServer(cached);
  return cached;
}

/** The binary's major and minor version; undefined if it is not a nats-server or does not run here. */
export async function natsServerVersion(binary: string): Promise<[number, number] | undefined> {
  if (!existsSync(binary)) return undefined;
  try {
    const { stdout } = await run(binary, ['--version'], { timeout: COMMAND_MS_MAX });
    const [, major, minor] = /^nats-server: v(\d+)\.(\d+)\./.exec(stdout) ?? [];
    return major === undefined ? undefined : [Number(major), Number(minor)];
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}

/** Files of that name in the directories of PATH. */
export function onPath(name: string): string[] {
  const directories = (process.env.PATH ?? '').split(delimiter).filter((entry) => entry !== '');
  return directories.map((directory) => join(directory, name)).filter((path) => existsSync(path));
}

/**
 * Downloads the package `nats-server` with these options of apt and puts its binary at `target`. Unpacks in its own
 * directory and renames, because two processes may download at once. Throws NatsServerMissingError.
 */
export async function downloadNatsServer(
  target: string,
  options: readonly string[] = [],
): Promise<void> {
  mkdirSync(dirname(target), { recursive: true });
  const work = mkdtempSync(join(NATS_CACHE_DIR, 'download-'));
  try {
    const archive = (await download(work, options)) ?? (await downloadWithOwnLists(work, options));
    await run('dpkg', ['-x', archive, work], { timeout: COMMAND_MS_MAX });
    const unpacked = ['usr/sbin', 'usr/bin']
      .map((directory) => join(work, directory, 'nats-server'))
      .find((path) => existsSync(path));
    if (unpacked === undefined || (await natsServerVersion(unpacked)) === undefined) {
      throw new NatsServerMissingError(`the package contains no working nats-server; ${REMEDIES}`);
    }
    renameSync(unpacked, target);
  } catch (error) {
    if (error instanceof NatsServerMissingError) throw error;
    const message = `nats-server could not be downloaded; ${REMEDIES}`;
    throw new NatsServerMissingError(message, { cause: error });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The path of the downloaded package; undefined if it is not in apt's lists. */
async function download(work: string, options: readonly string[]): Promise<string | undefined> {
  // As root, apt would switch to a user that cannot write here.
  const args = ['-o', 'APT::Sandbox::User=root', ...options, 'download', 'nats-server'];
  try {
    await run('apt-get', args, { cwd: work, timeout: COMMAND_MS_MAX });
  } catch (error) {
    if (error instanceof Error && 'code' in error && typeof error.code === 'number') {
      return undefined;
    }
    throw error;
  }
  const name = readdirSync(work).find((entry) => entry.endsWith('.deb'));
  return name === undefined ? undefined : join(work, name);
}

/** Like `download`, with its own package lists, because we must not update the system's. */
async function downloadWithOwnLists(work: string, options: readonly string[]): Promise<string> {
  const lists = join(work, 'lists');
  const cache = join(work, 'cache');
  mkdirSync(join(lists, 'partial'), { recursive: true });
  mkdirSync(join(cache, 'archives', 'partial'), { recursive: true });
  const own = ['-o', `Dir::State::lists=${lists}`, '-o', `Dir::Cache=${cache}`, ...options];
  await run('apt-get', ['-o', 'APT::Sandbox::User=root', ...own, 'update'], {
    timeout: COMMAND_MS_MAX,
  });
  const archive = await download(work, own);
  if (archive === undefined) {
    throw new NatsServerMissingError(`apt has no package nats-server; ${REMEDIES}`);
  }
  return archive;
}
