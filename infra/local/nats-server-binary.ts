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
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** There is no usable nats-server and none could be fetched. */
export class NatsServerMissingError extends Error {
  override readonly name = 'NatsServerMissingError';
}

const run = promisify(execFile);
const CACHE_DIR = join(import.meta.dirname, '..', '..', '.cache', 'nats-server');
const COMMAND_MS_MAX = 120_000;
/** docs/decisions/0012: a replica of 2.9.10 that was cut off may hold messages in wrong places. */
const CLUSTER_VERSION_MIN = [2, 10] as const;
/** The first Debian release whose package is new enough for a cluster; it runs on the one before. */
const CLUSTER_SUITE = 'trixie';
const DEBIAN_KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg';
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

/** As `findNatsServer`, but new enough for a cluster; from a newer Debian where this one's is not. */
export async function findClusterServer(explicit: string | undefined): Promise<string> {
  // The server names its ports file after its own file.
  const cached = join(CACHE_DIR, 'cluster', 'nats-server');
  const given = explicit === undefined || explicit === '' ? [...onPath(), cached] : [explicit];
  for (const candidate of given) {
    if (isExecutable(candidate) && (await isForClusters(candidate))) return candidate;
  }
  const suites = await suiteOptions();
  if (given[0] === explicit || suites === undefined) {
    const wanted = CLUSTER_VERSION_MIN.join('.');
    throw new NatsServerMissingError(`a cluster needs nats-server ${wanted} or newer; ${REMEDIES}`);
  }
  await fetchInto(cached, suites);
  return cached;
}

async function isForClusters(binary: string): Promise<boolean> {
  const [major, minor] = CLUSTER_VERSION_MIN;
  const { stdout } = await run(binary, ['--version'], { timeout: COMMAND_MS_MAX });
  const found = /v(\d+)\.(\d+)\./.exec(stdout)?.slice(1).map(Number) ?? [];
  const [foundMajor = 0, foundMinor = 0] = found;
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
}

/** What makes apt look into the newer release on the mirror that it uses; undefined without apt. */
async function suiteOptions(): Promise<readonly string[] | undefined> {
  if (onPath('apt-get').every((path) => !isExecutable(path))) return undefined;
  const { stdout } = await run('apt-get', ['indextargets', '--format', '$(REPO_URI)']);
  const uri = stdout.split('\n').find((one) => /\/debian\/?$/.test(one));
  if (uri === undefined || !existsSync(DEBIAN_KEYS)) return undefined;
  mkdirSync(CACHE_DIR, { recursive: true });
  const sources = join(CACHE_DIR, 'cluster.list');
  writeFileSync(sources, `deb [signed-by=${DEBIAN_KEYS}] ${uri} ${CLUSTER_SUITE} main\n`);
  return ['-o', `Dir::Etc::sourcelist=${sources}`, '-o', 'Dir::Etc::sourceparts=-'];
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
async function fetchInto(target: string, suites?: readonly string[]): Promise<void> {
  mkdirSync(dirname(target), { recursive: true });
  const work = mkdtempSync(join(CACHE_DIR, 'download-'));
  try {
    const packagePath =
      suites === undefined
        ? ((await download(work, [])) ?? (await downloadWithOwnLists(work, [])))
        : await downloadWithOwnLists(work, suites);
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
async function downloadWithOwnLists(work: string, suites: readonly string[]): Promise<string> {
  const lists = join(work, 'lists');
  const cache = join(work, 'cache');
  mkdirSync(join(lists, 'partial'), { recursive: true });
  mkdirSync(join(cache, 'archives', 'partial'), { recursive: true });
  const own = ['-o', `Dir::State::lists=${lists}`, '-o', `Dir::Cache=${cache}`];
  const options = [...own, ...suites];
  await run('apt-get', ['-o', 'APT::Sandbox::User=root', ...options, 'update'], {
    timeout: COMMAND_MS_MAX,
  });
  const packagePath = await download(work, options);
  if (packagePath === undefined) {
    throw new NatsServerMissingError(`apt knows no package nats-server; ${REMEDIES}`);
  }
  return packagePath;
}
