/** Dependencies: the hashes in the lock file, the audit, and the list of components (SBOM). */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import lock from '../../package-lock.json' with { type: 'json' };
import { serve } from '../support/http-server.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');

type Locked = {
  readonly integrity?: string;
  readonly link?: boolean;
  readonly optional?: boolean;
  readonly os?: string | readonly string[];
};

test('every package of this platform has a hash', () => {
  const packages = Object.entries(lock.packages as Record<string, Locked>).filter(
    // The others are our own.
    ([path, { link }]) => path.startsWith('node_modules/') && !link,
  );
  const without = packages.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
  const needed = without.filter(([, { optional, os }]) => !optional || os === undefined);
  expect(needed.map(([name]) => name)).toEqual([]);
});

test('an unavailable audit is a failure with a message, unless it is optional', async () => {
  using registry = await serve((_, response) => void response.writeHead(405).end());
  const audit = (AUDIT: string) => {
    const env = { ...process.env, npm_config_registry: registry.url, AUDIT };
    return run(process.execPath, ['infra/deploy/audit.ts'], { cwd: ROOT, env });
  };
  await expect(audit('')).rejects.toMatchObject({ code: 1, stderr: /^NOT AUDITED: / });
  expect((await audit('optional')).stderr).toMatch(/^NOT AUDITED: /);
});

test('npm run sbom lists every package', async () => {
  const options = { cwd: ROOT, maxBuffer: 2 ** 26 };
  const { stdout } = await run('npm', ['run', '--silent', 'sbom'], options);
  const { bomFormat, components } = JSON.parse(stdout) as Sbom;
  const { dependencies, devDependencies } = packageJson;
  const direct = Object.keys({ ...dependencies, ...devDependencies });
  expect(bomFormat).toBe('CycloneDX');
  expect(components.map(({ name }) => name)).toEqual(expect.arrayContaining(direct));
});

type Sbom = {
  readonly bomFormat: string;
  readonly components: readonly { readonly name: string }[];
};
