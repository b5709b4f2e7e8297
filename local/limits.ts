/** Limits that a shell has set for its programs (`ulimit`), and that the service cannot raise. */

/** The embedded ClickHouse of a demo had 220 files open; a larger one has more, and each client of the api needs one. */
const OPEN_FILES_MIN = 1_024;

type Limit = { readonly hard: number | 'unlimited'; readonly soft: number | 'unlimited' };

function limitOf(name: 'open_files' | 'virtual_memory_bytes'): number {
  const report = process.report.getReport() as { userLimits?: Readonly<Record<string, Limit>> };
  // Node raises its own limit of files to the hard one when it starts.
  const { soft = 'unlimited' } = report.userLimits?.[name] ?? {};
  return soft === 'unlimited' ? Number.POSITIVE_INFINITY : soft;
}

/**
 * The message if too few files may be open; undefined if enough. Without this check, the service would start and then
 * fail.
 */
export function openFilesFault(): string | undefined {
  const limit = limitOf('open_files');
  if (limit >= OPEN_FILES_MIN) return undefined;
  return `only ${limit} files may be open at a time, and ${OPEN_FILES_MIN} are needed: raise the limit (ulimit -n)`;
}

/** Bytes of virtual memory that a process may have (`ulimit -v`); undefined if there is no limit. */
export function virtualMemoryMax(): number | undefined {
  const limit = limitOf('virtual_memory_bytes');
  return Number.isFinite(limit) ? limit : undefined;
}
