import { expect, test } from 'vitest';
import { hostOf } from '../../infra/loopback.ts';

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['localhost', 'localhost'],
  ['0.0.0.0', '127.0.0.1'],
  ['::', '[::1]'],
  ['::1', '[::1]'],
])('a server that listens on %s is reached at %s', (address, host) => {
  expect(hostOf(address)).toBe(host);
});
