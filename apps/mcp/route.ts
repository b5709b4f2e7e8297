/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP, without sessions. Each request gets its own
 * server and a JSON response. Tools call this API with the caller's key, so a tool call counts as a request
 * in addition to the one to `/mcp`. The library is loaded by the first request.
 */
import type { RequestHandler } from 'express';
import { callerOf } from '../../api/http/caller.ts';
import { Problem } from '../../api/http/errors.ts';
import type { Mount } from '../../api/http/mount.ts';
import { readJson } from '../../api/http/routes.ts';
import { Fillstream } from '../client/index.ts';

/** Accepts `Authorization: Bearer KEY` as `X-Service-Key`, because many MCP clients can send no other header. */
const bearerAsKey: RequestHandler = (request, _response, next) => {
  const [, key] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
  if (key !== undefined) request.headers['x-service-key'] ??= key;
  next();
};

/** Reads one message. A batch would call many tools for the price of one request, and newer versions of MCP have none. */
const readMessage: RequestHandler[] = [
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

export function mcpMount(analystUrl: string | undefined): Mount {
  return {
    first: { '/mcp': bearerAsKey },
    post: { '/mcp': [...readMessage, mcpHandler(analystUrl)] },
  };
}

/** Handles one message. The key has already been checked. */
function mcpHandler(analystUrl: string | undefined): RequestHandler {
  return async (request, response) => {
    const [{ createMcpServer }, { WebStandardStreamableHTTPServerTransport }] = await Promise.all([
      import('./server.ts'),
      import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'),
    ]);
    const { localAddress = '127.0.0.1', localPort } = request.socket;
    const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
    const url = `http://${host}:${localPort}`;
    const api = new Fillstream({ url, key: request.get('X-Service-Key') ?? '', retry: false });
    const server = createMcpServer(api, analystUrl, callerOf(response).account);
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    response.once('close', () => void server.close());
    await server.connect(transport);
    const headers = new Headers({
      'Content-Type': request.get('Content-Type') ?? '',
      // The transport rejects requests that do not accept both, although it always sends JSON.
      Accept: 'application/json, text/event-stream',
    });
    const version = request.get('MCP-Protocol-Version');
    if (version !== undefined) headers.set('MCP-Protocol-Version', version);
    const sent = new Request(`${url}/mcp`, { method: 'POST', headers });
    const answer = await transport.handleRequest(sent, { parsedBody: request.body });
    response
      .status(answer.status)
      .setHeaders(answer.headers)
      .end(await answer.text());
  };
}
