/**
 * Removes secrets from log output: API keys, credentials in URLs, and the values of this process's secret variables.
 * All log output passes through here, including messages of third-party errors, so callers do not have to redact anything.
 */
const API_KEY = /fs_(demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{16,}/g;
const URL_CREDENTIALS = /([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']+@/gi;
const CONCEALED = '[concealed]';

/** Variables whose whole value is a secret, and variables whose URLs may contain one. */
const SECRETS = ['NATS_PASSWORD', 'NATS_TOKEN'];
const URLS = ['RPC_URL', 'RPC_WS_URL', 'GAMMA_URL', 'CLICKHOUSE_URL', 'ANALYST_URL'];
/** Shorter parts of a path are assumed to be names such as `v2` or `rpc`. */
const PATH_SECRET_CHARACTERS_MIN = 12;

/** Returns the text without API keys and without credentials in URLs. */
export function withoutSecrets(text: string): string {
  return text
    .replaceAll(API_KEY, `fs_$1_${CONCEALED}`)
    .replaceAll(URL_CREDENTIALS, `$1${CONCEALED}@`);
}

/** Returns a function that also removes the secrets of this environment. */
export function concealer(environment: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = secretsOf(environment);
  return (text) =>
    secrets.reduce((shown, secret) => shown.replaceAll(secret, CONCEALED), withoutSecrets(text));
}

/** Includes long parts of URL paths and queries, where providers of chain nodes put their keys. */
function secretsOf(environment: NodeJS.ProcessEnv): readonly string[] {
  const whole = SECRETS.map((name) => environment[name] ?? '').filter((value) => value !== '');
  const parts = URLS.flatMap((name) => (environment[name] ?? '').split(','))
    .filter((url) => URL.canParse(url))
    .flatMap((text) => {
      const { password, pathname, searchParams } = new URL(text);
      return [password, ...pathname.split('/'), ...searchParams.values()];
    })
    .filter((part) => part.length >= PATH_SECRET_CHARACTERS_MIN);
  return [...whole, ...parts];
}
