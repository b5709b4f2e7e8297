import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generateKey } from '../../api/auth/keys.ts';
import { ClickHouseConfig, ConfigError, readConfig, withFiles } from '../../infra/config.ts';
import { concealer, withoutSecrets } from '../../infra/secrets.ts';

test('removes API keys and credentials in URLs from any text', () => {
  const key = generateKey('individual');
  const text = `GET /x?key=${key} failed: nats://user:pa55word@host:4222, https://token@node/v2`;
  const shown = withoutSecrets(text);
  expect(shown).toBe(
    'GET /x?key=fs_individual_[concealed] failed: nats://[concealed]@host:4222, https://[concealed]@node/v2',
  );
  expect(withoutSecrets('http://127.0.0.1:8123/?user=a@b')).toBe('http://127.0.0.1:8123/?user=a@b');
});

test('removes the secrets of this environment', () => {
  const conceal = concealer({
    NATS_PASSWORD: 'short',
    RPC_URL: 'https://a.example/v2/0123456789abcdef,https://b.example/?apikey=fedcba9876543210',
    HOME: '/root',
  });
  expect(conceal('HTTP request failed. URL: https://a.example/v2/0123456789abcdef')).toBe(
    'HTTP request failed. URL: https://a.example/v2/[concealed]',
  );
  expect(conceal('fedcba9876543210 and short in /root')).toBe(
    '[concealed] and [concealed] in /root',
  );
});

test('reads the value of a variable from the file that NAME_FILE names', () => {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-secret-'));
  const path = join(directory, 'url');
  writeFileSync(path, 'http://default:secret@clickhouse:8123\n');
  const environment = { CLICKHOUSE_URL_FILE: path };
  expect(readConfig(ClickHouseConfig, environment).CLICKHOUSE_URL).toBe(
    'http://default:secret@clickhouse:8123',
  );
  expect(withFiles(environment)).toEqual({
    CLICKHOUSE_URL: 'http://default:secret@clickhouse:8123',
  });
  rmSync(directory, { recursive: true });
  expect(() => readConfig(ClickHouseConfig, environment)).toThrow(ConfigError);
  expect(() => readConfig(ClickHouseConfig, environment)).toThrow(
    'CLICKHOUSE_URL_FILE: cannot be read (ENOENT)',
  );
});
