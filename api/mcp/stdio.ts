/**
 * The Model Context Protocol server of this computer, over stdin and stdout: it asks the API at
 * FILLSTREAM_URL with FILLSTREAM_KEY. It ends with its input.
 */
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { Fillstream } from '../client/index.ts';
import { createMcpServer } from './server.ts';

const Environment = z.object({
  FILLSTREAM_URL: z.url({ protocol: /^https?$/ }).default('http://127.0.0.1:8080'),
  FILLSTREAM_KEY: z.string().min(1),
  ANALYST_URL: z.url({ protocol: /^https?$/ }).optional(),
});

const given = Environment.safeParse(process.env);
if (given.success) {
  const { FILLSTREAM_URL: url, FILLSTREAM_KEY: key, ANALYST_URL } = given.data;
  const server = createMcpServer(new Fillstream({ url, key }), ANALYST_URL);
  await server.connect(new StdioServerTransport());
} else {
  // The names only: a value may be a key.
  const names = given.error.issues.map((issue) => issue.path.join('.'));
  process.stderr.write(`missing or not valid: ${names.join(', ')} (see docs/mcp.md)\n`);
  process.exitCode = 2;
}
