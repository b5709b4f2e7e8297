/** Finds a nats-server that is new enough for a cluster, from a newer Debian release if necessary. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  downloadNatsServer,
  NATS_CACHE_DIR,
  NatsServerMissingError,
  natsServerVersion,
  onPath,
} from '../../local/nats-server-binary.ts';

/** docs/decisions/0009-embedded-parts-and-versions.md: an isolated replica of 2.9.10 may store messages in wrong places. */
const VERSION_MIN = [2, 10] as const;
/** The first Debian release whose package is new enough; it also runs on the release before. */
const SUITE = 'trixie';
const DEBIAN_KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** The path of the binary. Throws NatsServerMissingError if there is none. */
export async function findClusterServer(explicit: string | undefined): Promise<string> {
  // The server names its ports file after its own file, so the name must stay.
  const cached = join(NATS_CACHE_DIR, 'cluster', 'nats-server');
  for (const candidate of explicit ? [explicit] : [...onPath('nats-server'), cached]) {
    const [major = 0, minor = 0] = (await natsServerVersion(candidate)) ?? [];
    if (major > VERSION_MIN[0] || (major === VERSION_MIN[0] && minor >= VERSION_MIN[1])) {
      return candidate;
    }
  }
  const suite = explicit ? undefined : await suiteOptions();
  if (suite === undefined) {
    throw new NatsServerMissingError(
      `a cluster needs nats-server ${VERSION_MIN.join('.')} or newer`,
    );
  }
  await downloadNatsServer(cached, suite);
  return cached;
}

/** Makes apt read the newer release from its own mirror; undefined without apt on Debian. */
async function suiteOptions(): Promise<readonly string[] | undefined> {
  if (onPath('apt-get').length === 0) return undefined;
  const targets = ['indextargets', '--format', '$(REPO_URI)'];
  const { stdout } = await promisify(execFile)('apt-get', targets);
  const uri = stdout.split('\n').find((one) => /\/debian\/?$/.test(one));
  if (uri === undefined || !existsSync(DEBIAN_KEYS)) return undefined;
  mkdirSync(NATS_CACHE_DIR, { recursive: true });
  const sources = join(NATS_CACHE_DIR, 'cluster.list');
  writeFileSync(sources, `deb [signed-by=${DEBIAN_KEYS}] ${uri} ${SUITE} main\n`);
  return ['-o', `Dir::Etc::sourcelist=${sources}`, '-o', 'Dir::Etc::sourceparts=-'];
}
