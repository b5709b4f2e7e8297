/**
 * Tags of a booking's market, read through the dictionary, so that a re-tagged market is right at
 * once in all history. `sports` stands for traditional sports: it leaves out what carries `esports`
 * (specification 4.3, rule 1), here and in the leaderboard's view.
 */

/** Tags of the market in the column `condition_id`; empty where no listing describes it. */
const MARKET_TAGS = `dictGetOrDefault('market_dictionary', 'tags',
  tuple(reinterpretAsUInt256(condition_id)), [])`;

/** The tags under which a market counts, each once. */
export const COUNTED_TAGS = `arrayFilter(
  tag -> tag != '' AND NOT (tag = 'sports' AND has(${MARKET_TAGS}, 'esports')),
  arrayDistinct(${MARKET_TAGS}))`;

/** Condition that a market counts under the parameter `tag`. */
export const HAS_TAG = `(has(${MARKET_TAGS}, {tag:String})
  AND NOT ({tag:String} = 'sports' AND has(${MARKET_TAGS}, 'esports')))`;

/** The tag that filters nothing. */
export const ALL_TAGS = 'all';
