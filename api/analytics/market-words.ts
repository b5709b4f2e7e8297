/** Lists of markets that are filtered by words of their listings: the parameter `q`, and its SQL. */
import { parameter } from '../parameters.ts';
import { allOf, wordsOf } from './words.ts';

/** A question that somebody pastes has up to some twenty. */
const WORDS_MAX = 32;
const QUERY_LENGTH_MAX = 200;

export const marketWords = parameter(
  `1 to ${WORDS_MAX} words, at most ${QUERY_LENGTH_MAX} characters`,
  { type: 'string', minLength: 1, maxLength: QUERY_LENGTH_MAX, examples: ['rain paris'] },
  (input) => {
    const found = input.length > QUERY_LENGTH_MAX ? [] : wordsOf(input);
    return found.length >= 1 && found.length <= WORDS_MAX ? found : undefined;
  },
).describe(
  'each of these words begins a word of the question, or of the titles or slugs of market and event; letter case and accents are ignored',
);

/** Whether `market_id` is of a listing with all of the words. A word of a listing may be longer, so that one finds while one types. */
export function hasMarketWords(words: readonly string[]): string {
  const begins = words.map((_, i) => `startsWith(word, {word_${i}:String})`);
  const bitmaps = begins.map((is, i) => `groupBitmapMergeStateIf(ids, ${is}) AS ids_${i}`);
  return `market_id IN
(
  SELECT arrayJoin(bitmapToArray(${allOf(words.map((_, i) => `ids_${i}`))}))
  FROM (SELECT ${bitmaps.join(', ')} FROM search_words WHERE kind = 'market' AND (${begins.join(' OR ')}))
)`;
}

/** Values of the parameters in that SQL. */
export function wordParameters(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word, i) => [`word_${i}`, word]));
}
