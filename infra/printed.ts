/**
 * Prints untrusted text on a terminal. Anybody can choose names, questions and labels, and they may contain escape
 * sequences.
 */
import { stripVTControlCharacters } from 'node:util';

/** One line without characters that control a terminal. */
export function clean(text: string): string {
  return stripVTControlCharacters(text).replace(/\s+/g, ' ').replace(/\p{C}/gu, '').trim();
}

/** JSON of the same value, with escapes for the control characters that JSON permits. */
export function cleanJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(
    /[\x7f-\x9f\p{Bidi_Control}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
