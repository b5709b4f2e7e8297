import { describe, expect, test } from 'vitest';
import { ConfigError, IngestConfig, readConfig } from '../../infra/config.ts';
import { UsageError } from '../../infra/expected.ts';
import { readCommand } from '../../ingest/cli.ts';
import { chainOf, watchedAddresses } from '../../ingest/events/chains.ts';
import { WATCHED_TOPICS } from '../../ingest/events/decode.ts';
import { ORDER_FILLED } from '../../ingest/events/match.ts';

const V1_EXCHANGE = '0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E';
const V1_NEG_RISK = '0xC5d563A36AE78145C45a50134d48A1215220f80a';
const COMBOS = '0xe3333700cA9d93003F00f0F71f8515005F6c00Aa';
const ONE = `0x${'1'.repeat(40)}`;
const TWO = `0x${'2'.repeat(40)}`;

describe('chainOf', () => {
  test('knows Polygon: three exchanges of version 2, one of version 3, ConditionalTokens, pUSD', () => {
    const chain = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon' }));
    expect(chain).toMatchObject({
      id: 137,
      conditionalTokens: '0x4d97dcd97ec945f40cf65f87097ace5ea0476045',
      collateral: '0xc011a7e12a19f7b1f670d46f03b03f3342e82dfb',
    });
    expect([...chain.exchanges.keys()]).toEqual([
      '0xe111180000d2663c0091e4f400237545b87b996b',
      '0xe2222d279d744050d28e00520010520000310f59',
      '0xe2222d002000ba0053cef3375333610f64600036',
      COMBOS.toLowerCase(),
    ]);
  });

  test.each(['polygon', 'devnet'])('all addresses of %s are of 20 bytes in lower case', (name) => {
    const chain = chainOf(readConfig(IngestConfig, { CHAIN: name }));
    const { shares } = chain;
    const { v2, ...others } = shares ?? {};
    const own = Object.values({ ...others, ...v2 }).flatMap((one) =>
      typeof one === 'string' ? [one] : [...one],
    );
    const collaterals = [...chain.exchanges.values()].filter((ids) => ids !== 'v3');
    const all = [...own, ...watchedAddresses(chain), ...collaterals, chain.collateral];
    expect(own.length).toBeGreaterThan(10);
    expect(all.filter((address) => !/^0x[0-9a-f]{40}$/.test(address))).toEqual([]);
  });

  test('version 1 never matches by address, topic or configuration', () => {
    const watched = watchedAddresses(chainOf(readConfig(IngestConfig, { CHAIN: 'polygon' })));
    for (const address of [V1_EXCHANGE, V1_NEG_RISK]) {
      expect(watched).not.toContain(address.toLowerCase());
      const config = readConfig(IngestConfig, { CHAIN: 'polygon', EXCHANGES: `${address}:${ONE}` });
      expect(() => chainOf(config)).toThrow(/version 1 .*not supported/);
    }
    expect(ORDER_FILLED).toMatch(/^0xd543adfd/);
    // The same event names of version 1.
    expect(WATCHED_TOPICS.some((topic) => /^0x(d0a08e8c|63bf4d16)/.test(topic))).toBe(false);
  });

  test('version 3 needs movements, and has no collateral', () => {
    const polygon = (given: Record<string, string>) =>
      chainOf(readConfig(IngestConfig, { CHAIN: 'polygon', ...given }));
    const v3 = `${COMBOS}:v3`;
    expect([...polygon({ EXCHANGES: v3 }).exchanges]).toEqual([[COMBOS.toLowerCase(), 'v3']]);
    expect(() => polygon({ EXCHANGES: v3, MOVEMENTS: 'off' })).toThrow(/needs MOVEMENTS=on/);
    expect(() => polygon({ EXCHANGES: `${COMBOS}:${ONE}` })).toThrow(/write 0x\w+:v3/);
    expect([...polygon({ MOVEMENTS: 'off' }).exchanges.values()]).not.toContain('v3');
    expect(polygon({ EXCHANGES: `${ONE}:${TWO}` }).shares?.v2).toBeUndefined();
    expect(polygon({}).shares?.v2?.modules.size).toBe(3);
  });

  test('a new exchange can be configured', () => {
    const config = readConfig(IngestConfig, {
      CHAIN: 'polygon',
      EXCHANGES: `${ONE}:${TWO},${TWO}:${ONE}`,
    });
    expect([...chainOf(config).exchanges]).toEqual([
      [ONE, TWO],
      [TWO, ONE],
    ]);
    expect(() => readConfig(IngestConfig, { EXCHANGES: ONE })).toThrow(ConfigError);
  });

  test('Amoy needs its addresses and says which are missing', () => {
    const given = { CHAIN: 'amoy', EXCHANGES: `${ONE}:${TWO}`, COLLATERAL: TWO };
    expect(() => chainOf(readConfig(IngestConfig, given))).toThrow(/CONDITIONAL_TOKENS missing/);
    const chain = chainOf(readConfig(IngestConfig, { ...given, CONDITIONAL_TOKENS: ONE }));
    expect(chain).toMatchObject({ id: 80_002, conditionalTokens: ONE, collateral: TWO });
  });

  test('accepts several comma-separated endpoints, only http', () => {
    const urls = 'http://127.0.0.1:1,https://node.example/key';
    expect(readConfig(IngestConfig, { RPC_URL: urls }).RPC_URL).toBe(urls);
    expect(() => readConfig(IngestConfig, { RPC_URL: `${urls},ftp://node` })).toThrow(/RPC_URL/);
  });
});

describe('readCommand', () => {
  test('reads each command', () => {
    expect(readCommand([])).toEqual({ name: 'follow' });
    expect(readCommand(['--help'])).toEqual({ name: 'help' });
    expect(readCommand(['backfill', '--from-block', '5', '--to-block', '9'])).toMatchObject({
      fromBlock: 5,
      toBlock: 9,
    });
  });

  test('names the invalid argument', () => {
    const wrong = (...args: string[]) => {
      try {
        return readCommand(args);
      } catch (error) {
        expect(error).toBeInstanceOf(UsageError);
        return (error as Error).message;
      }
    };
    expect(wrong('backfill')).toMatch('--from-block: is required');
    expect(wrong('backfill', '--from-block', '-1')).toMatch('--from-block');
    expect(wrong('backfill', '--from-block', '9', '--to-block', '5')).toMatch('not be before');
    expect(wrong('--yes')).toMatch('--yes');
    expect(wrong('refill')).toMatch('unknown command: refill');
  });
});
