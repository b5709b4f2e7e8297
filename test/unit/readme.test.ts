import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Config } from '../../infra/config.ts';
import packageJson from '../../package.json' with { type: 'json' };

const README = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');

test('the README lists every variable with its default', () => {
  const defaults = Config.parse({});
  for (const name of Object.keys(Config.shape) as (keyof typeof defaults)[]) {
    const row = README.split('\n').find((line) => line.split('|')[1]?.includes(`\`${name}\``));
    expect(row, name).toBeDefined();
    const value = defaults[name];
    if (typeof value === 'string' || typeof value === 'number')
      expect(row).toContain(`\`${value}\``);
  }
});

test('the README explains every dependency', () => {
  const names = Object.keys({
    ...packageJson.dependencies,
    ...packageJson.optionalDependencies,
    ...packageJson.devDependencies,
  }).filter((name) => !name.startsWith('@types/'));
  const short = (name: string) => name.replace(/^@nats-io\/(jetstream|kv)$/, '$1');
  expect(names.filter((name) => !README.includes(`\`${short(name)}\``))).toEqual([]);
});
