/**
 * PostgreSQL as a peer: Debian's server with settings for this machine, on a Unix socket in a directory of its own, and the
 * packages of npm that peers need, installed in the system's temporary directory. Nothing here blocks the event loop: other
 * connections would miss that their server has closed them.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const INSTALLED = '/usr/lib/postgresql';
const DATABASE = 'postgres';
const PG_VERSION = '8.23.1';
const execute = promisify(execFile);

/** A peer is not installed; the message says how to install it. */
export class PeerAbsent extends Error {}

/** How the benchmark and its http server reach the server. */
export type PgConnection = {
  readonly host: string;
  readonly user: string;
  readonly database: string;
};

/** The part of the package `pg` that we use. Every value arrives as text, the way PostgreSQL sends it. */
export type Pool = {
  query(statement: {
    readonly text: string;
    readonly name?: string;
    readonly values?: readonly unknown[];
    readonly rowMode?: 'array';
  }): Promise<{ readonly rows: readonly (readonly (string | null)[])[] }>;
  end(): Promise<void>;
};

/** Installs npm packages once in a directory of the system's temporary directory. Returns the directory. */
export async function installPackages(name: string, packages: readonly string[]): Promise<string> {
  const directory = join(tmpdir(), `fillstream-bench-${name}`);
  const done = join(directory, 'installed');
  const wanted = packages.join('\n');
  if (!existsSync(done) || readFileSync(done, 'utf8') !== wanted) {
    mkdirSync(directory, { recursive: true });
    const options = ['--no-audit', '--no-fund', '--loglevel=error', '--prefix', directory];
    await execute('npm', ['install', ...options, ...packages], { cwd: directory }).catch(
      (error: Error) => {
        throw new PeerAbsent(`npm cannot install ${packages.join(' ')}: ${error.message}`);
      },
    );
    writeFileSync(done, wanted);
  }
  return directory;
}

export function installPg(): Promise<string> {
  return installPackages('pg', [`pg@${PG_VERSION}`]);
}

/** A pool of the package `pg` installed in `directory`. */
export function openPool(directory: string, connection: PgConnection, max: number): Pool {
  const pg = createRequire(join(directory, 'package.json'))('pg') as {
    Pool: new (options: object) => Pool;
  };
  const asText = { getTypeParser: () => (value: string) => value };
  return new pg.Pool({ ...connection, max, types: asText });
}

/** Directory of the newest server's programs. Throws PeerAbsent. */
export function postgresPrograms(): string {
  const versions = existsSync(INSTALLED) ? readdirSync(INSTALLED) : [];
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))[0];
  const directory = join(INSTALLED, newest ?? '', 'bin');
  if (existsSync(join(directory, 'initdb'))) return directory;
  throw new PeerAbsent('PostgreSQL is not installed: apt-get install postgresql');
}

/** PostgreSQL does not run as root. */
function unprivileged(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const line = readFileSync('/etc/passwd', 'utf8').match(/^postgres:[^:]*:(\d+):(\d+):/m);
  const [, uid = 65_534, gid = 65_534] = line ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

export function postgresSettings(): Readonly<Record<string, string>> {
  const cores = String(availableParallelism());
  const megabytes = Math.floor(totalmem() / 2 ** 20);
  return {
    shared_buffers: `${Math.floor(megabytes / 4)}MB`,
    effective_cache_size: `${Math.floor(megabytes / 2)}MB`,
    work_mem: '256MB',
    maintenance_work_mem: '1GB',
    max_worker_processes: String(2 * Number(cores)),
    max_parallel_workers: cores,
    max_parallel_workers_per_gather: cores,
    // Compiling costs more than it saves in queries of some hundred milliseconds.
    jit: 'off',
    random_page_cost: '1.1',
    effective_io_concurrency: '200',
    synchronous_commit: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
    max_wal_size: '8GB',
    timezone: 'UTC',
  };
}

/** Starts the server in this directory, which it initializes first. */
export async function startPostgres(directory: string) {
  const bin = postgresPrograms();
  const owner = unprivileged();
  const as = { ...owner, cwd: directory };
  const data = join(directory, 'data');
  const connection: PgConnection = { host: directory, user: 'bench', database: DATABASE };
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (owner.uid !== undefined) chownSync(directory, owner.uid, owner.gid ?? owner.uid);
  if (!existsSync(join(data, 'PG_VERSION'))) {
    const options = ['-D', data, '-U', connection.user, '--auth=trust', '-E', 'UTF8'];
    await execute(join(bin, 'initdb'), [...options, '--locale=C'], as);
  }
  const { stdout: version } = await execute(join(bin, 'postgres'), ['--version'], as);
  const settings = {
    ...postgresSettings(),
    listen_addresses: '',
    unix_socket_directories: directory,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(join(bin, 'postgres'), ['-D', data, ...args], {
    ...as,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk) => {
    log = `${log}${chunk}`.slice(-10_000);
  });
  while (!log.includes('ready to accept connections')) {
    if (child.exitCode !== null) throw new Error(`postgres ended: ${log}`);
    await delay(20);
  }
  const psql = ['-h', directory, '-U', connection.user, '-d'];
  return {
    connection,
    version: version.trim(),
    /** Resolves with the output. */
    async run(sql: string, database = DATABASE): Promise<string> {
      const args = [...psql, database, '-qAt', '-v', 'ON_ERROR_STOP=1', '-f', '-'];
      const running = execute(join(bin, 'psql'), args);
      running.child.stdin?.end(sql);
      return (await running).stdout;
    },
    /** Copies tab-separated rows into a table. */
    async copy(table: string, rows: ReadableStream<Uint8Array>): Promise<void> {
      const args = [...psql, DATABASE, '-c', `COPY ${table} FROM STDIN`];
      const copying = spawn(join(bin, 'psql'), args, { stdio: ['pipe', 'ignore', 'inherit'] });
      const exit = once(copying, 'exit');
      await pipeline(Readable.from(rows), copying.stdin);
      if ((await exit)[0] !== 0) throw new Error(`COPY ${table} failed`);
    },
    async stop(): Promise<void> {
      const exit = once(child, 'exit');
      // Ends open connections instead of waiting for their clients.
      child.kill('SIGINT');
      await exit;
    },
  };
}
export type Postgres = Awaited<ReturnType<typeof startPostgres>>;
