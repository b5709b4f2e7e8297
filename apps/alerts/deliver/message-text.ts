/** The text of an event in the markup of each messenger. */
import type { AlertEvent } from '../event.ts';

type Wrap = (text: string) => string;

type Markup = {
  readonly charactersMax: number;
  /** Escapes one character, so a text can be cut between two of them. */
  readonly escaped: (character: string) => string;
  readonly bold: Wrap;
  readonly italic: Wrap;
  readonly struck: Wrap;
};

const HTML_ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
const escapeHtml = (character: string) => HTML_ENTITIES[character] ?? character;

/** Formatting, lists, quotes, mentions, emojis and links. */
const DISCORD_SPECIAL = /[\\*_~`|<>#[\]@:+-]/;

export const MARKUPS = {
  telegram: {
    charactersMax: 4_096,
    escaped: escapeHtml,
    bold: (text) => `<b>${text}</b>`,
    italic: (text) => `<i>${text}</i>`,
    struck: (text) => `<s>${text}</s>`,
  },
  discord: {
    charactersMax: 2_000,
    escaped: (character) => (DISCORD_SPECIAL.test(character) ? `\\${character}` : character),
    bold: (text) => `**${text}**`,
    italic: (text) => `*${text}*`,
    struck: (text) => `~~${text}~~`,
  },
  slack: {
    charactersMax: 3_000,
    escaped: escapeHtml,
    bold: (text) => `*${text}*`,
    italic: (text) => `_${text}_`,
    struck: (text) => `~${text}~`,
  },
} as const satisfies Readonly<Record<string, Markup>>;

const NAME_CHARACTERS_MAX = 400;
/** Marks and line breaks around name and text. */
const MARKS_CHARACTERS_MAX = 100;

/** At most `charactersMax` characters, markup included. */
export function messageText(event: AlertEvent, markup: Markup): string {
  const { state } = event;
  const name = markup.bold(bounded(event.alert.name, markup, NAME_CHARACTERS_MAX));
  const room = markup.charactersMax - NAME_CHARACTERS_MAX - MARKS_CHARACTERS_MAX;
  const text = bounded(event.text, markup, room);
  if (state === 'retracted') return `${name}\n${markup.struck(text)}\nThis did not happen.`;
  return `${state === 'final' ? name : `${name} ${markup.italic(state)}`}\n${text}`;
}

const ELLIPSIS = '…';

/** One line, escaped. Cuts between characters, never within an escape sequence. */
export function bounded(
  text: string,
  { escaped }: Pick<Markup, 'escaped'>,
  charactersMax: number,
): string {
  let result = '';
  for (const character of text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()) {
    const next = escaped(character);
    if (result.length + next.length > charactersMax - ELLIPSIS.length) return result + ELLIPSIS;
    result += next;
  }
  return result;
}
