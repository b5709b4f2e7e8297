/**
 * Finds who may want an event, so that the cost of an event follows its candidates and not the
 * number of listeners. A member is filed under the entries of one of its lists: traders before
 * series before tags, the rarer the better; without lists it is a candidate of every event.
 * A candidate is not yet a match: the caller checks the whole filter, and may see one twice.
 */
import type { Facts, Filter } from './filter.ts';

export class FilterIndex<Member extends { readonly filter: Filter }> {
  readonly #traders = new Map<string, Set<Member>>();
  readonly #series = new Map<string, Set<Member>>();
  readonly #tags = new Map<string, Set<Member>>();
  readonly #all = new Set<Member>();

  add(member: Member): void {
    const { filed, entries } = this.#place(member.filter);
    if (filed === undefined) this.#all.add(member);
    for (const entry of entries) {
      const members = filed?.get(entry);
      if (members === undefined) filed?.set(entry, new Set([member]));
      else members.add(member);
    }
  }

  /** Removing during `forEachCandidate` is safe. */
  delete(member: Member): void {
    const { filed, entries } = this.#place(member.filter);
    if (filed === undefined) this.#all.delete(member);
    for (const entry of entries) {
      const members = filed?.get(entry);
      members?.delete(member);
      if (members?.size === 0) filed?.delete(entry);
    }
  }

  forEachCandidate(facts: Facts, visit: (member: Member) => void): void {
    for (const member of this.#all) visit(member);
    for (const member of this.#series.get(facts.series) ?? []) visit(member);
    for (const trader of facts.traders) {
      for (const member of this.#traders.get(trader) ?? []) visit(member);
    }
    for (const tag of facts.tags) {
      for (const member of this.#tags.get(tag) ?? []) visit(member);
    }
  }

  #place(filter: Filter): {
    filed: Map<string, Set<Member>> | undefined;
    entries: ReadonlySet<string>;
  } {
    if (filter.traders.size > 0) return { filed: this.#traders, entries: filter.traders };
    if (filter.series.size > 0) return { filed: this.#series, entries: filter.series };
    return { filed: filter.tags.size > 0 ? this.#tags : undefined, entries: filter.tags };
  }
}
