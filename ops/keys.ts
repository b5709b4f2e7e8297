/**
 * `npm run keys`: manages API keys from the command line. It writes to the JetStream bucket that every api
 * process watches, so changes take effect everywhere within a second. A key is printed once, when it
 * is issued. All other commands use its id.
 */
import { z } from 'zod';
import {
  changeKey,
  issueKey,
  KeyUnknownError,
  revokeKey,
  rotateKey,
} from '../api/auth/key-admin.ts';
import {
  KEYS_BUCKET,
  KeyLabel,
  KeyRecord,
  keyIdOf,
  keyStatus,
  type StoredKey,
} from '../api/auth/keys.ts';
import { Tier } from '../api/http/caller.ts';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { runCommand } from '../infra/command.ts';
import { NatsConfig, readConfig, withFiles } from '../infra/config.ts';
import { ExpectedError, UsageError } from '../infra/expected.ts';
import { connectNats, natsOptions } from '../infra/nats/connection.ts';
import { type Kv, openKv, parseValue } from '../infra/nats/kv.ts';
import { clean, cleanJson } from '../infra/printed.ts';

const HELP = `API keys of Fillstream.

  npm run keys -- issue --tier TIER --account NAME [--label TEXT] [--expires TIME]
  npm run keys -- list [--account NAME] [--all] [--json]
  npm run keys -- rotate ID [--grace DURATION]
  npm run keys -- expire ID --at TIME
  npm run keys -- revoke ID

  issue    creates a key and prints it; it is never shown again
  list     lists valid keys; --all includes expired and revoked ones
  rotate   creates a successor with the same account, tier and expiry; the old key stays valid for
           the grace period (default 24h; with 0s it expires at once)
  expire   sets when a key expires; --at never removes the expiry
  revoke   ends a key and its open streams for good, in every process within a second

TIER is demo, individual or pro. NAME is the account that owns the key; limits apply per account. ID
is the first column of list. DURATION is, for example, 90d, 12h, 30m or 10s. TIME is a duration from
now or an ISO 8601 time (2027-01-31T00:00:00Z).

Clients send a key in the header X-Service-Key. To replace one without an outage: rotate it,
distribute the new key, and wait for the grace period to end.

The keys are those of the npm start that runs on the data directory .data, or on another one with
--data DIR. If NATS_URL is set, they are those of that server instead (docs/configuration.md).

  npm run keys -- issue --tier pro --account acme --label laptop`;

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const SEE_HELP = 'See npm run keys -- help.';
const ARGUMENTS = {
  allowPositionals: true,
  options: {
    ...{ tier: text, account: text, label: text, expires: text, grace: text, at: text },
    ...{ data: text, all: flag, json: flag, help: flag },
  },
} as const;

await runCommand('keys', main);

async function main(): Promise<undefined> {
  const { positionals, values } = readArguments(ARGUMENTS, SEE_HELP);
  const [command, ...ids] = positionals;
  if (command === undefined || command === 'help' || values.help === true) return print(HELP);
  const run = commandOf(command, ids, values, Date.now());
  const config = await natsConfig(values.data);
  const nats = await connectNats({ ...natsOptions(config), name: 'keys', isPatient: false });
  try {
    await run(await openKv(nats, KEYS_BUCKET, { replicas: config.NATS_REPLICAS }));
  } finally {
    await nats.close();
  }
}

/** NATS_URL, or the server of the `npm start` that runs on this directory. Throws ExpectedError. */
async function natsConfig(directory = '.data'): Promise<NatsConfig> {
  const environment = withFiles(process.env);
  if (environment.NATS_URL) return readConfig(NatsConfig, environment);
  // The image has no local/.
  const { runningNats } = await import('../local/nats-server.ts');
  const running = runningNats(directory);
  if (running !== undefined) return readConfig(NatsConfig, { ...environment, ...running });
  throw new ExpectedError(
    `npm start runs no NATS in ${directory}: start it, pass its directory with --data DIR, or set NATS_URL`,
  );
}

type Values = ReturnType<typeof readArguments<typeof ARGUMENTS>>['values'];
type Command = (bucket: Kv) => Promise<void>;

/** Validates the arguments before it connects to anything. */
function commandOf(
  command: string,
  ids: readonly string[],
  values: Values,
  nowMs: number,
): Command {
  switch (command) {
    case 'issue':
      return issue(values, nowMs);
    case 'list':
      return (bucket) => list(bucket, values, nowMs);
    case 'rotate':
      return rotate(oneId(ids), values, nowMs);
    case 'expire':
      return expire(oneId(ids), values, nowMs);
    case 'revoke':
      return revoke(oneId(ids), nowMs);
    default:
      throw new UsageError(`unknown command ${command}`, SEE_HELP);
  }
}

function issue({ tier, account, label, expires }: Values, nowMs: number): Command {
  const parsed = z
    .object({
      tier: z.enum(Tier.options, { error: `required: ${Tier.options.join(', ')}` }),
      account: z.string({ error: 'required: the account that owns the key' }).min(1).max(200),
      label: KeyLabel,
    })
    .safeParse({ tier, account, label: label ?? '' });
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}`);
    throw new UsageError(lines.join('\n'), SEE_HELP);
  }
  const expiresAt = expires === undefined ? undefined : timeOf('--expires', expires, nowMs);
  return async (bucket) => {
    const { key, stored } = await issueKey(bucket, { ...parsed.data, expiresAt }, nowMs);
    print(
      `${key}\n\n${describe(stored)}\nThe key is not shown again. ` +
        'Clients send it in the header X-Service-Key.',
    );
  };
}

async function list(bucket: Kv, values: Values, nowMs: number): Promise<void> {
  const all = await readAll(bucket);
  const shown = all
    .filter(({ record }) => values.account === undefined || record.account === values.account)
    .filter(({ record }) => values.all === true || keyStatus(record, nowMs) === 'valid')
    .toSorted((a, b) => a.record.created_at.localeCompare(b.record.created_at));
  if (values.json === true) {
    const rows = shown.map(({ keyHash, record }) => ({
      id: keyIdOf(keyHash),
      status: keyStatus(record, nowMs),
      ...record,
    }));
    return print(cleanJson(rows, 2));
  }
  const head = ['ID', 'STATUS', 'TIER', 'ACCOUNT', 'LABEL', 'CREATED', 'EXPIRES'];
  const rows = shown.map(({ keyHash, record }) => [
    keyIdOf(keyHash),
    keyStatus(record, nowMs),
    record.tier,
    clean(record.account),
    clean(record.label),
    record.created_at,
    record.expires_at ?? 'never',
  ]);
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  print([head, ...rows].map(line).join('\n'));
}

function rotate(id: string, { grace = '24h' }: Values, nowMs: number): Command {
  const graceMs = durationMs(grace);
  if (graceMs === undefined) throw new UsageError('--grace: expected a duration such as 24h or 0s');
  return async (bucket) => {
    const { keyHash } = await findKey(bucket, id);
    const { key, stored, old } = await rotateKey(bucket, keyHash, graceMs, nowMs);
    print(
      `${key}\n\n${describe(stored)}\nThe key is not shown again. ` +
        `The old key ${id} is valid until ${old.record.expires_at}.`,
    );
  };
}

function expire(id: string, { at }: Values, nowMs: number): Command {
  if (at === undefined) throw new UsageError('--at is required: a time, or never');
  const expires_at = at === 'never' ? undefined : timeOf('--at', at, nowMs);
  return async (bucket) => {
    const { keyHash } = await findKey(bucket, id);
    print(describe(await changeKey(bucket, keyHash, (record) => ({ ...record, expires_at }))));
  };
}

function revoke(id: string, nowMs: number): Command {
  return async (bucket) => {
    const { keyHash } = await findKey(bucket, id);
    const { record } = await revokeKey(bucket, keyHash, nowMs);
    print(`key ${id} of account ${clean(record.account)} was revoked at ${record.revoked_at}`);
  };
}

async function findKey(bucket: Kv, id: string): Promise<StoredKey> {
  const found = (await readAll(bucket)).find(({ keyHash }) => keyIdOf(keyHash) === id);
  if (found === undefined) throw new KeyUnknownError(id);
  return found;
}

async function readAll(bucket: Kv): Promise<readonly StoredKey[]> {
  const found = new Map<string, StoredKey>();
  const stop = new AbortController();
  for await (const event of bucket.watch(stop.signal)) {
    if (event.type === 'initialised') break;
    const record = event.type === 'put' ? parseValue(KeyRecord, event.value) : undefined;
    if (record === undefined) continue;
    found.set(event.key, { keyHash: event.key, record, revision: event.revision });
  }
  stop.abort();
  return [...found.values()];
}

function oneId(ids: readonly string[]): string {
  const [id, ...more] = ids;
  if (id !== undefined && more.length === 0 && /^[0-9a-f]{16}$/.test(id)) return id;
  // The argument may be a key, so the message must not repeat it.
  throw new UsageError(
    'expected one ID: the 16 digits in the first column of npm run keys -- list',
  );
}

function timeOf(option: string, text: string, nowMs: number): string {
  const ms = durationMs(text);
  if (ms !== undefined) return new Date(nowMs + ms).toISOString();
  const parsed = z.iso.datetime().safeParse(text);
  if (parsed.success) return new Date(parsed.data).toISOString();
  throw new UsageError(
    `${option}: expected a duration such as 90d, or a time such as 2027-01-31T00:00:00Z`,
  );
}

function durationMs(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  return unitMs === undefined ? undefined : Number(count) * unitMs;
}

function describe({ keyHash, record }: StoredKey): string {
  const label = record.label === '' ? '' : ` "${clean(record.label)}"`;
  const expires = record.expires_at === undefined ? 'never expires' : `until ${record.expires_at}`;
  const account = clean(record.account);
  return `key ${keyIdOf(keyHash)}${label}: ${record.tier}, account ${account}, ${expires}`;
}

function print(text: string): undefined {
  process.stdout.write(`${text}\n`);
}
