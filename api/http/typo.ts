/** Parameters with a typo. */
import { invalid } from './errors.ts';
import { isOneTypo } from './one-typo.ts';

/** In shorter names, a typo makes another word. */
const TYPO_LENGTH_MIN = 4;

/**
 * Throws Problem 400 for a parameter that is one typo, a capital or an underscore away from a known one, because ignoring
 * it would answer a different question. Other unknown parameters are ignored.
 */
export function refuseMisspelt(known: readonly string[], given: readonly string[]): void {
  const issues = given.flatMap((name) => {
    const meant = known.includes(name) ? undefined : known.find((one) => isMeant(name, one));
    return meant === undefined
      ? []
      : [{ path: name, message: `is unknown; did you mean ${meant}?` }];
  });
  if (issues.length > 0) throw invalid(issues);
}

function isMeant(given: string, known: string): boolean {
  const [one, other] = [plain(given), plain(known)];
  return one === other || (other.length >= TYPO_LENGTH_MIN && isOneTypo(one, other));
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '');
}
