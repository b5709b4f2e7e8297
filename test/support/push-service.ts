/**
 * A browser's side of push messages, written from the RFCs without the package that encrypts: subscriptions, decryption
 * (RFC 8188, 8291), the signature of a request (RFC 8292), and a push service that keeps what it got.
 */
import {
  createDecipheriv,
  createECDH,
  createPublicKey,
  hkdfSync,
  randomBytes,
  verify,
} from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { serve } from './http-server.ts';

type Keys = {
  readonly privateKey: Buffer;
  readonly auth: Buffer;
};

/** A target of a destination, and what reads the messages to it. */
export function newSubscription(
  endpoint: string,
  { auth = randomBytes(16), privateKey }: Partial<Keys> = {},
) {
  const curve = createECDH('prime256v1');
  if (privateKey === undefined) curve.generateKeys();
  else curve.setPrivateKey(privateKey);
  const keys = {
    p256dh: curve.getPublicKey('base64url'),
    auth: auth.toString('base64url'),
  };
  return {
    target: { kind: 'push', endpoint, keys } as const,
    /** Throws if the body was encrypted for another subscription. */
    read(body: Buffer): string {
      const salt = body.subarray(0, 16);
      const keyLength = body.readUInt8(20);
      const sender = body.subarray(21, 21 + keyLength);
      const record = body.subarray(21 + keyLength);
      if (record.length > body.readUInt32BE(16)) throw new Error('more than one record');
      const derived = (ikm: Buffer, by: Buffer, info: string | Buffer, bytes: number) =>
        Buffer.from(hkdfSync('sha256', ikm, by, info, bytes));
      const about = Buffer.concat([Buffer.from('WebPush: info\0'), curve.getPublicKey(), sender]);
      const shared = derived(curve.computeSecret(sender), auth, about, 32);
      const key = derived(shared, salt, 'Content-Encoding: aes128gcm\0', 16);
      const nonce = derived(shared, salt, 'Content-Encoding: nonce\0', 12);
      const decipher = createDecipheriv('aes-128-gcm', key, nonce);
      decipher.setAuthTag(record.subarray(-16));
      const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
      return padded.subarray(0, padded.lastIndexOf(2)).toString();
    },
  };
}

/** The claims of a request, if this public key signed them. */
export function signedClaims(
  authorization: string | undefined,
  publicKey: string,
): { readonly aud: string; readonly exp: number; readonly sub: string } | undefined {
  const [, token = '', key] = /^vapid t=(\S+), k=(\S+)$/.exec(authorization ?? '') ?? [];
  if (key !== publicKey) return undefined;
  const [header = '', claims = '', signature = ''] = token.split('.');
  const bytes = Buffer.from(publicKey, 'base64url');
  const [x, y] = [bytes.subarray(1, 33), bytes.subarray(33)];
  const jwk = { kty: 'EC', crv: 'P-256', x: x.toString('base64url'), y: y.toString('base64url') };
  const isSigned = verify(
    'sha256',
    Buffer.from(`${header}.${claims}`),
    { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  );
  return isSigned ? JSON.parse(Buffer.from(claims, 'base64url').toString()) : undefined;
}

/** Answers with `status()`, 201 by default. */
export async function startPushService(status: () => number = () => 201) {
  const received: { readonly headers: IncomingHttpHeaders; readonly body: Buffer }[] = [];
  const server = await serve((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks) });
      response.statusCode = status();
      response.end();
    });
  });
  return { ...server, received };
}
