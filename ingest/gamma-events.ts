/**
 * Tags and series of events, for markets that carry no tags of their own (as on the real service,
 * where the event inside a market has none). Remembered for a while: the markets of an event share it.
 */
import type { Listing } from './contract-metadata.ts';
import type { Parser } from './gamma.ts';
import { GammaError, type GammaHttp } from './gamma-http.ts';
import { type ParsedEvent, type ParsedMarket, parseEvent } from './gamma-shapes.ts';

const EVENTS_MAX = 5_000;
const EVENT_STALE_MS = 600_000;
const EVENTS_BATCH_MAX = 50;

type Entry = { readonly event: ParsedEvent | undefined; readonly atMs: number };

export class EventCache {
  readonly #http: GammaHttp;
  readonly #parser: Parser;
  readonly #entries = new Map<string, Entry>();

  constructor(http: GammaHttp, parser: Parser) {
    this.#http = http;
    this.#parser = parser;
  }

  /** The listings, with tags and series of their events where they have no tags. Throws GammaError. */
  async complete(markets: readonly ParsedMarket[]): Promise<readonly Listing[]> {
    const ids = new Set(
      markets
        .filter(({ listing, eventId }) => listing.tags.length === 0 && eventId !== '')
        .map(({ eventId }) => eventId),
    );
    const events = await this.#learn([...ids]);
    return markets.map(({ listing, eventId }) => {
      const event = events.get(eventId);
      if (event === undefined) return listing;
      return {
        ...listing,
        tags: [...event.tags],
        seriesSlug: listing.seriesSlug || event.seriesSlug,
      };
    });
  }

  async #learn(ids: readonly string[]): Promise<ReadonlyMap<string, ParsedEvent>> {
    const now = performance.now();
    const wanted = ids.filter((id) => {
      const entry = this.#entries.get(id);
      return entry === undefined || now - entry.atMs > EVENT_STALE_MS;
    });
    for (let i = 0; i < wanted.length; i += EVENTS_BATCH_MAX) {
      const batch = wanted.slice(i, i + EVENTS_BATCH_MAX);
      const events = await this.#ask(batch);
      for (const id of batch) this.#remember(id, { event: events.get(id), atMs: now });
    }
    const known = new Map<string, ParsedEvent>();
    for (const id of ids) {
      const event = this.#entries.get(id)?.event;
      if (event !== undefined) known.set(id, event);
    }
    return known;
  }

  async #ask(ids: readonly string[]): Promise<ReadonlyMap<string, ParsedEvent>> {
    const found = new Map<string, ParsedEvent>();
    try {
      for (const extra of [{}, { closed: 'true' }]) {
        const missing = ids.filter((id) => !found.has(id));
        if (missing.length === 0) break;
        const query = new URLSearchParams(missing.map((id): [string, string] => ['id', id]));
        for (const [name, value] of Object.entries(extra)) query.set(name, value);
        query.set('limit', String(EVENTS_BATCH_MAX));
        const answer = await this.#http.get('/events', query);
        for (const event of this.#parser.list('/events', answer, parseEvent)) {
          found.set(event.id, event);
        }
      }
    } catch (error) {
      // A service that will not show events must not keep its markets from us.
      if (!(error instanceof GammaError && error.reason === 'refused')) throw error;
    }
    return found;
  }

  #remember(id: string, entry: Entry): void {
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    const oldest = this.#entries.keys().next();
    if (this.#entries.size > EVENTS_MAX && !oldest.done) this.#entries.delete(oldest.value);
  }
}
