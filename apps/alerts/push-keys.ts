/**
 * The key pair with which push services recognise us (VAPID). A subscription is bound to it, so it is made once, and all
 * processes share it.
 */
import webpush from 'web-push';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';
import { KvConflictError, openKv, parseValue } from '../../infra/nats/kv.ts';
import { PUSH_BUCKET } from './logs.ts';

const PushKeys = z.object({ publicKey: z.string(), privateKey: z.string() });
type PushKeys = z.infer<typeof PushKeys>;

const KEY = 'vapid';

export async function openPushKeys(nats: Nats, replicas: number): Promise<PushKeys> {
  const kv = await openKv(nats, PUSH_BUCKET, { replicas });
  if ((await kv.get(KEY)) === undefined) {
    try {
      await kv.create(KEY, JSON.stringify(webpush.generateVAPIDKeys()));
    } catch (error) {
      // Another process was faster.
      if (!(error instanceof KvConflictError)) throw error;
    }
  }
  const stored = await kv.get(KEY);
  const keys = stored && parseValue(PushKeys, stored.value);
  if (keys === undefined)
    throw new Error(`the key ${KEY} of the bucket ${PUSH_BUCKET} is unreadable`);
  return keys;
}
