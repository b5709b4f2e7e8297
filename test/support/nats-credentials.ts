/**
 * The files that an operator creates with `openssl` and `nsc` to secure NATS: a certificate authority with
 * certificates for a server and a client, and an account with a user's credentials file. We sign the JWTs here.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nkeys } from '@nats-io/transport-node';

export type Certificates = {
  /** Paths of PEM files. */
  readonly authority: string;
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
};

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/** Certificates for 127.0.0.1, valid for a day. */
export function makeCertificates(directory: string): Certificates {
  const at = (file: string) => join(directory, file);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const authority = at('authority.pem');
  openssl(
    ...['req', '-x509', ...KEY, '-days', '1', '-subj', '/CN=test authority'],
    ...['-keyout', at('authority.key'), '-out', authority],
  );
  const signed = (name: string) => {
    const [cert, key, request] = [at(`${name}.pem`), at(`${name}.key`), at(`${name}.csr`)];
    writeFileSync(at('names.ext'), 'subjectAltName = IP:127.0.0.1\n');
    openssl('req', ...KEY, '-subj', `/CN=${name}`, '-keyout', key, '-out', request);
    openssl(
      ...['x509', '-req', '-in', request, '-CA', authority, '-CAkey', at('authority.key')],
      ...['-CAcreateserial', '-days', '1', '-extfile', at('names.ext'), '-out', cert],
    );
    return { cert, key };
  };
  return { authority, server: signed('server'), client: signed('client') };
}

/** Server configuration that admits only clients with the credentials file, which is written to `path`. */
export function makeCredentials(path: string): string {
  const [operator, account, system, user] = [
    nkeys.createOperator(),
    nkeys.createAccount(),
    nkeys.createAccount(),
    nkeys.createUser(),
  ];
  const unlimited = { subs: -1, data: -1, payload: -1 };
  const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
  const limits = { ...unlimited, ...storage, conn: -1, leaf: -1, imports: -1, exports: -1 };
  const accountOf = (of: nkeys.KeyPair, given: object) =>
    jwt(operator, of, { type: 'account', version: 2, limits: { ...limits, ...given } });
  const seed = new TextDecoder().decode(user.getSeed());
  const token = jwt(account, user, { type: 'user', version: 2, ...unlimited });
  writeFileSync(
    path,
    `-----BEGIN NATS USER JWT-----\n${token}\n------END NATS USER JWT------\n\n` +
      `-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
    { mode: 0o600 },
  );
  return `operator: ${jwt(operator, operator, {
    type: 'operator',
    version: 2,
    system_account: system.getPublicKey(),
  })}
resolver: MEMORY
resolver_preload: {
  ${account.getPublicKey()}: ${accountOf(account, {})}
  ${system.getPublicKey()}: ${accountOf(system, { mem_storage: 0, disk_storage: 0 })}
}`;
}

function jwt(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, nats: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = {
    iat: Math.floor(Date.now() / 1_000),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name: 'test',
    nats,
  };
  const jti = createHash('sha256').update(JSON.stringify(claims)).digest('hex');
  const text = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part({ ...claims, jti })}`;
  const signature = issuer.sign(new TextEncoder().encode(text));
  return `${text}.${Buffer.from(signature).toString('base64url')}`;
}
