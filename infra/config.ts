/**
 * The configuration of every process: environment variables, or files named by `NAME_FILE`. Each process has one schema
 * and reads it once, in its `main`. docs/configuration.md describes each variable. Errors contain the variable and the
 * rule but never the value, which may be a secret.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { ExpectedError } from './expected.ts';

const Port = z.coerce.number().int().min(0).max(65_535);
const Text = z.string().min(1).optional();
/**
 * `full`: the node pushes bodies (bor, geth, anvil). `alchemy`: it pushes the bodies of calls to the exchanges.
 * `hashes`: it pushes hashes, and we look up the bodies. `txpool`: we poll the pool.
 */
export const MEMPOOL_SOURCES = ['full', 'alchemy', 'hashes', 'txpool'] as const;

const Address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be an address, 0x and 40 hex digits');
const ContractAddress = Address.transform((text) => text.toLowerCase() as `0x${string}`);

/** Comma-separated items; empty by default. */
function listOf<Item extends z.ZodType<unknown, string>>(item: Item) {
  return z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(z.array(item));
}

/** The origin of Polymarket's profile images and icons. */
const POLYMARKET_PICTURES = 'https://polymarket-upload.s3.us-east-2.amazonaws.com';

/** Comma-separated URLs, at least one. */
function urls(isValid: (url: string) => boolean, rule: string) {
  return z.string().refine((text) => text.split(',').every(isValid), {
    message: `must be ${rule}, comma-separated`,
  });
}

function hasProtocol(url: string, protocols: RegExp): boolean {
  return URL.canParse(url) && protocols.test(new URL(url).protocol);
}

/** `exchange:collateral`: an exchange, and the token in its position ids; `exchange:v3`: one of version 3. */
const Exchange = z
  .string()
  .regex(
    /^0x[0-9a-fA-F]{40}:(0x[0-9a-fA-F]{40}|v3)$/,
    'must be exchange:collateral or exchange:v3, comma-separated',
  )
  .transform((pair) => {
    const [exchange = '', collateral = ''] = pair.toLowerCase().split(':');
    return [exchange, collateral as `0x${string}` | 'v3'] as const;
  });

/** `i/n`: this is instance i of n, counted from 0. */
const Instance = z
  .string()
  .regex(/^\d{1,2}\/\d{1,2}$/, 'must be i/n')
  .transform((text) => {
    const [index = 0, count = 1] = text.split('/').map(Number);
    return { index, count };
  })
  .refine(({ index, count }) => count >= 1 && count <= 16 && index < count, {
    message: 'must be i/n with 0 ≤ i < n ≤ 16',
  });

export const NatsConfig = z.object({
  // The client library would silently drop a user and password in the URL.
  NATS_URL: urls(
    (url) => /^(nats|tls):\/\/[^\s@]+$/.test(url),
    'nats:// or tls:// URLs without a user (see NATS_USER, NATS_TOKEN)',
  ).default('nats://127.0.0.1:4222'),
  NATS_REPLICAS: z.coerce.number().int().min(1).max(5).default(1),
  NATS_USER: Text,
  NATS_PASSWORD: Text,
  NATS_TOKEN: Text,
  NATS_CREDS: Text,
  NATS_TLS_CA: Text,
  NATS_TLS_CERT: Text,
  NATS_TLS_KEY: Text,
});
export type NatsConfig = z.infer<typeof NatsConfig>;

export const ClickHouseConfig = z.object({
  CLICKHOUSE_URL: z.url({ protocol: /^https?$/ }).default('http://127.0.0.1:8123'),
  CLICKHOUSE_DATABASE: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/)
    .default('fillstream'),
  CLICKHOUSE_CLUSTER: z
    .string()
    .regex(/^([A-Za-z_][A-Za-z0-9_-]{0,62}|\{cluster\})$/)
    .optional(),
});

/** Commands that need both stores. */
export const StoresConfig = z.object({ ...NatsConfig.shape, ...ClickHouseConfig.shape });
export type StoresConfig = z.infer<typeof StoresConfig>;

/** The projector and the rebuild read all of LEDGER, and the archive of the blocks that LEDGER no longer holds. */
export const ProjectionConfig = z.object({ ...StoresConfig.shape, LEDGER_ARCHIVE: Text });

const LogLevel = z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info');

const ProcessConfig = z.object({
  DATA_DIRECTORY: Text,
  METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  METRICS_PORT: Port.optional(),
  LOG_LEVEL: LogLevel,
});
export type ProcessConfig = z.infer<typeof ProcessConfig>;

const Chain = z.enum(['polygon', 'amoy', 'devnet']);

export const IngestConfig = z.object({
  ...ProcessConfig.shape,
  ...NatsConfig.shape,
  FEED_HOURS: z.coerce.number().int().min(1).max(720).default(72),
  CHAIN: Chain.default('devnet'),
  EXCHANGES: listOf(Exchange),
  CONDITIONAL_TOKENS: ContractAddress.optional(),
  COLLATERAL: ContractAddress.optional(),
  RPC_URL: urls((url) => hasProtocol(url, /^https?:$/), 'http:// or https:// URLs').default(
    'http://127.0.0.1:8545',
  ),
  RPC_WS_URL: urls((url) => hasProtocol(url, /^wss?:$/), 'ws:// or wss:// URLs').optional(),
  GAMMA_URL: z.url({ protocol: /^https?$/ }).default('http://127.0.0.1:8546'),
  START_BLOCK: z.coerce.number().int().nonnegative().optional(),
  RESOLUTIONS_FROM_BLOCK: z.coerce.number().int().nonnegative().optional(),
  FINALITY: z
    .union([z.literal('finalized'), z.coerce.number().int().min(0).max(1_000)])
    .default('finalized'),
  OPERATORS: listOf(Address),
  MEMPOOL: z.enum(['auto', ...MEMPOOL_SOURCES, 'off']).default('auto'),
  PENDING_SECONDS_MAX: z.coerce.number().int().min(1).max(86_400).default(120),
  MOVEMENTS: z.enum(['on', 'off']).default('on'),
  LEDGER_ARCHIVE: Text,
});
export type IngestConfig = z.infer<typeof IngestConfig>;

export const ProjectorConfig = z.object({
  ...ProcessConfig.shape,
  ...ProjectionConfig.shape,
  PROJECTOR_INSTANCE: Instance.prefault('0/1'),
});

/** Where alerts may send events, besides public addresses. */
const AlertNetworks = { ALERT_NETWORKS: listOf(z.union([z.cidrv4(), z.cidrv6()])) };

export const AlertsConfig = z.object({
  ...ProcessConfig.shape,
  ...StoresConfig.shape,
  ...AlertNetworks,
  TELEGRAM_URL: z.url({ protocol: /^https?$/ }).default('https://api.telegram.org'),
  // Push services require one, but send nothing there. Apple's rejects localhost.
  PUSH_CONTACT: z.url({ protocol: /^(https|mailto)$/ }).default('https://fillstream.example'),
});
export type AlertsConfig = z.infer<typeof AlertsConfig>;

export const ApiConfig = z.object({
  ...ProcessConfig.shape,
  ...StoresConfig.shape,
  CHAIN: Chain.optional(),
  HTTP_HOST: z.string().min(1).default('127.0.0.1'),
  HTTP_PORT: Port.default(8080),
  ANALYST_URL: z.url({ protocol: /^https?$/ }).optional(),
  CORS_ORIGINS: listOf(
    z
      .string()
      .regex(/^(\*|https?:\/\/[^/\s*]+)$/, 'must be origins such as https://a.example, or *'),
  ),
  HTTP_CONNECTIONS_PER_ADDRESS_MAX: z.coerce.number().int().min(1).max(1_000_000).default(1_000),
  LIVE_TRADERS_MIB: z.coerce.number().int().min(0).max(65_536).default(128),
  CHAIN_AGE_SECONDS_MAX: z.coerce.number().positive().default(30),
  PROJECTION_AGE_SECONDS_MAX: z.coerce.number().positive().default(30),
  ...AlertNetworks,
  TRUSTED_PROXIES: listOf(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()])),
  PUBLIC_TIER: z.enum(['none', 'demo']).default('none'),
  PAGE_KEY: z.string().optional(),
  PICTURE_ORIGINS: z
    .string()
    .default(POLYMARKET_PICTURES)
    .transform((text) => (text === 'none' ? [] : text.split(',')))
    .pipe(
      z.array(
        z
          .string()
          .regex(
            /^https?:\/\/[\w.-]+(:\d+)?$/,
            'must be origins such as https://a.example, or none',
          ),
      ),
    ),
});
export type ApiConfig = z.infer<typeof ApiConfig>;

/** `npm start` reads all variables, because it starts every process. */
export const ServiceConfig = z.object({
  ...ProjectorConfig.shape,
  ...ApiConfig.shape,
  ...AlertsConfig.shape,
  ...IngestConfig.shape,
});
export type ServiceConfig = z.infer<typeof ServiceConfig>;

/** The configuration is invalid; the message names each bad variable and what is allowed. */
export class ConfigError extends ExpectedError {}

/** Parses the environment. Throws ConfigError naming every bad variable, without its value. */
export function readConfig<Schema extends z.ZodObject>(
  schema: Schema,
  environment: NodeJS.ProcessEnv = process.env,
): z.output<Schema> {
  const given = withFiles(environment);
  // An empty variable counts as unset, as in compose files.
  const set = Object.entries(given).filter(([, value]) => value !== '');
  const parsed = schema.safeParse(Object.fromEntries(set));
  if (parsed.success) return parsed.data;
  throw badConfiguration(
    parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`),
  );
}

/** The log level to use before the configuration is read; `readConfig` reports an invalid one. */
export function logLevelOf(environment: NodeJS.ProcessEnv): string {
  return LogLevel.catch('info').parse(environment.LOG_LEVEL);
}

/**
 * Replaces each `NAME_FILE`, the path of a file such as a container secret, with a variable NAME that holds the file's
 * content. Throws ConfigError if a file cannot be read.
 */
export function withFiles(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const replaced = { ...environment };
  const errors: string[] = [];
  for (const name of Object.keys(ServiceConfig.shape)) {
    const path = environment[`${name}_FILE`] ?? '';
    delete replaced[`${name}_FILE`];
    if (path === '') continue;
    try {
      replaced[name] = readFileSync(path, 'utf8').trim();
    } catch (error) {
      if (!(error instanceof Error && 'code' in error)) throw error;
      errors.push(`${name}_FILE: cannot be read (${error.code})`);
    }
  }
  if (errors.length > 0) throw badConfiguration(errors);
  return replaced;
}

function badConfiguration(lines: readonly string[]): ConfigError {
  return new ConfigError(`bad configuration\n  ${lines.join('\n  ')}`);
}

/** WebSocket endpoints: RPC_WS_URL, or RPC_URL with ws instead of http. */
export function rpcWebSocketUrls({
  RPC_URL,
  RPC_WS_URL,
}: Pick<IngestConfig, 'RPC_URL' | 'RPC_WS_URL'>): readonly string[] {
  return RPC_WS_URL?.split(',') ?? RPC_URL.split(',').map((url) => url.replace(/^http/, 'ws'));
}
