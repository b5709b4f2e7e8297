// Finds a nats-server binary, or fetches the distribution's own package into our cache.
// The order: an explicit path, PATH, the cache, `apt-get download` unpacked there. Nothing is
// installed and root is not needed. What is found must answer `--version`, or it is not used.
import { execFile } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** There is no usable nats-server and none could be fetched. */
export class NatsServerMissingError extends Error {
  override readonly name = 'NatsServerMissingError';
}

const run = promisify(execFile);
const CACHE_DIR = join(import.meta.dirname, '..', '..', '.cache', 'nats-server');
const COMMAND_MS_MAX = 120_000;
const REMEDIES =
  'install it (Debian and Ubuntu: apt-get install nats-server; macOS: brew install nats-server), ' +
  'set NATS_SERVER_BIN to the binary, or set NATS_URL to a running server';

/** The path of a nats-server that runs. Throws NatsServerMissingError with the remedies. */
export async function findNatsServer(explicit: string | undefined): Promise<string> {
  if (explicit !== undefined && explicit !== '') {
    if (await answers(explicit)) return explicit;
    throw new NatsServerMissingError(`NATS_SERVER_BIN does not name a nats-server; ${REMEDIES}`);
  }
  const cached = join(CACHE_DIR, 'nats-server');
  for (const candidate of [...onPath(), cached]) {
    if (isExecutable(candidate) && (await answers(candidate))) return candidate;
  }
  if (onPath('apt-get').every((path) => !isExecutable(path))) {
    throw new NatsServerMissingError(`no nats-server found; ${REMEDIES}`);
  }
  await fetchInto(cached);
  return cached;
}

function onPath(name = 'nats-server'): string[] {
  const directories = (process.env.PATH ?? '').split(delimiter).filter((entry) => entry !== '');
  return directories.map((directory) => join(directory, name));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return false;
    throw error;
  }
}

async function answers(binary: string): Promise<boolean> {
  try {
    const { stdout } = await run(binary, ['--version'], { timeout: COMMAND_MS_MAX });
    return stdout.startsWith('nats-server');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return false;
    throw error;
  }
}

/** Unpacks in a directory of its own and renames: two processes may fetch at once. */
async function fetchInto(target: string): Promise<void> {
  mkdirSync(CACHE_DIR, { recursive: true });
  const work = mkdtempSync(join(CACHE_DIR, 'download-'));
  try {
    const packagePath = (await download(work, [])) ?? (await downloadWithOwnLists(work));
    await run('dpkg', ['-x', packagePath, work], { timeout: COMMAND_MS_MAX });
    const unpacked = ['usr/sbin', 'usr/bin']
      .map((directory) => join(work, directory, 'nats-server'))
      .find((path) => existsSync(path));
    if (unpacked === undefined || !(await answers(unpacked))) {
      throw new NatsServerMissingError(`the package holds no nats-server that runs; ${REMEDIES}`);
    }
    renameSync(unpacked, target);
  } catch (error) {
    if (error instanceof NatsServerMissingError) throw error;
    throw new NatsServerMissingError(`nats-server could not be fetched; ${REMEDIES}`, {
      cause: error,
    });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The downloaded package, or undefined when apt has no lists that name it. */
async function download(work: string, options: readonly string[]): Promise<string | undefined> {
  try {
    // As root, apt would drop to a user that cannot write here.
    const sandbox = ['-o', 'APT::Sandbox::User=root'];
    await run('apt-get', [...sandbox, ...options, 'download', 'nats-server'], {
      cwd: work,
      timeout: COMMAND_MS_MAX,
    });
  } catch (error) {
    if (error instanceof Error && 'code' in error && typeof error.code === 'number') {
      return undefined;
    }
    throw error;
  }
  const name = readdirSync(work).find((entry) => entry.endsWith('.deb'));
  return name === undefined ? undefined : join(work, name);
}

/** Fetches the lists into the work directory: the system's are not ours to write. */
async function downloadWithOwnLists(work: string): Promise<string> {
  const lists = join(work, 'lists');
  const cache = join(work, 'cache');
  mkdirSync(join(lists, 'partial'), { recursive: true });
  mkdirSync(join(cache, 'archives', 'partial'), { recursive: true });
  const options = ['-o', `Dir::State::lists=${lists}`, '-o', `Dir::Cache=${cache}`];
  await run('apt-get', ['-o', 'APT::Sandbox::User=root', ...options, 'update'], {
    timeout: COMMAND_MS_MAX,
  });
  const packagePath = await download(work, options);
  if (packagePath === undefined) {
    throw new NatsServerMissingError(`apt knows no package nats-server; ${REMEDIES}`);
  }
  return packagePath;
}
