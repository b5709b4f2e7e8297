/**
 * Which markets and traders have the words of a search. One statement intersects the bitmaps of the words for both
 * kinds, one a kind ranks what they have in common: planned as one, they take the engine twice as long. Of frequent words,
 * one statement a kind does both, because what they have in common is too much to be sent.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import type { Call } from './call.ts';
import { read } from './query.ts';
import { digits, hexText, int, type RowOf, rowOf, string, strings, typed } from './rows.ts';
import { allOf } from './words.ts';

export const KINDS = ['market', 'trader'] as const;
export type Kind = (typeof KINDS)[number];
/** One of these words, or one that begins with the prefix. */
export type Term = { readonly words: readonly string[]; readonly prefix?: string | undefined };
/** All of these; earlier tiers are more relevant. */
export type Tier = readonly Term[];
/** What is looked for; `isFrequent` if all words are, so that very many may have them. */
export type Search = { readonly tiers: readonly Tier[]; readonly isFrequent: boolean };

/** How many are ranked of those that have the words, if few of them are among the upper ranks. */
const CANDIDATES_MAX = 1_000;

const CommonRow = rowOf({
  kind: string('of'),
  counts: strings('arrayMap(ids -> toString(bitmapCardinality(ids)), tiers)'),
  ids: typed(
    `arrayMap(ids -> arrayMap(id -> toString(id), arraySlice(bitmapToArray(ids), -${CANDIDATES_MAX})), tiers)`,
    z.array(z.array(z.string().regex(/^\d+$/))),
  ),
});
/** What a kind has of its tiers, in their order: how many, and the numbers of CANDIDATES_MAX at most. */
export type Common = readonly { readonly count: number; readonly ids: readonly string[] }[];

const Hit = rowOf({ key: hexText('key'), rank: int('rank') });
export type Hit = RowOf<typeof Hit>;
const Ranked = rowOf({ key: hexText('key'), rank: int('rank'), id: digits('toString(id)') });

/** What has all words of the tiers of a kind. One statement reads it for both; it is empty where words are frequent. */
export async function readCommon(
  call: Call,
  searches: Readonly<Record<Kind, Search>>,
): Promise<Readonly<Record<Kind, Common>>> {
  const tiersOf = (kind: Kind) => (searches[kind].isFrequent ? [] : searches[kind].tiers);
  const kinds = KINDS.filter((kind) => tiersOf(kind).length > 0);
  if (kinds.length === 0) return { market: [], trader: [] };
  const terms = new Terms();
  // Both kinds have some tiers in common; what the other kind has of a tier is not used.
  const tiers = [...new Set(kinds.flatMap(tiersOf).map((tier) => terms.allOf(tier)))];
  const sql = `
SELECT ${CommonRow.columns}
FROM
(
  SELECT of, [${tiers.join(', ')}] AS tiers
  FROM
  (
    SELECT toString(kind) AS of, ${terms.bitmaps}
    FROM search_words
    WHERE kind IN (${kinds.map((kind) => `'${kind}'`).join(', ')}) AND (${terms.some})
    GROUP BY kind
  )
)
SETTINGS optimize_move_to_prewhere = 0`;
  const rows = await read(call, { sql, parameters: terms.parameters, row: CommonRow });
  const commonOf = (kind: Kind): Common => {
    const row = rows.find((one) => one.kind === kind);
    return tiersOf(kind).map((tier) => {
      const at = tiers.indexOf(terms.allOf(tier));
      return { count: Number(row?.counts[at] ?? 0), ids: row?.ids[at] ?? [] };
    });
  };
  return { market: commonOf('market'), trader: commonOf('trader') };
}

/** The first `take` of a kind, by tier and rank. */
export async function readHits(
  call: Call,
  kind: Kind,
  { tiers, isFrequent }: Search,
  common: Common,
  take: number,
): Promise<readonly Hit[]> {
  if (tiers.length === 0) return [];
  if (isFrequent) return await readFrequent(call, kind, tiers, take);
  const tierOf = new Map<string, number>();
  /** Those of the tiers before the last one that is needed. */
  let sure: readonly string[] = [];
  for (const [at, { count, ids }] of common.entries()) {
    if (tierOf.size >= take) break;
    if (count > CANDIDATES_MAX) return await readFrequent(call, kind, tiers, take);
    sure = [...tierOf.keys()];
    for (const id of ids) if (!tierOf.has(id)) tierOf.set(id, at);
  }
  if (tierOf.size === 0) return [];
  const first = sure.length === 0 ? '' : `id IN (${sure.join()}) DESC, `;
  const rows = await read(call, {
    sql: `
SELECT ${Ranked.columns}
FROM search_${kind}s
WHERE level IN (0, 1, 2) AND id IN (${[...tierOf.keys()].join()})
ORDER BY ${first}rank DESC, ${KEY_ORDER[kind]}
LIMIT {take:UInt32}
SETTINGS optimize_move_to_prewhere = 0`,
    parameters: { take },
    row: Ranked,
  });
  return rows.toSorted((a, b) => (tierOf.get(a.id) ?? 0) - (tierOf.get(b.id) ?? 0));
}

const KEY_ORDER: Readonly<Record<Kind, string>> = { market: 'key DESC', trader: 'key' };

/**
 * As `readHits`, where very many have the words: a tier gives those among the first or the upper ranks if there are
 * enough, otherwise those of the upper ranks and CANDIDATES_MAX others.
 */
async function readFrequent(call: Call, kind: Kind, tiers: readonly Tier[], take: number) {
  const table = `search_${kind}s`;
  const terms = new Terms();
  const common = tiers.map((tier, at) => `${terms.allOf(tier)} AS tier_${at}`);
  const best = tiers.map((_, at) => {
    const tier = `tier_${at}`;
    return `multiIf(bitmapAndCardinality(${tier}, first) >= {take:UInt32}, bitmapToArray(bitmapAnd(${tier}, first)),
    bitmapAndCardinality(${tier}, upper) >= {take:UInt32}, bitmapToArray(bitmapAnd(${tier}, upper)),
    arrayConcat(bitmapToArray(bitmapAnd(${tier}, upper)), arraySlice(bitmapToArray(${tier}), -${CANDIDATES_MAX})))`;
  });
  const relevance = tiers.slice(0, -1).map((_, at) => `has(found[${at + 1}], id) DESC, `);
  const sql = `
WITH
(
  SELECT [${best.join(', ')}]
  FROM
  (
    SELECT ${common.join(', ')}
    FROM
    (
      SELECT ${terms.bitmaps}
      FROM search_words
      WHERE kind = {kind:String} AND (${terms.some})
    )
  ) AS words,
  (SELECT groupBitmapStateIf(id, level = 0) AS first, groupBitmapState(id) AS upper FROM ${table} WHERE level < 2) AS ranks
) AS found
SELECT ${Hit.columns}
FROM ${table}
WHERE id IN arrayFlatten(found)
ORDER BY ${relevance.join('')}rank DESC, ${KEY_ORDER[kind]}
LIMIT {take:UInt32}`;
  return await read(call, { sql, parameters: { ...terms.parameters, kind, take }, row: Hit });
}

/** The terms of a statement, each once. */
class Terms {
  readonly parameters: Record<string, unknown> = {};
  readonly #names = new Map<string, string>();
  readonly #conditions: string[] = [];

  /** SQL of the bitmap of what has all terms of a tier. */
  allOf(tier: Tier): string {
    return allOf(tier.map((term) => this.#nameOf(term)));
  }

  /** Columns with the bitmap of each term. */
  get bitmaps(): string {
    return this.#conditions
      .map((condition, at) => `groupBitmapMergeStateIf(ids, ${condition}) AS term_${at}`)
      .join(', ');
  }

  /** Whether a word is of any term. */
  get some(): string {
    return this.#conditions.join(' OR ');
  }

  #nameOf(term: Term): string {
    const key = JSON.stringify(term);
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = `term_${this.#names.size}`;
    this.#names.set(key, name);
    this.parameters[`${name}_words`] = texts(term.words);
    this.parameters[`${name}_prefix`] = term.prefix;
    const begins = term.prefix === undefined ? '' : ` OR startsWith(word, {${name}_prefix:String})`;
    this.#conditions.push(`(word IN {${name}_words:Array(String)}${begins})`);
    return name;
  }
}

/** Words as a parameter. */
export const texts = (words: readonly string[]) =>
  new Bytes(words.map((word) => `0x${Buffer.from(word).toString('hex')}`));
