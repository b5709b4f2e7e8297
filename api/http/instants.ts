/** Times as parameters and the command line take them. */

const ISO_TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/** The milliseconds of a time in ISO 8601, UTC if it names no zone, or of seconds since 1970; undefined for other text. */
export function instantMs(text: string): number | undefined {
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1_000;
  const parts = ISO_TIME.exec(text);
  if (parts === null) return undefined;
  const [, day, time = '00:00', zone = 'Z'] = parts;
  const ms = Date.parse(`${day}T${time}${zone}`);
  if (Number.isNaN(ms)) return undefined;
  // Date.parse takes 30 February for 2 March.
  return new Date(`${day}T00:00Z`).toISOString().startsWith(`${day}T`) ? ms : undefined;
}
