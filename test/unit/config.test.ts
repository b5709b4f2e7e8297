import { expect, test } from 'vitest';
import {
  ApiConfig,
  ConfigError,
  IngestConfig,
  readConfig,
  rpcWebSocketUrls,
  ServiceConfig,
} from '../../infra/config.ts';

test('has a default for every variable and treats an empty variable as unset', () => {
  expect(readConfig(ServiceConfig, { NATS_URL: '' })).toEqual(readConfig(ServiceConfig, {}));
  expect(readConfig(ServiceConfig, {}).NATS_URL).toBe('nats://127.0.0.1:4222');
});

test('names every invalid variable and never prints its value', () => {
  const environment = { NATS_URL: 'http://secret@host', HTTP_PORT: '99999', CHAIN: 'secretchain' };
  try {
    readConfig(ServiceConfig, environment);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    const { message } = error as ConfigError;
    expect(message).toMatch(/NATS_URL: .*\n.*CHAIN: .*\n.*HTTP_PORT: /s);
    expect(message).not.toContain('secret');
  }
});

test('derives the WebSocket endpoints from the HTTP ones by default', () => {
  const RPC_URL = 'https://node.example/key,http://127.0.0.1:8545';
  expect(rpcWebSocketUrls(readConfig(IngestConfig, { RPC_URL }))).toEqual([
    'wss://node.example/key',
    'ws://127.0.0.1:8545',
  ]);
  const RPC_WS_URL = 'wss://one.example,ws://two.example';
  expect(rpcWebSocketUrls(readConfig(IngestConfig, { RPC_URL, RPC_WS_URL }))).toEqual(
    RPC_WS_URL.split(','),
  );
  expect(() =>
    readConfig(IngestConfig, { RPC_WS_URL: 'wss://one.example,https://two.example' }),
  ).toThrow('RPC_WS_URL: must be ws:// or wss:// URLs');
});

test('reads only the variables of its process', () => {
  const environment = { HTTP_PORT: '99999', RPC_URL: 'http://127.0.0.1:1' };
  expect(readConfig(IngestConfig, environment).RPC_URL).toBe('http://127.0.0.1:1');
  expect(() => readConfig(ApiConfig, environment)).toThrow('HTTP_PORT');
});
