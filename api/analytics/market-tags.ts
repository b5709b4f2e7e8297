/**
 * Tags and series of a booking's market, read through the dictionary, so that a re-tagged market is right at
 * once in all history. `sports` stands for traditional sports: it leaves out what carries `esports`
 * (specification 4.3, rule 1), here and in the leaderboard's view.
 */

/** Tags of the market in the column `condition_id`; empty where no listing describes it. */
export const MARKET_TAGS = `dictGetOrDefault('market_dictionary', 'tags',
  tuple(reinterpretAsUInt256(condition_id)), [])`;

/** The tags under which a market with these counts, each once. */
export function countedTags(tags: readonly string[]): readonly string[] {
  const isEsports = tags.includes('esports');
  return [...new Set(tags)].filter((tag) => tag !== '' && !(tag === 'sports' && isEsports));
}

/** Whether a market with these tags counts under the parameter `tag`. */
export function countsUnder(tags: readonly string[], tag: string): boolean {
  return tag === ALL_TAGS || countedTags(tags).includes(tag);
}

/** The same as a condition. */
function hasTag(tag: string): string {
  const notEsports = tag === 'sports' ? `AND NOT has(${MARKET_TAGS}, 'esports')` : '';
  return `has(${MARKET_TAGS}, {tag:String}) ${notEsports}`;
}

/** Condition that a market belongs to the series of the parameter `series`. */
export const HAS_SERIES = `dictGetOrDefault('market_dictionary', 'series_slug',
  tuple(reinterpretAsUInt256(condition_id)), '') = {series:String}`;

/** The tag that filters nothing. */
export const ALL_TAGS = 'all';

/** Conditions of a statement, each after AND, that keep the markets of a tag and of a series. */
export function marketFilter(given: {
  readonly tag: string;
  readonly series?: string | undefined;
}) {
  const tag = given.tag === ALL_TAGS ? '' : `AND ${hasTag(given.tag)}`;
  return given.series === undefined ? tag : `${tag} AND ${HAS_SERIES}`;
}
