/** The managed streams of all accounts, and their quotas. */
import type { Logger } from 'pino';
import type { Nats } from '../../infra/nats/connection.ts';
import { AccountStore } from '../auth/account-store.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import type { Repeatable } from '../http/endpoint.ts';
import { type Problem, quotaExceeded } from '../http/errors.ts';
import {
  isNaked,
  longList,
  type Meta,
  type NewStream,
  StreamRecord,
  type Subscription,
} from './stream.ts';

const STREAMS_BUCKET = 'streams';

export class StreamStore {
  readonly #records: AccountStore<StreamRecord>;

  private constructor(records: AccountStore<StreamRecord>) {
    this.#records = records;
  }

  /** Watches the bucket; resolves once every stream is known. */
  static async open(options: StreamStoreOptions): Promise<StreamStore> {
    const records = await AccountStore.open({
      ...options,
      ...{ bucket: STREAMS_BUCKET, noun: 'stream', schema: StreamRecord, overQuota },
      addsToQuota: (record, former) => isNaked(record) && !isNaked(former),
    });
    return new StreamStore(records);
  }

  /** Settles when the bucket is no longer watched; rejects if `close` was not called. */
  get watching(): Promise<void> {
    return this.#records.watching;
  }

  /** The streams of an account, oldest first. */
  list(account: string): StreamRecord[] {
    return this.#records.list(account);
  }

  /** The stream as this process knows it; undefined if there is none. */
  known(id: string): StreamRecord | undefined {
    return this.#records.known(id);
  }

  /** A stream of this account. Rejects like `AccountStore.find`. */
  find(caller: Caller, id: string): Promise<StreamRecord> {
    return this.#records.find(caller, id);
  }

  /** Creates a stream. Rejects like `AccountStore.create`. */
  async create(
    caller: Caller,
    wanted: Resolved<NewStream>,
    repeatable: Repeatable | null,
  ): Promise<StreamRecord> {
    const { name, addresses = [], tags = [], series = [], markets = [] } = wanted;
    refuseLongLists(caller, { addresses, tags, series });
    const record = { name, addresses, tags, series, markets, enabled: true };
    return await this.#records.create(caller, record, repeatable);
  }

  /** Replaces the given members of a stream. Rejects like `AccountStore.update`. */
  async update(
    caller: Caller,
    id: string,
    change: Resolved<Subscription> & Meta,
  ): Promise<StreamRecord> {
    return await this.#records.update(caller, id, () => {
      // Only new lists: the others may come from a higher tier.
      const { addresses = [], tags = [], series = [] } = change;
      refuseLongLists(caller, { addresses, tags, series });
      return change as Partial<StreamRecord>;
    });
  }

  /** Deletes a stream. Rejects like `AccountStore.delete`. */
  delete(caller: Caller, id: string): Promise<void> {
    return this.#records.delete(caller, id);
  }

  close(): Promise<void> {
    return this.#records.close();
  }
}

function overQuota(
  { tier }: Caller,
  record: StreamRecord,
  { others, isNew }: { readonly others: readonly StreamRecord[]; readonly isNew: boolean },
): Problem | undefined {
  const { streamsMax, nakedStreamsMax } = TIERS[tier];
  if (isNew && others.length >= streamsMax) {
    return quotaExceeded('max_streams', tier, streamsMax, others.length);
  }
  const naked = others.filter(isNaked).length;
  if (!isNaked(record) || naked < nakedStreamsMax) return undefined;
  return quotaExceeded('max_naked_streams', tier, nakedStreamsMax, naked);
}

/** A body with condition ids in place of the client's market keys. */
export type Resolved<Body> = Omit<Body, 'markets'> & { readonly markets?: string[] };

type StreamStoreOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  /** Called on each change; undefined = the stream was deleted. */
  readonly onChange: (id: string, record: StreamRecord | undefined) => void;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
};

function refuseLongLists(caller: Caller, lists: Parameters<typeof longList>[0]): void {
  const long = longList(lists, TIERS[caller.tier]);
  if (long !== undefined) throw quotaExceeded(long.name, caller.tier, long.limit, long.used);
}
