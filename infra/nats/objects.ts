/** Object stores: values of any size that are replaced as a whole. A reader sees the old value or the new one. */
import { Objm } from '@nats-io/obj';
import { answered, type Nats } from './connection.ts';

export type Objects = {
  /** Undefined if there is none. */
  get(name: string): Promise<Uint8Array | undefined>;
  put(name: string, data: Uint8Array): Promise<void>;
};

/** Opens a store, or creates it with so many replicas. */
export async function openObjects(
  nats: Nats,
  store: string,
  { replicas }: { readonly replicas: number },
): Promise<Objects> {
  const call = <T>(attempt: () => Promise<T>) => answered(nats, `OBJ_${store}`, attempt);
  const objects = await call(() => new Objm(nats.js).create(store, { replicas }));
  return {
    get: async (name) => (await call(() => objects.getBlob(name))) ?? undefined,
    put: async (name, data) => {
      await call(() => objects.putBlob({ name }, data));
    },
  };
}
