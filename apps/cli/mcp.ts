/**
 * `fillstream mcp`: the Model Context Protocol for hosts that start a program. Each line of stdin is a message, which is
 * forwarded to `POST /mcp` of the api. The response becomes a line of stdout.
 */
import { createInterface } from 'node:readline';
import { ExpectedError, UsageError } from '../../infra/expected.ts';
import { command } from './command.ts';

/** JSON-RPC error codes. */
const PARSE_ERROR = -32_700;
const SERVER_ERROR = -32_000;

export const mcp = command({
  summary: 'tools for language models, over standard input and output',
  usage: '',
  takes: [0, 0],
  options: {},
  more: `For hosts that start a program, such as Claude Desktop. Hosts that support HTTP can use /mcp of the API directly.
Exits at the end of its input.`,
  examples: ['mcp'],
  async run({ access, signal, write, note }) {
    const { url, key } = access();
    // The api requires a key for /mcp. Report a missing one at startup instead of with every
    // message.
    if (key === '') throw new UsageError('no API key: set FILLSTREAM_KEY or use --key-file FILE');
    const answering = new Set<Promise<void>>();
    for await (const line of createInterface({ input: process.stdin, signal })) {
      if (line.trim() === '') continue;
      const answer = answerTo(line).then(async (text) => {
        if (text !== '') await write(`${text}\n`);
      });
      answering.add(answer);
      void answer.finally(() => answering.delete(answer));
    }
    await Promise.all(answering);

    /** One line of JSON, or '' for a notification. */
    async function answerTo(line: string): Promise<string> {
      const message = objectOf(line);
      if (message === undefined) return errorOf(null, PARSE_ERROR, 'not a message of JSON-RPC');
      try {
        const response = await fetch(`${url.replace(/\/+$/, '')}/mcp`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
          },
          body: line,
          signal,
        });
        const text = (await response.text()).trim();
        if (response.ok) return text;
        throw new ExpectedError(
          String(objectOf(text)?.detail ?? `${url} responded with ${response.status}`),
        );
      } catch (error) {
        const reason = error instanceof ExpectedError ? error.message : `cannot reach ${url}`;
        note(reason);
        return message.id === undefined ? '' : errorOf(message.id, SERVER_ERROR, reason);
      }
    }
  },
});

function errorOf(id: unknown, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } });
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
