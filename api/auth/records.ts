/** The newest known records of a bucket, by id and by account, so that one account's are found without reading all. */
export class Records<Value extends { readonly account: string }> {
  readonly #byId = new Map<string, Known<Value>>();
  readonly #byAccount = new Map<string, Map<string, Stored<Value>>>();

  get(id: string): Known<Value> | undefined {
    return this.#byId.get(id);
  }

  all(): readonly Value[] {
    return [...this.#byId.values()].flatMap(({ record }) => (record === undefined ? [] : [record]));
  }

  /** The records of an account, by id. */
  ofAccount(account: string): ReadonlyMap<string, Stored<Value>> {
    return this.#byAccount.get(account) ?? new Map();
  }

  /** Without a record, only the revision is remembered. */
  set(id: string, revision: number, record: Value | undefined): void {
    const former = this.#byId.get(id)?.record;
    if (former !== undefined && former.account !== record?.account) this.#leave(former, id);
    this.#byId.set(id, { revision, record });
    if (record === undefined) return;
    const own = this.#byAccount.get(record.account) ?? new Map<string, Stored<Value>>();
    this.#byAccount.set(record.account, own.set(id, { revision, record }));
  }

  /** Forgets the revision of an id that has no record. */
  forget(id: string): void {
    if (this.#byId.get(id)?.record === undefined) this.#byId.delete(id);
  }

  #leave({ account }: Value, id: string): void {
    const own = this.#byAccount.get(account);
    own?.delete(id);
    if (own?.size === 0) this.#byAccount.delete(account);
  }
}

type Stored<Value> = { readonly revision: number; readonly record: Value };
type Known<Value> = { readonly revision: number; readonly record: Value | undefined };
