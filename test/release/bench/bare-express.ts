/**
 * The baseline of the api's benchmarks: an express application whose only route sends bytes from
 * memory, those of the given file. Prints a JSON line when it listens.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';

const body = readFileSync(process.argv[2] ?? '');
const app = express().disable('etag').disable('x-powered-by');
app.get('/', (_request, response) => {
  response.type('json').send(body);
});
const server = createServer(app);
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
process.stdout.write(`${JSON.stringify({ event: 'listening', port })}\n`);
