/**
 * Stand-ins for images that cannot be pulled here, so that the rest of the compose files can be tested: our
 * own image, ports, names, health checks, secrets, users, restarts. They do not test the servers themselves.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { findClusterServer } from '../../support/nats-cluster-binary.ts';
import type { Engine } from './engine.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../../..');

/** Whether the image exists here or can be pulled. */
export async function isAvailable(engine: Engine, image: string): Promise<boolean> {
  try {
    await engine.run('image', 'inspect', image);
    return true;
  } catch {
    return engine.run('pull', '--quiet', image).then(
      () => true,
      () => false,
    );
  }
}

/**
 * Builds a Debian image with this Node.js and npm, and wget for health checks. Needs root, debootstrap and apt's
 * servers.
 */
export async function makeNodeImage(engine: Engine, image: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-image-'));
  const root = join(directory, 'root');
  const archive = join(directory, 'root.tar');
  try {
    await run('debootstrap', [
      ...['--variant=minbase', '--include=ca-certificates,wget', 'bookworm', root],
    ]);
    await run('chroot', [root, 'useradd', '--create-home', '--uid', '1000', 'node']);
    copyFileSync(process.execPath, join(root, 'usr/local/bin/node'));
    const npm = join(dirname(process.env.npm_execpath ?? ''), '../..');
    const modules = join(root, 'usr/local/lib/node_modules');
    mkdirSync(modules, { recursive: true });
    cpSync(npm, join(modules, 'npm'), { recursive: true });
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
    await run('tar', ['-C', root, '-cf', archive, '.']);
    const path = 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    await engine.run('import', '--change', path, archive, image);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Changes to the compose file for NATS: the same command with this machine's nats-server. */
export async function natsStandIn(nodeImage: string): Promise<object> {
  const binary = await findClusterServer(process.env.NATS_SERVER_BIN);
  return {
    image: nodeImage,
    entrypoint: ['/nats-server'],
    volumes: [`${binary}:/nats-server:ro`],
  };
}

/** Changes for ClickHouse and the chain node: our own image with the embedded servers. */
export function embedded(kind: 'clickhouse' | 'chain'): object {
  return {
    image: 'fillstream',
    user: 'root',
    entrypoint: ['node', 'test/release/containers/stand-in.ts', kind],
    command: [],
    restart: 'unless-stopped',
    volumes: [
      `${ROOT}/node_modules:/app/node_modules:ro`,
      `${ROOT}/test:/app/test:ro`,
      ...(kind === 'chain' ? ['chain:/chain'] : []),
    ],
  };
}
