/** Finds the word or path that somebody probably meant. The page uses this file as well. */

/** Whether the words differ by exactly one typo: a character added, missing or wrong, or two neighbours swapped. */
export function isOneTypo(one: string, other: string): boolean {
  const a = Array.from(one);
  const b = Array.from(other);
  const short = Math.min(a.length, b.length);
  let start = 0;
  while (start < short && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < short - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  if (left.length + right.length === 0) return false;
  if (left.length <= 1 && right.length <= 1) return true;
  const [x, y] = left;
  const [u, v] = right;
  return left.length === 2 && right.length === 2 && x === v && y === u;
}

/** The address that was probably meant: it differs by one typo from one of these paths, which have parameters as `:name`. */
export function nearestPath(paths: readonly string[], given: string): string | undefined {
  const parts = given.split('/');
  for (const path of paths) {
    const known = path.split('/').map((part, i) => (part.startsWith(':') ? parts[i] : part));
    const wrong = known.filter((part, i) => part !== parts[i]);
    const [meant = ''] = wrong;
    const isNear = wrong.length === 1 && isOneTypo(meant, parts[known.indexOf(meant)] ?? '');
    if (known.length === parts.length && isNear) return known.join('/');
  }
  return undefined;
}
