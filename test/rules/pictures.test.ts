/** Pictures of other hosts that the api proxies for the page. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { problemHandler } from '../../api/http/errors.ts';
import { PICTURE_PATH, pictureHandler } from '../../apps/reference/pictures.ts';
import { until } from '../support/service.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
const MEGABYTE = 1024 * 1024;
const requests: string[] = [];
let host: Server;
let api: Server;
/** Responses that the host holds back. */
const held: (() => void)[] = [];

async function listening(handler: RequestListener): Promise<Server> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function originOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const BODIES: Readonly<Record<string, Buffer>> = {
  '/whale.png': PNG,
  '/logo.svg': Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
  '/page.png': Buffer.from('<script>alert(1)</script>'),
  '/large.png': Buffer.concat([PNG, Buffer.alloc(3 * MEGABYTE)]),
  '/empty.png': Buffer.alloc(0),
};

beforeAll(async () => {
  host = await listening((request, response) => {
    const path = request.url ?? '';
    requests.push(path);
    const body = BODIES[path];
    if (path === '/moved.png') response.writeHead(302, { location: '/whale.png' }).end();
    else if (path === '/reset.png') request.socket.destroy();
    else if (path.startsWith('/slow')) held.push(() => response.writeHead(404).end());
    else if (body === undefined) response.writeHead(404).end();
    else response.setHeader('Content-Type', 'text/html').end(body);
  });
  const app = express();
  app.set('trust proxy', true);
  app.get(PICTURE_PATH, pictureHandler([originOf(host)]));
  app.use(problemHandler(pino({ enabled: false })));
  api = await listening(app);
});

afterAll(() => {
  for (const server of [api, host]) {
    server?.closeAllConnections();
    server?.close();
  }
});

function picture(url: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${originOf(api)}${PICTURE_PATH}?url=${encodeURIComponent(url)}`, { headers });
}

test('a picture is fetched once for all requests, concurrent or later', async () => {
  const url = `${originOf(host)}/whale.png`;
  const all = await Promise.all([picture(url), picture(url), picture(url)]);
  for (const response of [...all, await picture(url)]) {
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('image/png');
    expect(response.headers.get('cache-control')).toBe('public, max-age=86400');
    expect(Buffer.from(await response.arrayBuffer())).toEqual(PNG);
  }
  expect(requests.filter((path) => path === '/whale.png')).toHaveLength(1);
  const headers = { 'If-None-Match': all[0]?.headers.get('etag') ?? '' };
  expect((await picture(url, { ...headers, 'Cache-Control': 'max-age=0' })).status).toBe(304);
});

test.each([
  ['an SVG, which can hold scripts', '/logo.svg'],
  ['a page that is named like a picture', '/page.png'],
  ['what is too large', '/large.png'],
  ['nothing', '/empty.png'],
  ['what is elsewhere', '/moved.png'],
  ['what is not there', '/none.png'],
  ['a connection that breaks', '/reset.png'],
])('%s is no picture, and is not requested again at once', async (_, path) => {
  for (let n = 0; n < 2; n += 1) {
    const response = await picture(originOf(host) + path);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: 'not_found' });
  }
  expect(requests.filter((one) => one === path)).toHaveLength(1);
});

test.each([
  'http://169.254.169.254/latest/meta-data',
  'file:///etc/passwd',
  '//127.0.0.1/whale.png',
  'whale.png',
  '',
])('nothing is fetched from elsewhere: %s', async (url) => {
  expect((await picture(url)).status).toBe(404);
});

test('nothing is fetched from a host that only looks like the origin', async () => {
  const origin = originOf(host);
  for (const url of [
    `${origin}@evil.example/`,
    `${origin}.evil.example/`,
    `https${origin.slice(4)}/`,
  ]) {
    expect((await picture(url)).status).toBe(404);
  }
  const twice = `${originOf(api)}${PICTURE_PATH}?url=${origin}/whale.png&url=${origin}/whale.png`;
  expect((await fetch(twice)).status).toBe(404);
});

test('one address cannot use all slots', async () => {
  const of = { 'X-Forwarded-For': '192.0.2.1' };
  const slow = Array.from({ length: 20 }, (_, n) => picture(`${originOf(host)}/slow-${n}.png`, of));
  await until(async () => held.length === 4 || undefined);
  expect((await picture(`${originOf(host)}/whale.png?other`)).status).toBe(404);
  expect(held).toHaveLength(4);
  const done = Promise.all(slow);
  await until(async () => {
    for (const answer of held.splice(0)) answer();
    return requests.filter((path) => path.startsWith('/slow')).length === 20 || undefined;
  });
  for (const answer of held.splice(0)) answer();
  expect((await done).map(({ status }) => status)).toEqual(Array(20).fill(404));
});

test('a fragment after # does not make another picture', async () => {
  const url = `${originOf(host)}/whale.png`;
  for (const hash of ['first', 'second']) {
    expect((await picture(`${url}#${hash}`)).status).toBe(200);
  }
  expect(requests.filter((path) => path === '/whale.png')).toHaveLength(1);
});
