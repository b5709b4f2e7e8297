/**
 * Options of an LRUCache of up to that many entries whose memory grows with them. With `max` it reserves 28
 * bytes for every entry at once, which were 40 MB of ingest.
 */
export function upTo(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
