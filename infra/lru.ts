/**
 * Options of an LRUCache that holds up to this many entries and allocates memory as it fills. With `max`, an LRUCache
 * allocates its lists for all entries at once, which cost ingest about 40 MB.
 */
export function upTo(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
