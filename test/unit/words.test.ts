import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { joined, variantsOf, wordsOf } from '../../api/analytics/words.ts';
import { isOneTypo } from '../../api/http/one-typo.ts';

test('words are runs of letters and digits, in lower case, without accents, each once', () => {
  expect(wordsOf('Élan vs. ÉLAN: O/U 2.5? Ωμέγας 100k ﬁ')).toEqual([
    'elan',
    'vs',
    'o',
    'u',
    '2',
    '5',
    'ωμεγας',
    '100k',
    'fi',
  ]);
  expect(wordsOf('…')).toEqual([]);
  expect(joined('Blue_Car-7')).toBe('bluecar7');
});

describe('one typo', () => {
  test.each([
    ['rain', 'ran'],
    ['rain', 'raain'],
    ['rain', 'rein'],
    ['rain', 'arin'],
    ['rain', 'rainy'],
    ['😀ab', 'a😀b'],
  ])('%s and %s', (one, other) => {
    expect(isOneTypo(one, other)).toBe(true);
    expect(isOneTypo(other, one)).toBe(true);
  });

  test.each([
    ['rain', 'rain'],
    ['rain', 'ranni'],
    ['rain', 'airn'],
    ['abcd', 'dbca'],
    ['rain', 'ra'],
  ])('more or less than one: %s and %s', (one, other) => {
    expect(isOneTypo(one, other)).toBe(false);
    expect(isOneTypo(other, one)).toBe(false);
  });

  const word = fc.stringMatching(/^[ab]{0,7}$/);
  test('is one of four edits, after which the words share a variant', () => {
    fc.assert(
      fc.property(word, word, (one, other) => {
        const isEdit = one !== other && edits(one).has(other);
        expect(isOneTypo(one, other)).toBe(isEdit);
        if (!isEdit) return;
        const variants = new Set(variantsOf(one));
        expect(variantsOf(other).some((variant) => variants.has(variant))).toBe(true);
      }),
    );
  });
});

/** All words that differ by one edit from a word of `a` and `b`. */
function edits(word: string): ReadonlySet<string> {
  const all = new Set<string>();
  for (let at = 0; at <= word.length; at++) {
    const [left, right] = [word.slice(0, at), word.slice(at)];
    const [first = '', second = ''] = right;
    all.add(left + right.slice(1));
    if (second !== '') all.add(left + second + first + right.slice(2));
    for (const letter of 'ab') {
      all.add(left + letter + right);
      if (first !== '') all.add(left + letter + right.slice(1));
    }
  }
  return all;
}
