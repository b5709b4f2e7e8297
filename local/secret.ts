/** Secrets of embedded servers: random, one per data directory, readable by its owner only. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readText } from './lock.ts';

const SECRET = /^[0-9a-f]{64}$/;

/** Returns the secret in the file. Writes a new one if the file is missing or incomplete. */
function secretIn(file: string): string {
  const stored = readText(file);
  if (SECRET.test(stored)) return stored;
  const secret = randomBytes(32).toString('hex');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, secret, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return secret;
}

/** Password of the service's user of the embedded ClickHouse in this directory. */
export function clickHousePassword(directory: string): string {
  return secretIn(join(directory, 'password'));
}

/** The URL of an embedded ClickHouse with the credentials of its unrestricted user. */
export function serviceUrl(url: string, directory: string): string {
  const { host } = new URL(url);
  return `http://service:${clickHousePassword(directory)}@${host}`;
}

/** Token of the embedded NATS in this directory. */
export function natsToken(directory: string): string {
  return secretIn(join(directory, 'token'));
}
