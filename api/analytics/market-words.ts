/** The parameter `q`, which filters lists of markets by words of their listings, and its SQL. */
import { parameter } from '../http/parameters.ts';
import type { Listing } from './metadata-cache.ts';
import { allOf, wordsOf } from './words.ts';

/** Enough for a pasted question, which has up to about twenty words. */
const WORDS_MAX = 32;
const QUERY_LENGTH_MAX = 200;

export const marketWords = parameter(
  `at most ${WORDS_MAX} words and 1 to ${QUERY_LENGTH_MAX} characters`,
  { type: 'string', minLength: 1, maxLength: QUERY_LENGTH_MAX, examples: ['rain paris'] },
  (input) => {
    if (input.trim() === '' || input.length > QUERY_LENGTH_MAX) return undefined;
    const found = wordsOf(input);
    return found.length <= WORDS_MAX ? found : undefined;
  },
).describe(
  'only markets where each of these words begins a word of the question, or of a title or slug of the market or event; letter case and accents are ignored',
);

/**
 * SQL condition: the listing of `market_id` has, or once had, all of the words. Prefixes match, so that users find markets
 * while they type. A text without a letter or digit finds nothing, as in `/v2/search`.
 */
export function hasMarketWords(words: readonly string[]): string {
  if (words.length === 0) return 'false';
  const begins = words.map((_, i) => `startsWith(word, {word_${i}:String})`);
  const bitmaps = begins.map((is, i) => `groupBitmapMergeStateIf(ids, ${is}) AS ids_${i}`);
  return `market_id IN
(
  SELECT arrayJoin(bitmapToArray(${allOf(words.map((_, i) => `ids_${i}`))}))
  FROM (SELECT ${bitmaps.join(', ')} FROM search_words WHERE kind = 'market' AND (${begins.join(' OR ')}))
)`;
}

/** The words of a listing in `search_words`. */
export function listingWords(listing: Listing): readonly string[] {
  const { question, event_title, group_item_title, slug, event_slug } = listing;
  return wordsOf([question, event_title, group_item_title, slug, event_slug].join(' '));
}

/** Whether the listing has all of the words now. */
export function hasWords(listing: Listing | undefined, words: readonly string[]): boolean {
  const own = listing === undefined ? [] : listingWords(listing);
  return words.every((word) => own.some((one) => one.startsWith(word)));
}

/** The parameters of that SQL. */
export function wordParameters(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word, i) => [`word_${i}`, word]));
}
