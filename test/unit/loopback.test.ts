import { expect, test } from 'vitest';
import { foreignRequest, hostOf } from '../../infra/loopback.ts';

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['localhost', 'localhost'],
  ['0.0.0.0', '127.0.0.1'],
  ['::', '[::1]'],
  ['::1', '[::1]'],
])('a server that listens on %s is reached at %s', (address, host) => {
  expect(hostOf(address)).toBe(host);
});

test.each([
  ['a program', { host: '127.0.0.1:8545' }, true],
  ['its own page', { host: 'localhost:8545', origin: 'http://localhost:8545' }, true],
  ['an address bar', { host: '127.0.0.1:8545', 'sec-fetch-site': 'none' }, true],
  ['a page on another port', { host: '127.0.0.1:8545', origin: 'http://127.0.0.1:3000' }, false],
  ['a page of another site', { host: '127.0.0.1:8545', origin: 'https://evil.example' }, false],
  ['a page without an origin', { host: '127.0.0.1:8545', origin: 'null' }, false],
  ['a rebound name', { host: 'evil.example:8545' }, false],
])('a request of %s', (_, headers, isAllowed) => {
  expect(foreignRequest(headers) === undefined).toBe(isAllowed);
});
