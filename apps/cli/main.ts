/** The command line of Fillstream: the table of commands, exit codes, and the format of errors. */
import { isExpected, UsageError } from '../../infra/expected.ts';
import { clean } from '../../infra/printed.ts';
import { ApiError, ConnectionError } from '../client/index.ts';
import { type Command, type Context, helpOf, run, wantsHelp } from './command.ts';
import { exportFills } from './export.ts';
import { keys } from './keys.ts';
import { mcp } from './mcp.ts';
import manifest from './package.json' with { type: 'json' };
import { market, positions, search, top, trader } from './read.ts';
import { tail } from './tail.ts';

const COMMANDS: Readonly<Record<string, Command>> = {
  ...{ tail, top, trader, market, positions, search, export: exportFills, keys, mcp },
};

const EXIT = { failed: 1, usage: 2 };
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;
/** How long a command may take to end after a signal. A reader of the pipe that no longer reads would hold it forever. */
const STOP_MS = 1_000;

const HELP = `fillstream: trader analytics and the live order flow of a prediction-market exchange

  fillstream COMMAND [arguments] [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`)
  .join('\n')}
  help       this text, or the help of a command
  --version  the version of this program

FILLSTREAM_KEY is your API key (or use --key-file FILE), FILLSTREAM_URL the URL of the API (or use --url URL).
Without either, it is the key of the service that npm start runs in this directory (DATA_DIRECTORY: its --data).
NO_COLOR turns colours off.

Examples:
  fillstream tail --min-usdc 100
  fillstream top --time-frame 7D --sort roi
  fillstream help tail

Exit codes: 0 success, ${EXIT.failed} failure, ${EXIT.usage} invalid command line, 130 interrupted.
`;

const controller = new AbortController();
let interruptedBy: keyof typeof SIGNALS | undefined;
for (const name of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) {
  process.once(name, () => {
    interruptedBy = name;
    controller.abort();
    setTimeout(() => process.exit(SIGNALS[name]), STOP_MS);
  });
}
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader of the pipe has closed it, like `| head`. An export whose reader ended early is not complete.
  if (error.code === 'EPIPE') process.exit(process.argv[2] === 'export' ? EXIT.failed : 0);
  // Any other error, such as that of a full disk, is that of the write, and reported there.
});
// Notes are optional, so a closed stderr is no error.
process.stderr.on('error', () => undefined);

await main(process.argv.slice(2));

async function main([name = 'help', ...argv]: readonly string[]): Promise<void> {
  try {
    await runNamed(name, argv);
  } catch (error) {
    if (interruptedBy === undefined) return report(error, name);
  }
  if (interruptedBy !== undefined) process.exit(SIGNALS[interruptedBy]);
}

async function runNamed(name: string, argv: readonly string[]): Promise<void> {
  const isHelp = ['help', '--help', '-h'].includes(name);
  if (name === '--version') return write(`${manifest.version}\n`);
  const [asked = ''] = isHelp ? argv : [name];
  const one = Object.hasOwn(COMMANDS, asked) ? COMMANDS[asked] : undefined;
  if (isHelp && asked === '') return write(HELP);
  if (one === undefined)
    return fail(`unknown command: ${asked}`, ['See fillstream help.'], EXIT.usage);
  if (isHelp || wantsHelp(argv)) return write(helpOf(asked, one));
  await run(one, argv, context());
}

function context(): Context {
  const { env, stdout } = process;
  const hasColors = stdout.isTTY && !env.NO_COLOR && env.TERM !== 'dumb';
  return {
    ...{ env, signal: controller.signal, write },
    note: (text) => void process.stderr.write(`fillstream: ${clean(text)}\n`),
    screen: {
      get width() {
        // Some terminals report 0 columns if they do not know their width.
        return stdout.isTTY && stdout.columns > 0 ? stdout.columns : Number.POSITIVE_INFINITY;
      },
      hasColors,
    },
  };
}

async function write(text: string | Uint8Array): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/** Prints expected errors without a stack trace. Any other error is a bug and keeps its trace. */
function report(error: unknown, name: string): void {
  if (error instanceof UsageError) {
    fail(error.message, [`See fillstream help ${name}.`], EXIT.usage);
  } else if (error instanceof ApiError) {
    const { status, code, requestId, retryAfterSeconds, issues } = error;
    const again = retryAfterSeconds > 0 ? `; retry in ${retryAfterSeconds} s` : '';
    const request = requestId === '' ? '' : `, request ${requestId}`;
    const key = status === 401 ? '; set FILLSTREAM_KEY or use --key-file FILE' : '';
    const lines = issues.map(({ path, message }) => `  ${clean(path)}: ${clean(message)}`);
    fail(`${error.message} (${status} ${code}${request})${again}${key}`, lines);
  } else if (error instanceof ConnectionError) {
    fail(`${error.message}; check --url or FILLSTREAM_URL`);
  } else if (isExpected(error)) {
    fail(error.message);
  } else throw error;
}

function fail(message: string, more: readonly string[] = [], code = EXIT.failed): void {
  process.stderr.write(`${[`fillstream: ${clean(message)}`, ...more].join('\n')}\n`);
  process.exitCode = code;
}
