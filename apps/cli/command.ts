/** The definition of a command, and the parsing and help that all commands share. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ParseArgsConfig } from 'node:util';
import { instantMs } from '../../api/http/instants.ts';
import { readArguments } from '../../infra/arguments.ts';
import { UsageError } from '../../infra/expected.ts';
import { isLoopback } from '../../infra/loopback.ts';
import { Fillstream } from '../client/index.ts';
import type { Screen } from './format.ts';

/** One `--name`. Without `value` it is a switch. */
export type Option = {
  readonly text: string;
  /** Placeholder of the value in the help. */
  readonly value?: string;
  readonly choices?: readonly string[];
  readonly isNumber?: true;
  /** May be repeated or have comma-separated values. */
  readonly isList?: true;
};

/** An option for a parameter of the API with a few choices. */
export function choiceOf<Choice extends string>(
  value: string,
  parameter: { readonly enum: readonly Choice[]; readonly default: Choice },
  text = '',
) {
  const preset = `default: ${parameter.default}`;
  return { value, choices: parameter.enum, text: text === '' ? preset : `${text} (${preset})` };
}

/** The help of the argument TRADER. */
export const TRADER = 'TRADER is an address, or the exact name or @account of a trader.';

type Options = Readonly<Record<string, Option>>;

type Value<One extends Option> = One extends { readonly isList: true }
  ? string[] | undefined
  : One extends { readonly choices: readonly (infer Choice)[] }
    ? Choice | undefined
    : One extends { readonly isNumber: true }
      ? number | undefined
      : One extends { readonly value: string }
        ? string | undefined
        : boolean;

type Flags<Own extends Options> = { readonly [Name in keyof Own]: Value<Own[Name]> };

/** The environment of a command. */
export type Context = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly screen: Screen;
  /** Writes to standard output. Resolves when the text has been accepted. */
  readonly write: (text: string | Uint8Array) => Promise<void>;
  /** Writes a line for the user to standard error. */
  readonly note: (text: string) => void;
};

export type Call<Own extends Options = Options> = Context & {
  readonly args: readonly string[];
  readonly flags: Flags<Own>;
  /** Throws UsageError for an invalid URL or key. */
  readonly client: () => Fillstream;
  /** URL and key ('' without one), for a command that sends requests itself. Throws UsageError if one is invalid. */
  readonly access: () => { readonly url: string; readonly key: string };
};

export type Command = {
  readonly summary: string;
  /** The arguments after the name: `ADDRESS`, `[list | create]`. */
  readonly usage: string;
  /** Minimum and maximum number of arguments. */
  readonly takes: readonly [least: number, most: number];
  readonly options: Options;
  /** Additional text of the help. */
  readonly more?: string;
  /** Without the leading `fillstream`. */
  readonly examples: readonly string[];
  readonly run: (call: Call) => Promise<void>;
};

/** Infers the type of the flags that `run` gets from the options. */
export function command<const Own extends Options>(
  definition: Omit<Command, 'options' | 'run'> & {
    readonly options: Own;
    readonly run: (call: Call<Own>) => Promise<void>;
  },
): Command {
  return definition as unknown as Command;
}

/** The milliseconds of a time as the API takes it. Throws UsageError. */
export function timeOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = instantMs(text);
  if (ms === undefined) {
    throw new UsageError(`${name} must be a time such as 2026-01-31T12:00:00Z: ${text}`);
  }
  return ms;
}

const URL_DEFAULT = 'http://127.0.0.1:8080';

const COMMON = {
  url: { value: 'URL', text: `URL of the API (default: FILLSTREAM_URL or ${URL_DEFAULT})` },
  'key-file': {
    value: 'FILE',
    text: 'file with the API key (default: FILLSTREAM_KEY, or the key of npm start in this directory)',
  },
  help: { text: 'print this text' },
} as const satisfies Options;

/** The URL of a service. Throws UsageError, without the text, which may hold a password. */
export function httpUrl(name: string, text: string): URL {
  const isHttp = /^https?:\/\//i.test(text);
  if (isHttp && URL.canParse(text)) return new URL(text);
  throw new UsageError(
    `${name} ${isHttp ? 'is not a URL' : 'must begin with http:// or https://'}`,
  );
}

/** Parses the arguments of a command and runs it. Throws UsageError and the errors of the command. */
export async function run(one: Command, argv: readonly string[], context: Context): Promise<void> {
  const { args, flags } = parseCommand(one, argv);
  const common = flags as unknown as Flags<typeof COMMON>;
  const access = () => accessOf(common, context.env);
  const client = () => new Fillstream({ ...access(), signal: context.signal });
  await one.run({ ...context, args, flags, client, access });
}

/** Whether `--help` is among the arguments. */
export function wantsHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((arg) => arg === '--help' || arg === '-h');
}

/** Parses arguments and options as the command declares them. Throws UsageError. */
export function parseCommand(one: Command, argv: readonly string[]) {
  const options = { ...one.options, ...COMMON } as Options;
  const kinds = Object.entries(options).map(([name, { value, isList = false }]) => [
    name,
    { type: value === undefined ? 'boolean' : 'string', multiple: isList } as const,
  ]);
  const { values, positionals } = parsed(argv, Object.fromEntries(kinds));
  const [least, most] = one.takes;
  if (positionals.length < least) throw new UsageError(`missing argument: ${one.usage}`);
  if (positionals.length > most) {
    throw new UsageError(`unexpected argument: ${positionals.slice(most).join(' ')}`);
  }
  const flags = Object.entries(options).map(([name, option]) => [
    name,
    flagOf(`--${name}`, option, values[name]),
  ]);
  return { args: positionals, flags: Object.fromEntries(flags) as Flags<Options> };
}

function parsed(argv: readonly string[], options: NonNullable<ParseArgsConfig['options']>) {
  try {
    return readArguments({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    // The rest of the message explains arguments that begin with a dash.
    const [message = ''] = (error as Error).message.split(/\. |\n/);
    throw new UsageError(message);
  }
}

function flagOf(name: string, option: Option, raw: unknown) {
  if (option.value === undefined) return raw === true;
  if (raw === undefined) return undefined;
  if (option.isList) return (raw as string[]).flatMap((text) => text.split(','));
  if (option.choices?.includes(raw as string) === false) {
    throw new UsageError(`${name} must be ${option.choices.join(', ')}: ${raw}`);
  }
  if (!option.isNumber) return raw;
  const number = raw === '' ? Number.NaN : Number(raw);
  if (!Number.isFinite(number)) throw new UsageError(`${name} must be a number: ${raw}`);
  return number;
}

function accessOf(flags: Flags<typeof COMMON>, env: Context['env']) {
  const url = flags.url ?? env.FILLSTREAM_URL ?? URL_DEFAULT;
  const { username, password, search, hash, hostname } = httpUrl('--url or FILLSTREAM_URL', url);
  if (username !== '' || password !== '') {
    throw new UsageError('the URL has a user or password: the API needs only a key');
  }
  if (search !== '' || hash !== '') throw new UsageError(`the URL must end with its path: ${url}`);
  const file = flags['key-file'];
  const given = file === undefined ? env.FILLSTREAM_KEY : readFileSync(file, 'utf8');
  // The key of a local service is for this machine only.
  const key = given?.trim() || (isLoopback(hostname) ? startedKey(env) : '');
  if (!/^[!-~]*$/.test(key)) throw new UsageError('the API key contains invalid characters');
  return { url, key };
}

/** The key of the tier pro of `npm start`, from its data directory (local/data-directory.ts), or ''. */
function startedKey(env: Context['env']): string {
  try {
    const text = readFileSync(join(env.DATA_DIRECTORY || '.data', 'keys.json'), 'utf8');
    const { pro } = JSON.parse(text) as { readonly pro?: unknown };
    return typeof pro === 'string' ? pro : '';
  } catch {
    // There is none, or it is another user's. The server then says that a key is missing.
    return '';
  }
}

/** The help of one command. */
export function helpOf(name: string, one: Command): string {
  const options = { ...one.options, ...COMMON } as Options;
  const rows = Object.entries(options).map(([option, { value, text, choices, isList }]) => {
    const also = [text, choices?.join(', '), isList === true ? 'may be repeated' : undefined];
    const explained = also.filter((part) => part !== undefined).join('; ');
    return [`--${option}${value === undefined ? '' : ` ${value}`}`, explained] as const;
  });
  const width = Math.max(...rows.map(([left]) => left.length));
  return [
    `fillstream ${name}: ${one.summary}`,
    `  fillstream ${`${name} ${one.usage}`.trim()} [options]`,
    rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n'),
    ...(one.more === undefined ? [] : [one.more]),
    `Examples:\n${one.examples.map((example) => `  fillstream ${example}`).join('\n')}`,
  ]
    .join('\n\n')
    .concat('\n');
}
