/**
 * The configuration of every process: environment variables, read once in `main` through one
 * schema, or the files that `NAME_FILE` names. docs/configuration.md lists the same variables. A bad value is named, never printed: it may be a secret.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const Port = z.coerce.number().int().min(0).max(65_535);
const Url = (protocols: RegExp) => z.url({ protocol: protocols });
const Text = z.string().min(1).optional();
const NatsUrls = z
  .string()
  // The client library would leave user and password in it out without a word.
  .refine((text) => text.split(',').every((url) => /^(nats|tls):\/\/[^\s@]+$/.test(url)), {
    message:
      'must be nats:// or tls:// URLs, separated by commas, without a user (see NATS_USER, NATS_TOKEN)',
  });

const HttpUrls = z.string().refine((text) => text.split(',').every(isHttpUrl), {
  message: 'must be http:// or https:// URLs, separated by commas',
});
const WebSocketUrls = z.string().refine((text) => text.split(',').every(isWebSocketUrl), {
  message: 'must be ws:// or wss:// URLs, separated by commas',
});
const ContractAddress = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .transform((text) => text.toLowerCase() as `0x${string}`);

/** IP addresses and networks in CIDR form, by comma. */
const Networks = z
  .string()
  .transform((text) => text.split(',').filter((part) => part !== ''))
  .pipe(z.array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()])));

/** `exchange:collateral` by comma: an exchange, and the token inside its position ids. */
const Exchanges = z
  .string()
  .transform((text) => text.split(',').filter((part) => part !== ''))
  .pipe(
    z.array(
      z
        .string()
        .regex(/^0x[0-9a-fA-F]{40}:0x[0-9a-fA-F]{40}$/, 'must be exchange:collateral, by comma')
        .transform((pair) => {
          const [exchange = '', collateral = ''] = pair.toLowerCase().split(':');
          return [exchange, collateral as `0x${string}`] as const;
        }),
    ),
  );

/** `i/n`: this is instance i of n, counted from 0. */
const Instance = z
  .string()
  .regex(/^\d{1,2}\/\d{1,2}$/)
  .transform((text) => {
    const [index = 0, count = 1] = text.split('/').map(Number);
    return { index, count };
  })
  .refine(({ index, count }) => count >= 1 && count <= 16 && index < count, {
    message: 'must be i/n with 0 ≤ i < n ≤ 16',
  });

export const Config = z.object({
  NATS_URL: NatsUrls.default('nats://127.0.0.1:4222').describe('JetStream servers, by comma'),
  NATS_REPLICAS: z.coerce.number().int().min(1).max(5).default(1).describe('copies of each stream'),
  NATS_USER: Text.describe('user of NATS, with NATS_PASSWORD'),
  NATS_PASSWORD: Text.describe('password of NATS_USER'),
  NATS_TOKEN: Text.describe('token of NATS, in place of user and password'),
  NATS_CREDS: Text.describe('path of a NATS credentials file (JWT and seed)'),
  NATS_TLS_CA: Text.describe('path of the PEM file of the authority that signed the servers'),
  NATS_TLS_CERT: Text.describe('path of the PEM file of a client certificate'),
  NATS_TLS_KEY: Text.describe('path of the PEM file of its key'),
  CLICKHOUSE_URL: Url(/^https?$/)
    .default('http://127.0.0.1:8123')
    .describe('ClickHouse over HTTP, user and password in the URL'),
  CLICKHOUSE_DATABASE: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/)
    .default('fillstream')
    .describe('database of all tables'),
  CLICKHOUSE_CLUSTER: z
    .string()
    .regex(/^([A-Za-z_][A-Za-z0-9_-]{0,62}|\{cluster\})$/)
    .optional()
    .describe('name in remote_servers, or {cluster}; unset: a single node'),
  CHAIN: z
    .enum(['polygon', 'amoy', 'devnet'])
    .default('devnet')
    .describe('which contracts to watch'),
  EXCHANGES: Exchanges.prefault('').describe(
    "exchange:collateral by comma, in place of the chain's own",
  ),
  CONDITIONAL_TOKENS: ContractAddress.optional().describe("in place of the chain's own"),
  COLLATERAL: ContractAddress.optional().describe('what traders pay with, 6 decimals'),
  RPC_URL: HttpUrls.default('http://127.0.0.1:8545').describe(
    'chain nodes, JSON-RPC over HTTP, by comma',
  ),
  RPC_WS_URL: WebSocketUrls.optional().describe(
    'chain nodes, WebSocket, by comma; default: each RPC_URL with ws:// in place of http://',
  ),
  GAMMA_URL: Url(/^https?$/)
    .default('http://127.0.0.1:8546')
    .describe('metadata API (markets, tags, profiles)'),
  START_BLOCK: z.coerce
    .number()
    .int()
    .nonnegative()
    .default(0)
    .describe('first block of an empty LEDGER'),
  RESOLUTIONS_FROM_BLOCK: z.coerce
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('where to look for resolutions before the first block'),
  FINALITY: z
    .union([z.literal('finalized'), z.coerce.number().int().min(0).max(1_000)])
    .default('finalized')
    .describe('the finalized tag, or a depth in blocks'),
  OPERATORS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(z.array(z.string().regex(/^0x[0-9a-fA-F]{40}$/)))
    .describe('operators to trust before any was learned, by comma'),
  MEMPOOL: z
    .enum(['auto', 'full', 'alchemy', 'hashes', 'txpool', 'off'])
    .default('auto')
    .describe('how pending transactions come; auto: the best way that the node offers'),
  PENDING_SECONDS_MAX: z.coerce
    .number()
    .int()
    .min(1)
    .max(86_400)
    .default(120)
    .describe('chain time after which a shown match that was not mined is void'),
  HTTP_HOST: z.string().min(1).default('127.0.0.1').describe('address the api listens on'),
  HTTP_PORT: Port.default(8080).describe('port the api listens on; 0 = a free one'),
  CORS_ORIGINS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(
      z.array(
        z
          .string()
          .regex(/^(\*|https?:\/\/[^/\s*]+)$/, 'must be origins such as https://a.example, or *'),
      ),
    )
    .describe('origins whose pages may read the api, by comma; * = any'),
  HTTP_CONNECTIONS_PER_ADDRESS_MAX: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000_000)
    .default(1_000)
    .describe('open connections of one address to the api'),
  TRUSTED_PROXIES: Networks.prefault('').describe(
    'addresses or networks of proxies whose X-Forwarded-For is believed, by comma',
  ),
  PROJECTOR_INSTANCE: Instance.prefault('0/1').describe('this projector is i of n, from 0'),
  METRICS_HOST: z.string().min(1).default('127.0.0.1').describe('address of /metrics and /readyz'),
  METRICS_PORT: Port.optional().describe('port of /metrics and /readyz of the process'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
    .default('info')
    .describe('least level that is logged'),
});
export type Config = z.infer<typeof Config>;

/** Thrown by `readConfig`; the message names each bad variable and what is allowed. */
export class ConfigError extends Error {}

/** Parses the environment. Throws ConfigError that names every bad variable, without its value. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  // An empty variable is an unset one: compose files and shells make no difference between them.
  const given = Object.fromEntries(
    Object.entries(withFiles(environment)).filter(([, value]) => value !== ''),
  );
  const parsed = Config.safeParse(given);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`bad configuration\n  ${lines.join('\n  ')}`);
}

/**
 * The environment with the values of files: `NAME_FILE` names a file that holds the value of NAME, as
 * container secrets are given. Throws ConfigError where one cannot be read.
 */
export function withFiles(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const given = Object.keys(Config.shape).flatMap((name) => {
    const path = environment[`${name}_FILE`] ?? '';
    if (path === '') return [];
    try {
      return [[name, readFileSync(path, 'utf8').trim()]];
    } catch (error) {
      if (!(error instanceof Error && 'code' in error)) throw error;
      throw new ConfigError(`bad configuration\n  ${name}_FILE: cannot be read (${error.code})`);
    }
  });
  return { ...environment, ...Object.fromEntries(given) };
}

/** WebSocket endpoints: those of RPC_WS_URL, or of RPC_URL with their protocols changed. */
export function rpcWebSocketUrls(config: Config): readonly string[] {
  return (
    config.RPC_WS_URL?.split(',') ??
    config.RPC_URL.split(',').map((url) => url.replace(/^http/, 'ws'))
  );
}

function isWebSocketUrl(text: string): boolean {
  return URL.canParse(text) && /^wss?:$/.test(new URL(text).protocol);
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
