/**
 * Tags and series of a booking's market. They are read through the dictionary, so a new tag applies to all history
 * at once. `sports` means traditional sports: it excludes markets with the tag `esports`, here and in the
 * leaderboards' views.
 */

/** Tags of the market in the column `condition_id`; empty without a listing. */
export const MARKET_TAGS = `dictGetOrDefault('market_dictionary', 'tags',
  tuple(reinterpretAsUInt256(condition_id)), [])`;

/** The same as one text, a tag a line, which is cheaper to read for many rows. */
export const MARKET_TAG_LINES = `arrayStringConcat(${MARKET_TAGS}, '\\n')`;

/** The tags under which a market with these tags counts, without duplicates. */
export function countedTags(tags: readonly string[]): readonly string[] {
  const isEsports = tags.includes('esports');
  return [...new Set(tags)].filter((tag) => tag !== '' && !(tag === 'sports' && isEsports));
}

/** Whether a market with these tags counts under the parameter `tag`, which is in lower case. */
export function countsUnder(tags: readonly string[], tag: string): boolean {
  return tag === ALL_TAGS || countedTags(tags).some((counted) => counted.toLowerCase() === tag);
}

/** The same as an SQL condition. */
function hasTag(tag: string): string {
  const notEsports = tag === 'sports' ? `AND NOT has(${MARKET_TAGS}, 'esports')` : '';
  return `has(arrayMap(tag -> lowerUTF8(tag), ${MARKET_TAGS}), {tag:String}) ${notEsports}`;
}

/** Series of the market in the column `condition_id`; empty without one. */
export const MARKET_SERIES = `dictGetOrDefault('market_dictionary', 'series_slug',
  tuple(reinterpretAsUInt256(condition_id)), '')`;

/** SQL condition: the market belongs to the series of the parameter `series`, which is in lower case. */
export const HAS_SERIES = `lowerUTF8(${MARKET_SERIES}) = {series:String}`;

/** The tag that means no filter. */
export const ALL_TAGS = 'all';

/** SQL conditions, each after AND, for the markets of a tag and of a series. */
export function marketFilter(input: {
  readonly tag: string;
  readonly series?: string | undefined;
}) {
  const tag = input.tag === ALL_TAGS ? '' : `AND ${hasTag(input.tag)}`;
  return input.series === undefined ? tag : `${tag} AND ${HAS_SERIES}`;
}
