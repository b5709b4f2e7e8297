/**
 * Takes secrets out of text that is logged: API keys wherever they come from, user and password in
 * URLs, and the values that this process was given as secrets. Everything that is logged passes here,
 * also the texts of foreign errors, so that no caller has to think of it.
 */
const API_KEY = /fs_(demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{16,}/g;
const URL_CREDENTIALS = /([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']+@/gi;
const CONCEALED = '[concealed]';

/** Variables whose value is a secret as a whole, and those whose URLs may hold one. */
const SECRETS = ['NATS_PASSWORD', 'NATS_TOKEN'];
const URLS = ['RPC_URL', 'RPC_WS_URL', 'GAMMA_URL', 'CLICKHOUSE_URL'];
/** Shorter parts of a path are names such as `v2` or `rpc`. */
const PATH_SECRET_CHARACTERS_MIN = 12;

/** Returns the text without API keys and without credentials in URLs. */
export function withoutSecrets(text: string): string {
  return text
    .replaceAll(API_KEY, `fs_$1_${CONCEALED}`)
    .replaceAll(URL_CREDENTIALS, `$1${CONCEALED}@`);
}

/** A function that takes out the secrets of this configuration too. */
export function concealer(environment: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = secretsOf(environment);
  return (text) =>
    secrets.reduce((shown, secret) => shown.replaceAll(secret, CONCEALED), withoutSecrets(text));
}

/** Long parts of the paths and queries of URLs: providers of chain nodes put their keys there. */
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
