/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP, without sessions. Each request gets its own
 * server and a JSON response. Tools call this API with the caller's key, so a tool call counts as a request
 * in addition to the one to `/mcp`. The library is loaded by the first request.
 */
import type { RequestHandler } from 'express';
import { callerOf } from '../auth/keys.ts';
import { Fillstream } from '../client/index.ts';
import { Problem } from '../errors.ts';
import { readJson } from '../routes.ts';

/** Accepts `Authorization: Bearer KEY` as `X-Service-Key`, because many MCP clients can send no other header. */
export const bearerAsKey: RequestHandler = (request, _response, next) => {
  const [, key] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
  if (key !== undefined) request.headers['x-service-key'] ??= key;
  next();
};

/** Reads one message. A batch would call many tools for the price of one request, and newer versions of MCP have none. */
export const readMessage: RequestHandler[] = [
  readJson,
  (request, _response, next) => {
    if (Array.isArray(request.body)) {
      const message = 'send one message a request';
      throw new Problem({
        error: 'invalid_request',
        detail: `body: ${message}`,
        issues: [{ path: 'body', message }],
      });
    }
    next();
  },
];

/** Handles one message. The key has already been checked. */
export function mcpHandler(analystUrl: string | undefined): RequestHandler {
  return async (request, response) => {
    const [{ createMcpServer }, { StreamableHTTPServerTransport }] = await Promise.all([
      import('./server.ts'),
      import('@modelcontextprotocol/sdk/server/streamableHttp.js'),
    ]);
    const { localAddress = '127.0.0.1', localPort } = request.socket;
    const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
    const key = request.get('X-Service-Key') ?? '';
    const api = new Fillstream({ url: `http://${host}:${localPort}`, key, retry: false });
    const server = createMcpServer(api, analystUrl, callerOf(response).account);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    response.once('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  };
}
