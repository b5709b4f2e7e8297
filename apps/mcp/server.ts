/**
 * A Model Context Protocol server: the API's endpoints as read-only tools for language models. It calls the
 * API with a key, so tiers, rate limits and errors are those of the API. An error becomes a tool error with a
 * sentence that a model can act on.
 */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import type { Described } from '../../api/http/endpoint.ts';
import manifest from '../cli/package.json' with { type: 'json' };
import { ApiError, type Fillstream, FillstreamError, traderAddress } from '../client/index.ts';
import { parseInput } from './input.ts';
import { queryTool } from './query.ts';
import { type Api, type Tool, ToolError } from './tool.ts';
import { TOOLS } from './tools.ts';
import { inWholeUnits, microMembers } from './units.ts';

const INSTRUCTIONS = `Analytics of a prediction-market exchange, from final blocks.
All amounts, in arguments and results, are decimal numbers of whole units: 12.5 is 12.50 USDC, or 12.5 shares. Prices are USDC a share, from
0 to 1: 0.62 is 62 cents, a chance of 62 %. ROI, win rates and shares of a total are percent. Times are UTC.
A trader is an address, or an exact name or @account. A market is an id, a condition id or a slug: call \`search\` to find them by words.
Lists are short unless \`limit\` is higher. They continue with \`cursor\`, the \`next_cursor\` of the previous page.`;

/** One server per connection. Without `analystUrl` there is no tool `query`. */
export function createMcpServer(
  fillstream: Fillstream,
  analystUrl: string | undefined,
  account: string,
): Server {
  const tools = analystUrl === undefined ? TOOLS : [...TOOLS, queryTool(analystUrl, account)];
  const server = new Server(
    { name: 'fillstream', title: 'Fillstream', version: manifest.version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.map(listed) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
    try {
      const { input, run } = toolNamed(params.name, tools);
      const given = parseInput(input, params.arguments) as never;
      const structuredContent = { ...(await run(given, apiOf(fillstream, signal))) };
      return { structuredContent, content: textOf(JSON.stringify(structuredContent)) };
    } catch (error) {
      if (error instanceof ToolError) return { isError: true, content: textOf(error.message) };
      if (!(error instanceof FillstreamError)) throw error;
      return { isError: true, content: textOf(sentenceOf(error)) };
    }
  });
  return server;
}

/** A tool as `tools/list` shows it. Results are JSON that explains itself, and schemas of them would be nine tenths of the list. */
function listed({ name, title, description, input }: Tool) {
  // MCP expects the draft 2020-12, so its name can be left out.
  const { $schema, ...schema } = z.toJSONSchema(input, { io: 'input' });
  return {
    ...{ name, title, description },
    inputSchema: { ...schema, type: 'object' as const },
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function toolNamed(name: string, tools: readonly Tool[]): Tool {
  const found = tools.find((one) => one.name === name);
  if (found !== undefined) return found;
  const known = tools.map((one) => one.name).join(', ');
  throw new ToolError(`there is no tool ${name}; the tools are ${known}`);
}

function apiOf(fillstream: Fillstream, signal: AbortSignal): Api {
  return {
    signal,
    addressOf: (trader) => traderAddress(fillstream, trader, { signal }),
    async call(endpoint, given = {}) {
      const { method = 'get', path } = endpoint;
      const rest = { ...given };
      const filled = path.replaceAll(/:(\w+)/g, (_, name) => {
        const { [name]: value } = rest;
        delete rest[name];
        return encodeURIComponent(String(value));
      });
      const sent = method === 'get' ? { query: rest } : { body: rest };
      const verb = method === 'get' ? 'GET' : 'POST';
      const answer = await fillstream.request<object>(verb, filled, sent, { signal });
      return inWholeUnits(answer, membersOf(endpoint)) as Record<string, unknown>;
    },
  };
}

const micro = new Map<string, ReadonlySet<string>>();

function membersOf({ path, answer }: Described): ReadonlySet<string> {
  const names = micro.get(path) ?? microMembers(answer);
  micro.set(path, names);
  return names;
}

function textOf(text: string) {
  return [{ type: 'text' as const, text }];
}

/** Parameters of the API whose argument has another name. */
const ARGUMENTS: Readonly<Record<string, string>> = { address: 'trader', id: 'market' };

/** The error in one sentence, with what the model can do about it. */
function sentenceOf(error: FillstreamError): string {
  const issues = error instanceof ApiError ? error.issues : [];
  const wrong = issues.map(({ path, message }) => `${ARGUMENTS[path] ?? path}: ${message}`);
  const what = wrong.join('; ') || error.message;
  if (error.status === 404) return `${what}; the tool \`search\` finds markets and traders`;
  if (error.retryAfterSeconds > 0)
    return `${what}; try again in ${error.retryAfterSeconds} seconds`;
  return error.status === 0 || error.status >= 500 ? 'the service failed; try again later' : what;
}
