/**
 * `GET /v2/search`: finds markets and traders by what a user types or pastes. A query in the form of an id, address or URL
 * is looked up by its key. Otherwise one statement per kind intersects the bitmaps of the words and ranks the hits. Typos are
 * looked for only where nothing has the words as typed. Open markets come first, then those that ended last. Hits are compared with the current listings and profiles, because
 * `search_words` keeps words that these no longer have.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { isOneTypo } from '../http/one-typo.ts';
import { integer, type MarketKey, marketKey, parameter } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { MarketV2, marketV2, readResolutions, unlisted, withTokens } from './market-object.ts';
import { listingWords } from './market-words.ts';
import { MarketMark, marketMark, readMarks } from './marks.ts';
import type { Profile, TokenKey } from './metadata-cache.ts';
import { NO_PROFILE, ProfileV2, profileV2 } from './profiles.ts';
import { FEW_ROWS, read } from './query.ts';
import {
  count as counted,
  hexText,
  int,
  type RowOf,
  type RowSchema,
  rowOf,
  seconds,
  string,
} from './rows.ts';
import { amount, count, time } from './schemas.ts';
import { allOf, joined, variantsOf, wordsOf } from './words.ts';

const LIMIT_MAX = 50;
const LIMIT_DEFAULT = 10;
const CHARACTERS_MAX = 300;
/** Maximum number of searched words; further words are ignored. */
const WORDS_MAX = 16;
/** The most frequent words that a typo may have made of a word. */
const TYPOS_MAX = 20;
/** In shorter words, one typo too often gives another word. */
const TYPO_LETTERS_MIN = 4;
/** Longer words are not in `search_variants`. */
const TYPO_CHARACTERS_MAX = 24;
/** Maximum number of hits that are compared with their listings, even if nearly all are outdated. */
const HITS_MAX = 2_000;
/** Extra hits to read, so that a few outdated ones need no second read. */
const SPARE_HITS = 3;
/** Maximum number of hits to rank beside those of the first level. */
const CANDIDATES_MAX = 1_000;

type SearchedMarket = MarketKey | TokenKey;
/** In lower case; the start with 0x, the end possibly ''. */
type SearchedAddress = { readonly start: string; readonly end: string };

/** A query, parsed by its form. */
type Meaning = {
  /** The words to search for, or ''. */
  readonly text: string;
  readonly market?: SearchedMarket | undefined;
  /** Slug of an event: only its markets. */
  readonly event?: string;
  readonly address?: SearchedAddress;
  /** A name or account without @. */
  readonly handle?: string;
};

/** One of these words, or one that begins with the prefix. */
type Term = { readonly words: readonly string[]; readonly prefix?: string | undefined };
/** All of these terms must match; earlier tiers are more relevant. */
type Tier = readonly Term[];
type Kind = 'market' | 'trader';

/** The order of the entries of a tier. Open markets have no end. */
const ORDERS: Readonly<Record<Kind, string>> = {
  market: 'toUnixTimestamp(ended_at) > 0, ended_at DESC, rank DESC, key DESC',
  trader: 'rank DESC, key',
};

/** A URL anywhere in a text; its scheme may be missing for hosts of Polymarket. At the start of a text, its path is enough. */
const PASTED_URL = /https?:\/\/[^/\s]+\/\S+|\bpolymarket\.com\/\S+|^\/\S+/i;
const URL_PARTS = /^(?:https?:\/\/)?[^/]*(\/[^?#]*)(\?[^#]*)?/i;
/** Punctuation of the text around a URL. */
const TRAILING = /[.,;:!?)\]}>"'»”’]+$/;
/** An address, its beginning, or its beginning and end as wallets show it. */
const ADDRESS = /^(0x[0-9a-f]{1,40})(?:(?:…|\.{2,3})([0-9a-f]{1,40}))?$/;
/** Numbers of markets are shorter. */
const TOKEN_ID = /^[1-9]\d{19,77}$/;
const UINT256_MAX = 2n ** 256n - 1n;
/** What the next part of a URL's path names, or `?slug=` in place of it. */
const KINDS: ReadonlySet<string> = new Set(['event', 'events', 'market', 'markets']);

function meaningOf(query: string): Meaning {
  const pasted = PASTED_URL.exec(query)?.[0].replace(TRAILING, '');
  if (pasted === undefined) return named(query);
  const [, path = '', search = ''] = URL_PARTS.exec(pasted) ?? [];
  const parts = path.split('/').flatMap((part) => (part === '' ? [] : decoded(part)));
  // A language may come first: /es/event/...
  const at = parts.findIndex((part) => KINDS.has(part));
  if (at < 0) return named(parts.at(-1) ?? '');
  const slug = new URLSearchParams(search).get('slug') ?? '';
  const [kind = '', first = slug, second = ''] = parts.slice(at);
  if (kind.startsWith('market')) return { market: keyOf(first), text: '' };
  return second === '' ? { event: first, text: first } : { market: keyOf(second), text: '' };
}

function named(text: string): Meaning {
  const [, start, end = ''] = ADDRESS.exec(text.toLowerCase()) ?? [];
  if (start !== undefined) return { address: { start, end }, text: end === '' ? text : '' };
  if (text.startsWith('@')) return { handle: joined(text), text: '' };
  if (TOKEN_ID.test(text) && BigInt(text) <= UINT256_MAX) {
    return { market: { kind: 'token', token: text }, text: '' };
  }
  const market = keyOf(text);
  // A slug of one word is found as a word.
  return market?.kind === 'slug' && !market.slug.includes('-') ? { text } : { market, text };
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
  kind: string('kind'),
  word: string('word'),
  uses: counted('sum(uses)'),
});

const VARIANTS_SQL = `
SELECT ${VariantRow.columns}
FROM search_variants
WHERE variant IN {variants:Array(String)}
GROUP BY kind, word
${FEW_ROWS}`;

/** Words of markets and of traders that differ from these by one typo, or not at all; the most frequent first. */
async function readSimilar(call: Call, words: readonly string[]) {
  // A typo may have removed a letter, so shorter words count as well.
  const long = words.filter((word) => letters(word) >= TYPO_LETTERS_MIN - 1);
  if (long.length === 0) return [];
  const variants = texts([...new Set(long.flatMap(variantsOf))]);
  const rows = await read(call, { sql: VARIANTS_SQL, parameters: { variants }, row: VariantRow });
  return rows.toSorted((a, b) => b.uses - a.uses);
}

/** The words as typed, then with the last one as a prefix. */
function typedTiers(words: readonly string[]): Tier[] {
  if (words.length === 0) return [];
  const exact: Tier = words.map((word) => ({ words: [word] }));
  return [exact, exact.with(-1, { words: [], prefix: words.at(-1) })];
}

/** The words with a typo in one or several of them; undefined if there are no such words. */
function mistypedTier(
  kind: Kind,
  words: readonly string[],
  similar: Awaited<ReturnType<typeof readSimilar>>,
): Tier | undefined {
  const own = similar.filter((row) => row.kind === kind);
  const mayBe = (word: string) =>
    letters(word) < TYPO_LETTERS_MIN ||
    Array.from(word).length > TYPO_CHARACTERS_MAX ||
    own.some((row) => row.word === word);
  const tier = words.map((typed, at): Term => {
    const meant = own.filter(({ word }) => isOneTypo(typed, word)).slice(0, TYPOS_MAX);
    const prefix = at === words.length - 1 ? typed : undefined;
    return { words: [typed, ...meant.map(({ word }) => word)], prefix };
  });
  const hasTypos = tier.some((term) => term.words.length > 1);
  const isPossible = tier.every(
    ({ words: some, prefix }) => prefix !== undefined || some.some(mayBe),
  );
  return hasTypos && isPossible ? tier : undefined;
}

/**
 * The statement that finds entries with all words of a tier, by tier and rank. Of each tier, it ranks the entries among the
 * first level of search_markets or search_traders, and CANDIDATES_MAX others if these are too few: the first level ranks
 * before all others.
 */
function statementOf(kind: Kind, tiers: readonly Tier[], columns: string) {
  const table = `search_${kind}s`;
  const parameters: Record<string, unknown> = { kind };
  const names = new Map<string, string>();
  const conditions: string[] = [];
  const nameOf = (term: Term) => {
    const key = JSON.stringify(term);
    const known = names.get(key);
    if (known !== undefined) return known;
    const name = `term_${names.size}`;
    names.set(key, name);
    const ways: string[] = [];
    if (term.words.length > 0) {
      parameters[`${name}_words`] = texts(term.words);
      ways.push(`word IN {${name}_words:Array(String)}`);
    }
    if (term.prefix !== undefined) {
      parameters[`${name}_prefix`] = term.prefix;
      ways.push(`startsWith(word, {${name}_prefix:String})`);
    }
    conditions.push(ways.join(' OR '));
    return name;
  };
  const common = tiers.map((terms) => allOf(terms.map(nameOf)));
  const bitmaps = conditions.map(
    (condition, at) => `groupBitmapMergeStateIf(ids, ${condition}) AS term_${at}`,
  );
  const places = tiers.map((_, at) => `has(found[${at + 1}], id), ${at}`);
  // It begins with SELECT, so that the embedded engine reuses a connection.
  const sql = `
SELECT ${columns}
FROM ${table}
WHERE id IN arrayFlatten((
  SELECT arrayMap(tier -> arrayConcat(bitmapToArray(bitmapAnd(tier, upper)),
    if(bitmapAndCardinality(tier, upper) >= {take:UInt32}, [], arraySlice(bitmapToArray(tier), -${CANDIDATES_MAX}))), tiers)
  FROM
  (
    SELECT [${common.join(', ')}] AS tiers
    FROM
    (
      SELECT ${bitmaps.join(', ')}
      FROM search_words
      WHERE kind = {kind:String} AND (${conditions.join(' OR ')})
    )
  ) AS words,
  (SELECT groupBitmapState(id) AS upper FROM ${table} WHERE level = 0) AS levels
) AS found)
ORDER BY multiIf(${places.join(', ')}, ${tiers.length}), ${ORDERS[kind]}
LIMIT {take:UInt32}`;
  return { sql, parameters };
}

const letters = (word: string) => word.match(/\p{L}/gu)?.length ?? 0;

const texts = (words: readonly string[]) =>
  new Bytes(words.map((word) => `0x${Buffer.from(word).toString('hex')}`));

const ranked = { key: hexText('key'), rank: int('rank') };
const MarketHit = rowOf(ranked);
const TraderHit = rowOf({ ...ranked, newest: seconds('last_trade_at') });
type Ranked = RowOf<typeof MarketHit>;

/** Entries with the words, by tier and rank. */
async function readHits<Hit>(
  call: Call,
  search: { readonly kind: Kind; readonly row: RowSchema<Hit>; readonly tiers: readonly Tier[] },
  take: number,
): Promise<readonly Hit[]> {
  const { kind, row, tiers } = search;
  if (tiers.length === 0) return [];
  const { sql, parameters } = statementOf(kind, tiers, row.columns);
  return await read(call, { sql, parameters: { ...parameters, take }, row });
}

/** The first hits, then those of the tiers, without outdated ones, which `views` omits. */
async function currentHits<Hit extends Ranked, View>(
  call: Call,
  search: {
    readonly kind: Kind;
    readonly row: RowSchema<Hit>;
    readonly limit: number;
    readonly first: readonly Hit[];
    readonly tiers: readonly Tier[];
    readonly views: (keys: readonly string[]) => Promise<ReadonlyMap<string, View>>;
  },
): Promise<readonly { readonly hit: Hit; readonly view: View }[]> {
  const { limit, first, views } = search;
  for (let take = limit + SPARE_HITS; ; take *= 4) {
    const others = first.length < limit ? await readHits(call, search, take) : [];
    const found = new Map([...first, ...others].map((hit) => [hit.key, hit]));
    if (found.size === 0) return [];
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

/** Whether an entry with these words matches one of the tiers. */
function isHit(words: readonly string[], tiers: readonly Tier[]): boolean {
  const has = (term: Term) =>
    words.some((word) => {
      const begins = term.prefix !== undefined && word.startsWith(term.prefix);
      return begins || term.words.includes(word);
    });
  return tiers.some((terms) => terms.every(has));
}

async function findMarkets(
  call: Call,
  { event }: Meaning,
  search: { readonly limit: number; readonly tiers: readonly Tier[] },
) {
  return await currentHits(call, {
    ...{ kind: 'market', row: MarketHit, first: [], ...search },
    async views(conditionIds) {
      const [listings, resolutions] = await Promise.all([
        call.metadata.listings(conditionIds),
        readResolutions(call, conditionIds),
      ]);
      const current = [...listings].filter(
        ([, listing]) =>
          (event === undefined || listing.event_slug === event) &&
          isHit(listingWords(listing), search.tiers),
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

const VolumeRow = rowOf({ volume: int('sum(volume)'), matches: counted('sum(matches)') });

const VOLUME_SQL = `
SELECT ${VolumeRow.columns}
FROM market_marks
WHERE condition_id = {condition_id:FixedString(32)}
${FEW_ROWS}`;

/** The market with this number, condition id, slug or token, if there is one. */
async function findNamed(call: Call, key: SearchedMarket | undefined) {
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
  return [{ hit: { key: conditionId, rank: volume }, view }];
}

const ActivityRow = rowOf({
  key: hexText('trader'),
  rank: int('sum(fills)'),
  newest: seconds('max(last_trade_at)'),
});

const ADDRESS_SQL = `
SELECT ${ActivityRow.columns}
FROM trader_activity
WHERE trader >= {first:FixedString(20)} AND trader <= {last:FixedString(20)}
  AND endsWith(lower(hex(trader)), {end:String})
GROUP BY trader
ORDER BY sum(fills) DESC, trader
LIMIT {limit:UInt32}
${FEW_ROWS}`;

/** Traders whose address begins and ends like this. */
async function readAddress(call: Call, address: SearchedAddress | undefined, limit: number) {
  if (address === undefined) return [];
  const { start, end } = address;
  const first = new Bytes(start.padEnd(42, '0'));
  const last = new Bytes(start.padEnd(42, 'f'));
  return await read(call, {
    sql: ADDRESS_SQL,
    parameters: { first, last, end, limit },
    row: ActivityRow,
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
  return await currentHits(call, {
    ...{ kind: 'trader', row: TraderHit, ...search },
    async views(addresses) {
      const profiles = await call.metadata.profiles(addresses);
      const current = addresses.flatMap((key) => {
        const profile = profiles.get(key) ?? { ...NO_PROFILE, address: key };
        const isNamed =
          address !== undefined && key.startsWith(address.start) && key.endsWith(address.end);
        const isRight = isNamed || isHit(profileWords(profile), search.tiers);
        return isRight ? [[key, profileV2(profile)] as const] : [];
      });
      return new Map(current);
    },
  });
}

/** The words of a profile in `search_words`. */
function profileWords(profile: Pick<Profile, 'name' | 'x_username'>): readonly string[] {
  const { name, x_username: account } = profile;
  return [...wordsOf(`${name} ${account}`), `=${joined(name)}`, `@${joined(account)}`];
}

export const search = endpoint({
  name: 'search',
  path: '/v2/search',
  summary: 'Search',
  description: `Markets and traders that match words, names, ids, addresses or URLs, with tolerance for typos. Markets are found by words
of the question and of the titles and slugs of market and event, by id, condition id, id of a token, and URL (of
polymarket.com or of the page, also with text around it). Traders are found by name, account on X (also \`@account\`), the
beginning of the address, and its beginning and end (\`0x1234…abcd\`).

All words must match; the last one may be a prefix. Letter case, accents and punctuation are ignored. A word of four
letters or more may have one typo (a character added, missing or wrong, or two neighbours swapped). Exact names come
first, then results with all words as typed, then with the last word as a prefix. Among equally
relevant results, open markets come first, by volume, then the others, the newest end first; traders are ordered by number
of fills.

Typos are tried for markets if no market has the words as typed, and for traders if nothing has them. If the query is the
URL of a market, a condition id, the id of a token, a slug of several words, or an address or its beginning, only the
results that it identifies are returned. If more than 1,000 entries have all words, those among the first 5,000
of that order are considered, and 1,000 others. Volumes, fills, newest trades, new markets and names
of traders are usually less than ten seconds old, at most a minute.`,
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
      .describe('maximum number of markets and of traders'),
  }),
  answer: z.object({
    markets: z.array(
      z.object({
        market: MarketV2,
        mark: MarketMark,
        volume: amount('value of all matches, each counted once, micro-USD'),
      }),
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
  keep: SHARED,
  async run(call: Call, { limit, q }) {
    const meaning = meaningOf(q);
    const isExact = namesOne(meaning);
    const [known, byAddress] = isExact
      ? await Promise.all([
          findNamed(call, meaning.market),
          readAddress(call, meaning.address, limit),
        ])
      : [[], []];
    const isFound = known.length + byAddress.length > 0;
    const words = isFound ? [] : wordsOf(meaning.text).slice(0, WORDS_MAX);
    const tiers = typedTiers(words);
    let similar: ReturnType<typeof readSimilar> | undefined;
    const mistyped = async (kind: Kind) => {
      similar ??= readSimilar(call, meaning.event === undefined ? words : []);
      const tier = mistypedTier(kind, words, await similar);
      return tier === undefined ? [] : [tier];
    };
    const inMarkets = (some: readonly Tier[]) => findMarkets(call, meaning, { limit, tiers: some });
    const inTraders = (some: readonly Tier[]) =>
      findTraders(call, meaning, { limit, first: byAddress, tiers: some });
    const [named, markets, typed] = await Promise.all([
      isExact ? known : findNamed(call, meaning.market),
      (async () => {
        // An event is identified by its whole slug.
        const found = await inMarkets(meaning.event === undefined ? tiers : tiers.slice(0, 1));
        return found.length > 0 ? found : await inMarkets(await mistyped('market'));
      })(),
      inTraders(isFound || meaning.event !== undefined ? [] : [...namedTiers(meaning), ...tiers]),
    ]);
    const isAny = named.length + markets.length + typed.length > 0;
    const traders = isAny ? typed : await inTraders(await mistyped('trader'));
    const others = markets.filter(({ hit }) => hit.key !== named[0]?.hit.key);
    const found = [...named, ...others].slice(0, limit);
    const marks = await readMarks(
      call,
      found.map(({ hit }) => hit.key),
    );
    return {
      markets: found.map(({ hit, view }) => ({
        market: view,
        mark: marketMark(marks.get(hit.key)),
        volume: safeInteger(hit.rank),
      })),
      traders: traders.map(({ hit, view }) => ({
        profile: view,
        last_trade_at: isoSecond(hit.newest),
        fills: safeInteger(hit.rank),
      })),
    };
  },
});

/** Whether the query has the form of a condition id, a token id, a slug of several words, or an address or its beginning. */
function namesOne({ address, market }: Meaning): boolean {
  return address !== undefined || (market !== undefined && market.kind !== 'id');
}

/** The address of the trader with exactly this name or account, of several the one with the most fills. Throws Problem 404. */
export async function addressNamed(call: Call, name: string): Promise<string> {
  const handle = joined(name);
  const [tier] = handle === '' ? [] : namedTiers({ handle, text: '' });
  const tiers = tier === undefined ? [] : [tier];
  const [found] = await findTraders(call, { text: '' }, { limit: 1, first: [], tiers });
  if (found !== undefined) return found.hit.key;
  throw new Problem({ error: 'not_found', detail: `no trader has the name or account ${name}` });
}

/** Traders with this name or account. A handle also finds those whose account or name begins with it. */
function namedTiers({ handle = '', text }: Meaning): readonly Tier[] {
  const begins = (prefix: string): Tier => [{ words: [], prefix }];
  const name = handle === '' ? joined(text) : handle;
  if (name === '') return [];
  const whole: Tier = [{ words: [`=${name}`, `@${name}`] }];
  return handle === '' ? [whole] : [whole, begins(`@${name}`), begins(`=${name}`)];
}
