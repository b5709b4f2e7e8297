import { expect, test } from 'vitest';
import { ConfigError, readConfig, rpcWebSocketUrls } from '../../infra/config.ts';

test('has a default for every variable, and an empty variable is an unset one', () => {
  expect(readConfig({ NATS_URL: '' })).toEqual(readConfig({}));
  expect(readConfig({}).NATS_URL).toBe('nats://127.0.0.1:4222');
});

test('names every bad variable and never prints its value', () => {
  const environment = { NATS_URL: 'http://secret@host', HTTP_PORT: '99999', CHAIN: 'secretchain' };
  try {
    readConfig(environment);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    const { message } = error as ConfigError;
    expect(message).toMatch(/NATS_URL: .*\n.*CHAIN: .*\n.*HTTP_PORT: /s);
    expect(message).not.toContain('secret');
  }
});

test('derives the WebSocket endpoints from the HTTP ones, where none are given', () => {
  const RPC_URL = 'https://node.example/key,http://127.0.0.1:8545';
  expect(rpcWebSocketUrls(readConfig({ RPC_URL }))).toEqual([
    'wss://node.example/key',
    'ws://127.0.0.1:8545',
  ]);
  const RPC_WS_URL = 'wss://one.example,ws://two.example';
  expect(rpcWebSocketUrls(readConfig({ RPC_URL, RPC_WS_URL }))).toEqual(RPC_WS_URL.split(','));
  expect(() => readConfig({ RPC_WS_URL: 'wss://one.example,https://two.example' })).toThrow(
    'RPC_WS_URL: must be ws:// or wss:// URLs',
  );
});
