/** The container engine of this machine: docker with its compose, or podman with docker-compose on podman's socket. */
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { getContainerRuntimeClient } from 'testcontainers';
import { until } from '../../support/service.ts';

const run = promisify(execFile);
const OUTPUT_BYTES_MAX = 64 * 2 ** 20;

/** The reason why testcontainers finds no engine; undefined if it finds one. */
export async function missingEngine(): Promise<string | undefined> {
  try {
    await getContainerRuntimeClient();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Throws with the output of a command that fails. */
type Command = (...args: readonly string[]) => Promise<string>;

export type Engine = {
  readonly name: 'docker' | 'podman';
  readonly run: Command;
  readonly compose: (env: NodeJS.ProcessEnv, ...args: readonly string[]) => Promise<string>;
  readonly close: () => void;
};

/** Stores its files, such as podman's socket, in `directory`. Throws an error that names what is missing. */
export async function openEngine(directory: string): Promise<Engine> {
  if ((await answers('docker', 'version')) && (await answers('docker', 'compose', 'version'))) {
    return {
      name: 'docker',
      run: commandOf('docker', process.env),
      compose: (more, ...args) =>
        commandOf('docker', { ...process.env, ...more })('compose', ...args),
      close: () => undefined,
    };
  }
  if (!(await answers('podman', '--version')) || !(await answers('docker-compose', 'version'))) {
    throw new Error(
      'no container engine: needs docker with its compose, or what CONTRIBUTING.md lists for podman',
    );
  }
  const socket = join(directory, 'podman.sock');
  const conf = join(import.meta.dirname, 'containers.conf');
  const env = { CONTAINERS_CONF: conf, ...process.env };
  const service = spawn('podman', ['system', 'service', '--time=0', `unix://${socket}`], {
    env,
    stdio: 'ignore',
  });
  await until(async () => existsSync(socket) || undefined);
  const docker = { ...env, DOCKER_HOST: `unix://${socket}` };
  return {
    name: 'podman',
    run: commandOf('podman', env),
    compose: (more, ...args) => commandOf('docker-compose', { ...docker, ...more })(...args),
    close: () => service.kill(),
  };
}

function commandOf(command: string, env: NodeJS.ProcessEnv): Command {
  return async (...args) => {
    const { stdout } = await run(command, args, { env, maxBuffer: OUTPUT_BYTES_MAX });
    return stdout.trim();
  };
}

async function answers(command: string, ...args: readonly string[]): Promise<boolean> {
  try {
    await run(command, args);
    return true;
  } catch {
    return false;
  }
}
