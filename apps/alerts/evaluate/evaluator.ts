/**
 * Evaluates the rules of all alerts on the events of FEED, in their order: which events are sent, confirmed and taken back. It does
 * no input or output. An index over the filters makes the cost of a match depend on the alerts that may want it.
 */
import { LRUCache } from 'lru-cache';
import {
  type Facts,
  FilterIndex,
  factsOf,
  factsOfSequel,
  matches,
} from '../../../api/feed/filter.ts';
import { upTo } from '../../../infra/lru.ts';
import type { FeedMatch, FeedSequel } from '../../../ingest/contract.ts';
import { type AlertEvent, type EventState, eventId, followUpId } from '../event.ts';
import type { AlertMessage } from '../logs.ts';
import type { AlertRecord } from '../rule.ts';
import type { Lookups } from './lookups.ts';
import { type Open, OpenEvents } from './open-events.ts';
import type { Found, Watcher } from './watcher.ts';
import { watcherOf } from './watchers.ts';

type Member = Watcher & { alert: AlertRecord };

/** More than there are ever pending matches. */
const PENDING_MAX = 200_000;

export class Evaluator {
  readonly open = new OpenEvents();
  readonly #index = new FilterIndex<Member>();
  readonly #members = new Map<string, Member>();
  /** The matches that are not final. */
  readonly #pending = new LRUCache<string, true>(upTo(PENDING_MAX));
  readonly #isDestination: (id: string, account: string) => boolean;

  readonly #lookups: Lookups | undefined;

  /** `isDestination` says whether an account has this destination. */
  constructor(isDestination: (id: string, account: string) => boolean, lookups?: Lookups) {
    this.#isDestination = isDestination;
    this.#lookups = lookups;
  }

  /** An alert was created or changed; undefined: it was deleted. What it remembers of earlier matches stays if its rule does. */
  change(id: string, alert: AlertRecord | undefined): void {
    const former = this.#members.get(id);
    if (former !== undefined && alert?.enabled === true) {
      if (JSON.stringify(former.alert.rule) === JSON.stringify(alert.rule)) {
        former.alert = alert;
        return;
      }
    }
    if (former !== undefined) this.#index.delete(former);
    this.#members.delete(id);
    if (alert?.enabled !== true) return;
    // Nothing of it is in FEED.
    const { rule } = alert;
    if (rule.type === 'resolution' || rule.type === 'pnl') return;
    const member = { alert, ...watcherOf(rule, this.#lookups) };
    this.#members.set(id, member);
    this.#index.add(member);
  }

  /** Seconds of matches that the rules need to see again after a restart. */
  get memorySeconds(): number {
    return [...this.#members.values()].reduce((most, one) => Math.max(most, one.memorySeconds), 0);
  }

  get size(): number {
    return this.#members.size;
  }

  /** Says which lookups the rules need before `match` or `remember`. */
  prepare(match: FeedMatch): void {
    this.#forEach(factsOf(match), ({ prepare }) => prepare?.(match));
  }

  /** After a restart: a match that was evaluated before. */
  remember(match: FeedMatch, matchId: string): void {
    if (match.sent !== undefined) this.#pending.set(matchId, true);
    this.#forEach(factsOf(match), ({ remember, see }) => {
      (remember ?? see)({ match, matchId });
    });
    this.#lookups?.positions.add(match, matchId);
  }

  /** What the alerts send about a match. Pass what was stored to `sent`. */
  match(match: FeedMatch, matchId: string): readonly AlertMessage[] {
    if (match.sent !== undefined) this.#pending.set(matchId, true);
    const facts = factsOf(match);
    const messages: AlertMessage[] = [];
    this.#forEach(facts, (member) => {
      for (const found of member.see({ match, matchId })) {
        messages.push(this.#messageOf(member.alert, found, match, matchId));
      }
    });
    this.#lookups?.positions.add(match, matchId);
    return messages;
  }

  /** What the alerts send when it turns out what became of a match. */
  sequel(sequel: FeedSequel): readonly AlertMessage[] {
    const { matchId } = sequel;
    this.#pending.delete(matchId);
    if (sequel.kind === 'void') {
      this.#forEach(factsOfSequel(sequel), ({ forget }) => forget(matchId));
      this.#lookups?.positions.forget(matchId);
    } else if (sequel.kind === 'restored') this.#lookups?.positions.restore(matchId);
    return this.open.ofMatch(matchId).flatMap((open) => this.#follow(open, sequel));
  }

  /** An event was stored in ALERTS; if it is about matches that are not final, it may have to be taken back. */
  sent(message: AlertMessage, sequence: number): void {
    const { matches, event } = message;
    if (event.refers_to !== null || matches.length === 0) return;
    this.open.add({ message, sequence, unsettled: new Set(matches), voided: new Set() });
  }

  #forEach(facts: Facts, visit: (member: Member) => void): void {
    const seen = new Set<Member>();
    this.#index.forEachCandidate(facts, (member) => {
      if (seen.has(member)) return;
      seen.add(member);
      if (matches(member.filter, facts)) visit(member);
    });
  }

  #messageOf(alert: AlertRecord, found: Found, match: FeedMatch, matchId: string): AlertMessage {
    const isOpen = (id: string) => this.#pending.has(id);
    const needed = [matchId, ...found.earlier].filter(isOpen);
    return {
      ...{ account: alert.account, about: found.about, matches: [...new Set(needed)] },
      destinations: alert.destinations.filter((id) => this.#isDestination(id, alert.account)),
      confirm: alert.confirm,
      event: {
        id: eventId(alert.id, found.about),
        type: alert.rule.type,
        state: needed.length > 0 ? 'pending' : 'final',
        refers_to: null,
        timestamp: new Date(match.detectedAtMs).toISOString(),
        alert: { id: alert.id, name: alert.name },
        text: found.text,
        data: found.data,
      },
    };
  }

  #follow(open: Open, sequel: FeedSequel): readonly AlertMessage[] {
    const { matchId } = sequel;
    const { unsettled, voided } = open;
    if (sequel.kind === 'void') {
      const isFirst = voided.size === 0;
      voided.add(matchId);
      if (sequel.reason !== 'never_mined') this.open.delete(open);
      return isFirst ? [this.#followUp(open.message, 'retracted', sequel)] : [];
    }
    unsettled.delete(matchId);
    const wasRetracted = voided.delete(matchId) && voided.size === 0;
    if (unsettled.size === 0 && voided.size === 0) this.open.delete(open);
    if (sequel.kind === 'restored' && wasRetracted)
      return [this.#followUp(open.message, 'restored', sequel)];
    const isConfirmed = open.message.confirm && unsettled.size === 0 && voided.size === 0;
    return isConfirmed ? [this.#followUp(open.message, 'confirmed', sequel)] : [];
  }

  #followUp(message: AlertMessage, state: EventState, sequel: FeedSequel): AlertMessage {
    const { event } = message;
    const { matchId, txHash } = sequel;
    const later: AlertEvent = {
      ...event,
      id: followUpId(event.id, state, matchId),
      state,
      refers_to: event.id,
      data: {
        ...event.data,
        settled_by: {
          ...{ match_id: matchId, tx_hash: txHash },
          ...(sequel.kind === 'void' ? { reason: sequel.reason } : {}),
          ...(sequel.kind === 'final' ? { block_number: sequel.blockNumber } : {}),
        },
      },
    };
    const { account, destinations } = message;
    const known = destinations.filter((id) => this.#isDestination(id, account));
    return { ...message, event: later, about: matchId, matches: [], destinations: known };
  }
}
