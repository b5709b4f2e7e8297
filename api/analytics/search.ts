/**
 * `GET /v2/search`: markets and traders by what a user types or pastes. Words are looked up in tables that are sorted
 * by word; what was found is compared with the listings and profiles of now, because words that they lost stay there.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../endpoint.ts';
import { integer, type MarketKey, marketKey, parameter } from '../parameters.ts';
import type { Call } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { MarketV2, marketV2, readResolutions, unlisted, withTokens } from './market-object.ts';
import type { Listing, Profile } from './metadata-cache.ts';
import { NO_PROFILE, ProfileV2, profileV2 } from './profiles.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, seconds, string } from './rows.ts';
import { amount, count, time } from './schemas.ts';
import { isOneTypo, joined, variantsOf, wordsOf } from './words.ts';

const LIMIT_MAX = 50;
const LIMIT_DEFAULT = 10;
const CHARACTERS_MAX = 300;
/** Words of a query that are searched; the others are ignored. */
const WORDS_MAX = 16;
/** The most frequent words that a typo may have made of a word. */
const TYPOS_MAX = 20;
/** Shorter words are too often another word. */
const TYPO_LETTERS_MIN = 4;
/** Hits that are compared with their listings at most, if nearly all are outdated. */
const HITS_MAX = 2_000;

/** What a query names, by its form. */
type Meaning = {
  /** The words to look for, or ''. */
  readonly text: string;
  readonly market?: MarketKey | undefined;
  /** Slug: only markets of this event. */
  readonly event?: string;
  /** The beginning of an address, with 0x. */
  readonly address?: string;
  /** A name or account without @. */
  readonly handle?: string;
};

/** One of these words, or one that begins with the prefix. */
type Term = {
  readonly words: readonly string[];
  readonly prefix?: string | undefined;
  /** About how many have it. */
  readonly uses: number;
};
/** All of these; earlier tiers are more relevant, the last one includes the others. */
type Tier = readonly Term[];

const URL_PATH = /^(?:https?:\/\/[^/\s]+|(?:www\.)?polymarket\.com)?(\/[^\s?#]+)/i;

function meaningOf(query: string): Meaning {
  const path = URL_PATH.exec(query)?.[1];
  if (path === undefined) return named(query);
  const parts = path.split('/').filter((part) => part !== '');
  const [kind, first = '', second = ''] = parts.map(decoded);
  if (kind === 'market') return { market: keyOf(first), text: '' };
  if (kind !== 'event') return named(decoded(parts.at(-1) ?? ''));
  return second === '' ? { event: first, text: first } : { market: keyOf(second), text: '' };
}

function named(text: string): Meaning {
  if (/^0x[0-9a-f]{1,40}$/i.test(text)) return { address: text.toLowerCase(), text };
  if (text.startsWith('@')) return { handle: joined(text), text: '' };
  return { market: keyOf(text), text };
}

function keyOf(text: string): MarketKey | undefined {
  return marketKey.safeParse(text).data;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

const VariantRow = rowOf({
  word: string('word'),
  markets: counted('sum(markets)'),
  traders: counted('sum(traders)'),
});

const VARIANTS_SQL = `
SELECT ${VariantRow.columns}
FROM search_variants
WHERE variant IN {variants:Array(String)}
GROUP BY word
${FEW_ROWS}`;

/** The tiers of words for each kind: as typed, the last one as a beginning, and with a typo. */
async function readTiers(call: Call, text: string) {
  const words = wordsOf(text).slice(0, WORDS_MAX);
  if (words.length === 0) return { markets: [], traders: [] };
  const variants = words.flatMap((word) =>
    // A letter may be missing.
    letters(word) >= TYPO_LETTERS_MIN - 1 ? variantsOf(word) : word,
  );
  const rows = await read(call, {
    sql: VARIANTS_SQL,
    parameters: { variants: texts([...new Set(variants)]) },
    row: VariantRow,
  });
  return { markets: tiersOf(words, rows, 'markets'), traders: tiersOf(words, rows, 'traders') };
}

function tiersOf(
  words: readonly string[],
  stored: readonly RowOf<typeof VariantRow>[],
  kind: 'markets' | 'traders',
): readonly Tier[] {
  const known = stored.filter((row) => row[kind] > 0);
  const usesOf = (own: readonly { word: string }[]) =>
    known
      .filter(({ word }) => own.some((one) => one.word === word))
      .reduce((sum, row) => sum + row[kind], 0);
  const exact = words.map((word) => known.filter((row) => row.word === word));
  const wrong = words.map((typed) =>
    known
      .filter(({ word }) => letters(word) >= TYPO_LETTERS_MIN && isOneTypo(typed, word))
      .sort((a, b) => b[kind] - a[kind])
      .slice(0, TYPOS_MAX),
  );
  const tier = (rows: typeof exact, prefix?: string): Tier =>
    rows.map((own, at) => ({
      words: own.map(({ word }) => word),
      prefix: at === words.length - 1 ? prefix : undefined,
      uses: usesOf(own),
    }));
  const last = words.at(-1);
  const tiers = [tier(exact), tier(exact, last)];
  if (wrong.some((own) => own.length > 0)) {
    tiers.push(
      tier(
        exact.map((own, at) => [...own, ...(wrong[at] ?? [])]),
        last,
      ),
    );
  }
  return tiers.filter((terms) =>
    terms.every(({ words, prefix }) => words.length > 0 || prefix !== undefined),
  );
}

/** Above this, a word is so frequent that further tiers are read only if the first ones are not enough. */
const USES_MAX = 10_000;

/** Tiers that one statement reads together, because that is faster than one after another. */
function groupsOf(tiers: readonly Tier[]): readonly (readonly Tier[])[] {
  const isFrequent = tiers[0]?.every(({ uses }) => uses > USES_MAX) ?? false;
  return isFrequent ? tiers.map((tier) => [tier]) : [tiers];
}

/** By default the engine sorts even large sets, to look for their members in the primary index. */
const LARGE_SETS = 'SETTINGS use_index_for_in_with_subqueries_max_values = 5000';

/** Conditions on `id`, one a tier, and the parameters of all. */
function conditions(table: 'market_words' | 'trader_words', id: string, tiers: readonly Tier[]) {
  const parameters: Record<string, unknown> = {};
  const isIn = tiers.map((terms, tier) => {
    let ids = '';
    // The rarest word innermost, so that the others only look up what is left.
    for (const [at, term] of terms.toSorted((a, b) => a.uses - b.uses).entries()) {
      const name = `${tier}_${at}`;
      parameters[`words_${name}`] = texts(term.words);
      parameters[`prefix_${name}`] = term.prefix;
      const begins =
        term.prefix === undefined ? '' : `OR startsWith(word, {prefix_${name}:String})`;
      const within = ids === '' ? '' : `AND ${id} IN (${ids})`;
      ids = `SELECT ${id} FROM ${table}
  WHERE (word IN {words_${name}:Array(String)} ${begins}) ${within}`;
    }
    return `${id} IN (${ids})`;
  });
  const relevance = isIn.slice(0, -1).map((condition) => `${condition} DESC, `);
  return { where: isIn.join('\n  OR '), relevance: relevance.join(''), parameters };
}

const letters = (word: string) => word.match(/\p{L}/gu)?.length ?? 0;

const texts = (words: readonly string[]) =>
  new Bytes(words.map((word) => `0x${Buffer.from(word).toString('hex')}`));

type Hit = { readonly key: string };

/**
 * The first hits, then those of the tiers, without those that `views` does not have any more. A later tier is read only
 * where the earlier ones are not enough.
 */
async function currentHits<One extends Hit, View>(search: {
  readonly limit: number;
  readonly first: readonly One[];
  readonly tiers: readonly Tier[];
  readonly readHits: (tiers: readonly Tier[], take: number) => Promise<readonly One[]>;
  readonly views: (keys: readonly string[]) => Promise<ReadonlyMap<string, View>>;
}): Promise<readonly { readonly hit: One; readonly view: View }[]> {
  const { limit, first, tiers, readHits, views } = search;
  for (let take = limit; ; take *= 4) {
    const found = new Map(first.map((hit) => [hit.key, hit]));
    for (const group of groupsOf(tiers)) {
      if (found.size >= take || group.length === 0) break;
      for (const hit of await readHits(group, take)) {
        if (!found.has(hit.key)) found.set(hit.key, hit);
      }
    }
    const viewOf = await views([...found.keys()]);
    const right = [...found.values()].flatMap((hit) => {
      const view = viewOf.get(hit.key);
      return view === undefined ? [] : { hit, view };
    });
    if (right.length >= limit || found.size < take || take >= HITS_MAX) {
      return right.slice(0, limit);
    }
  }
}

/** Whether something with these words matches one of the tiers. */
function isHit(words: readonly string[], tiers: readonly Tier[]): boolean {
  const has = (term: Term) =>
    words.some((word) => {
      const begins = term.prefix !== undefined && word.startsWith(term.prefix);
      return begins || term.words.includes(word);
    });
  return tiers.some((terms) => terms.every(has));
}

const MarketHit = rowOf({ key: hexText('condition_id'), volume: int('volume') });

async function findMarkets(
  call: Call,
  meaning: Meaning,
  search: { readonly limit: number; readonly tiers: readonly Tier[] },
) {
  const { event } = meaning;
  // An event is named by its whole slug.
  const tiers = event === undefined ? search.tiers : search.tiers.slice(0, 1);
  return await currentHits({
    ...{ limit: search.limit, first: [], tiers },
    readHits(group, take) {
      const { where, relevance, parameters } = conditions('market_words', 'market_id', group);
      const sql = `
SELECT ${MarketHit.columns}
FROM search_markets
WHERE ${where}
ORDER BY ${relevance}volume DESC, market_id DESC
LIMIT {take:UInt32}
${LARGE_SETS}`;
      return read(call, { sql, parameters: { ...parameters, take }, row: MarketHit });
    },
    async views(conditionIds) {
      const [listings, resolutions] = await Promise.all([
        call.metadata.listings(conditionIds),
        readResolutions(call, conditionIds),
      ]);
      const current = [...listings].filter(
        ([, listing]) =>
          (event === undefined || listing.event_slug === event) &&
          isHit(wordsOf(listingText(listing)), tiers),
      );
      return new Map(
        current.map(([conditionId, listing]) => {
          const resolution = resolutions.get(conditionId);
          return [conditionId, marketV2(listing, resolution)];
        }),
      );
    },
  });
}

/** The text whose words are in `market_words`. */
function listingText(listing: Listing): string {
  const { question, event_title, group_item_title, slug, event_slug } = listing;
  return [question, event_title, group_item_title, slug, event_slug].join(' ');
}

const VolumeRow = rowOf({ volume: int('sum(volume)'), matches: counted('sum(matches)') });

const VOLUME_SQL = `
SELECT ${VolumeRow.columns}
FROM market_marks
WHERE condition_id = {condition_id:FixedString(32)}
${FEW_ROWS}`;

/** The market with this number, condition id or slug, if there is one. */
async function findNamed(call: Call, key: MarketKey | undefined) {
  if (key === undefined) return [];
  const listing =
    key.kind === 'condition'
      ? (await call.metadata.listings([key.conditionId])).get(key.conditionId)
      : await call.metadata.listing(key);
  const conditionId = key.kind === 'condition' ? key.conditionId : listing?.condition_id;
  if (conditionId === undefined) return [];
  const [[traded], resolutions] = await Promise.all([
    read(call, {
      sql: VOLUME_SQL,
      parameters: { condition_id: new Bytes(conditionId) },
      row: VolumeRow,
    }),
    readResolutions(call, [conditionId]),
  ]);
  const { matches, volume } = traded ?? { matches: 0, volume: 0n };
  if (listing === undefined && matches === 0) return [];
  const [known = unlisted(conditionId)] = await withTokens(call, [
    listing ?? unlisted(conditionId),
  ]);
  const view = marketV2(known, resolutions.get(conditionId));
  return [{ hit: { key: conditionId, volume }, view }];
}

const TraderHit = rowOf({
  key: hexText('trader'),
  fills: counted('sum(fills)'),
  newest: seconds('max(last_trade_at)'),
});

function readTraders(
  call: Call,
  {
    where,
    relevance = '',
    parameters,
  }: {
    readonly where: string;
    readonly relevance?: string;
    readonly parameters: Readonly<Record<string, unknown>>;
  },
) {
  const sql = `
SELECT ${TraderHit.columns}
FROM trader_activity
WHERE ${where}
GROUP BY trader
ORDER BY ${relevance}sum(fills) DESC, trader
LIMIT {take:UInt32}
${LARGE_SETS}`;
  return read(call, { sql, parameters, row: TraderHit });
}

/** Traders whose address begins so. */
async function readAddress(call: Call, address: string | undefined, take: number) {
  if (address === undefined) return [];
  const first = new Bytes(address.padEnd(42, '0'));
  const last = new Bytes(address.padEnd(42, 'f'));
  return await readTraders(call, {
    where: 'trader >= {first:FixedString(20)} AND trader <= {last:FixedString(20)}',
    parameters: { first, last, take },
  });
}

async function findTraders(
  call: Call,
  { address }: Meaning,
  search: {
    readonly limit: number;
    readonly first: readonly RowOf<typeof TraderHit>[];
    readonly tiers: readonly Tier[];
  },
) {
  return await currentHits({
    ...search,
    readHits(group, take) {
      const { parameters, ...how } = conditions('trader_words', 'trader', group);
      return readTraders(call, { ...how, parameters: { ...parameters, take } });
    },
    async views(addresses) {
      const profiles = await call.metadata.profiles(addresses);
      const current = addresses.flatMap((key) => {
        const profile = profiles.get(key) ?? { ...NO_PROFILE, address: key };
        const isNamed = address !== undefined && key.startsWith(address);
        const isRight = isNamed || isHit(profileWords(profile), search.tiers);
        return isRight ? [[key, profileV2(profile)] as const] : [];
      });
      return new Map(current);
    },
  });
}

/** The words that `trader_words` has of a profile. */
function profileWords(profile: Pick<Profile, 'name' | 'x_username'>): readonly string[] {
  const { name, x_username: account } = profile;
  return [...wordsOf(`${name} ${account}`), `=${joined(name)}`, `@${joined(account)}`];
}

const NO_TIERS: Readonly<Record<'markets' | 'traders', readonly Tier[]>> = {
  markets: [],
  traders: [],
};

export const search = endpoint({
  path: '/v2/search',
  summary: 'Markets and traders by what a user types or pastes',
  description:
    'Finds markets by words of the question, the titles and the slugs of market and event, by id, condition id, and URL (of polymarket.com or of the page), and traders by name, account on X (also `@account`), and the beginning of the address. All words must be found, the last one also as a beginning; a word of four letters or more may have one typo (a character too many, too few or another one, or two neighbours exchanged). Letter case, accents and punctuation do not matter. What is named exactly comes first, then what has all words as typed, then with the last word as a beginning, then with typos; equal ones by volume (markets) or number of fills (traders). Volumes, and which markets there are, are usually less than ten seconds old, at most a minute.',
  parameters: z.object({
    q: parameter(
      `1 to ${CHARACTERS_MAX} characters`,
      { type: 'string', minLength: 1, maxLength: CHARACTERS_MAX, examples: ['rain paris'] },
      (text) => {
        const query = text.trim();
        return query.length >= 1 && query.length <= CHARACTERS_MAX ? query : undefined;
      },
    ).describe('words, a name, an id, the beginning of an address, or a URL'),
    limit: integer(1, LIMIT_MAX)
      .default(LIMIT_DEFAULT)
      .describe('maximum number of markets, and of traders'),
  }),
  answer: z.object({
    markets: z.array(
      z.object({ market: MarketV2, volume: amount('value of all matches, each once, micro-USD') }),
    ),
    traders: z.array(
      z.object({
        profile: ProfileV2,
        last_trade_at: time('newest trade'),
        fills: count('fills over all time'),
      }),
    ),
  }),
  problems: [],
  async run(call: Call, { limit, q }) {
    const meaning = meaningOf(q);
    const [tiers, named, byAddress] = await Promise.all([
      meaning.text === '' ? NO_TIERS : readTiers(call, meaning.text),
      findNamed(call, meaning.market),
      readAddress(call, meaning.address, limit),
    ]);
    const [markets, traders] = await Promise.all([
      findMarkets(call, meaning, { limit, tiers: tiers.markets }),
      meaning.event === undefined
        ? findTraders(call, meaning, {
            limit,
            first: byAddress,
            tiers: [...namedTiers(meaning), ...tiers.traders],
          })
        : [],
    ]);
    const others = markets.filter(({ hit }) => hit.key !== named[0]?.hit.key);
    return {
      markets: [...named, ...others].slice(0, limit).map(({ hit, view }) => ({
        market: view,
        volume: safeInteger(hit.volume),
      })),
      traders: traders.map(({ hit, view }) => ({
        profile: view,
        last_trade_at: isoSecond(hit.newest),
        fills: hit.fills,
      })),
    };
  },
});

/** Traders with this name or account; for a handle also those whose account or name begins with it. */
function namedTiers({ handle = '', text }: Meaning): readonly Tier[] {
  const begins = (prefix: string): Tier => [{ words: [], prefix, uses: 0 }];
  const name = handle === '' ? joined(text) : handle;
  if (name === '') return [];
  const whole: Tier = [{ words: [`=${name}`, `@${name}`], uses: 0 }];
  return handle === '' ? [whole] : [whole, begins(`@${name}`), begins(`=${name}`)];
}
