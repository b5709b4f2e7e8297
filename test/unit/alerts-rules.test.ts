/** What the bodies of alert requests may say, and what becomes of it. */
import { describe, expect, test } from 'vitest';
import { AlertChange, NewAlert, Rule, sizesOf } from '../../apps/alerts/rule.ts';
import { address, hash } from './feed-matches.ts';

const MATCH = { type: 'match', tags: ['crypto'] };
const GROUP = { type: 'group', traders: [address(1), address(2)], count: 2, within_seconds: 600 };
const MOVE = { type: 'move', markets: ['2182202'], points: 10, within_seconds: 600 };
const DESTINATION = '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a';

type Schema = { readonly safeParse: typeof Rule.safeParse };

/** The path and message of each issue. */
function issuesOf(schema: Schema | typeof NewAlert | typeof AlertChange, given: unknown) {
  const { error } = schema.safeParse(given);
  return (error?.issues ?? []).map(({ message, path }) => [path.join('.'), message] as const);
}

const many = <T>(count: number, of: (n: number) => T) =>
  Array.from({ length: count }, (_, n) => of(n));

describe('rules', () => {
  test.each<readonly [string, object]>([
    ['one list', MATCH],
    ['one wallet', { type: 'match', traders: [address(1)] }],
    ['one bound', { type: 'match', max_price: 99.99 }],
    [
      'every member',
      {
        ...{ type: 'match', traders: [address(1)], markets: ['2182202', hash(1), 'will-it-rain'] },
        ...{ tags: ['crypto'], series: ['btc-hourly'], min_usdc: 0.5, max_usdc: 1e9 },
        ...{ min_price: 0, max_price: 100 },
      },
    ],
    ['an empty list next to another', { type: 'match', traders: [], tags: ['crypto'] }],
    [
      'the longest lists',
      {
        ...{ type: 'match', traders: many(10_000, address), markets: many(100, String) },
        tags: many(10_000, (n) => `${n}`.padStart(100, 't')),
      },
    ],
    ['the smallest group', { ...GROUP, within_seconds: 1 }],
    [
      'the largest group',
      { ...GROUP, traders: many(100, address), count: 100, within_seconds: 3_600, min_usdc: 1e9 },
    ],
    ['a group in markets and tags', { ...GROUP, markets: ['a'], tags: ['b'] }],
    ['the smallest move', { ...MOVE, points: 0.1 }],
    ['the largest move', { ...MOVE, points: 100, markets: many(100, String) }],
  ])('%s is accepted as it is', (_, given) => {
    expect(Rule.parse(given)).toEqual(given);
  });

  test.each<readonly [string, unknown, string, RegExp]>([
    ['nothing', undefined, '', /object/],
    ['text', 'match', '', /object/],
    ['no type', { tags: ['crypto'] }, 'type', /./],
    ['an unknown type', { ...MATCH, type: 'test' }, 'type', /./],
    ['an unknown member', { ...MATCH, tag: 'x' }, '', /"tag"/],
    ['a member of another rule', { ...MATCH, count: 2 }, '', /"count"/],
    ['a series in a group', { ...GROUP, series: ['a'] }, '', /"series"/],
    ['an empty match rule', { type: 'match' }, '', /must restrict something/],
    ['only empty lists', { type: 'match', traders: [], tags: [] }, '', /must restrict something/],
    ['no list', { type: 'match', traders: address(1) }, 'traders', /list of wallet addresses/],
    ['a number as a wallet', { type: 'match', traders: [1] }, 'traders.0', /string/],
    [
      'a short wallet',
      { type: 'match', traders: [address(1), '0x12'] },
      'traders.1',
      /wallet address/,
    ],
    ['an empty tag', { ...MATCH, tags: ['a', ' '] }, 'tags.1', /must not be empty/],
    ['a long tag', { ...MATCH, tags: ['t'.repeat(101)] }, 'tags.0', /100/],
    ['text as tags', { ...MATCH, tags: 'crypto' }, 'tags', /list of strings/],
    ['an empty series', { ...MATCH, series: [''] }, 'series.0', /must not be empty/],
    ['a number as a market', { ...MOVE, markets: [2182202] }, 'markets.0', /must be a string/],
    [
      'no market',
      { ...MATCH, markets: ['Not a market'] },
      'markets.0',
      /market id, a condition id or a slug/,
    ],
    ['a market id above all', { ...MATCH, markets: ['9'.repeat(30)] }, 'markets.0', /market id/],
    ['text as a bound', { ...MATCH, min_usdc: '5' }, 'min_usdc', /number/],
    ['a negative bound', { ...MATCH, max_usdc: -0.01 }, 'max_usdc', /0/],
    ['too much', { ...MATCH, min_usdc: 1e9 + 1 }, 'min_usdc', /1000000000/],
    ['a price above 100', { ...MATCH, max_price: 100.01 }, 'max_price', /100/],
    ['no number', { ...MATCH, min_price: Number.NaN }, 'min_price', /number/],
    ['null', { ...MATCH, min_price: null }, 'min_price', /number/],
    [
      'a group without wallets',
      { ...GROUP, traders: undefined },
      'traders',
      /list of wallet addresses/,
    ],
    ['a count of one', { ...GROUP, count: 1 }, 'count', /2/],
    ['a count above 100', { ...GROUP, traders: many(200, address), count: 101 }, 'count', /100/],
    ['half a wallet', { ...GROUP, count: 2.5 }, 'count', /int/],
    ['a count above the wallets', { ...GROUP, count: 3 }, 'count', /above the number of traders/],
    [
      ...([
        'a wallet twice',
        { ...GROUP, traders: ['0xA', '0xa'].map((one) => one.padEnd(42, '0')) },
      ] as const),
      ...(['count', /above the number of traders/] as const),
    ],
    ['no time', { ...GROUP, within_seconds: 0 }, 'within_seconds', /1/],
    ['more than an hour', { ...MOVE, within_seconds: 3_601 }, 'within_seconds', /3600/],
    ['a move of no market', { ...MOVE, markets: [] }, 'markets', /must not be empty/],
    ['a move anywhere', { ...MOVE, markets: undefined }, 'markets', /list of strings/],
    ['a move by nothing', { ...MOVE, points: 0.09 }, 'points', /0.1/],
    ['a move by more than there is', { ...MOVE, points: 100.1 }, 'points', /100/],
  ])('%s is refused', (_, given, path, message) => {
    expect(issuesOf(Rule, given)).toEqual([[path, expect.stringMatching(message)]]);
  });

  test('a group of one wallet has too few for any count', () => {
    expect(issuesOf(Rule, { ...GROUP, traders: [address(1)] })).toEqual([
      ['traders', 'must be at least two wallets'],
      ['count', 'must not be above the number of traders'],
    ]);
  });

  test.each<readonly [string, unknown, string]>([
    ['wallets', { type: 'match', traders: many(10_001, address) }, 'traders'],
    ['markets', { ...MATCH, markets: many(101, String) }, 'markets'],
    ['tags', { ...MATCH, tags: many(10_001, String) }, 'tags'],
  ])('too many %s are refused', (_, given, path) => {
    expect(issuesOf(Rule, given).map(([of]) => of)).toEqual([path]);
  });

  test.each<readonly [string, unknown, RegExp]>([
    ['wallets', { type: 'match', traders: many(10_001, address) }, /10000/],
    ['markets', { ...MATCH, markets: many(101, String) }, /100/],
  ])('too many %s get a message that says how many are allowed', (_, given, message) => {
    expect(issuesOf(Rule, given)).toEqual([[expect.anything(), expect.stringMatching(message)]]);
  });

  test.each([
    [{ type: 'match', tags: ['all'] }],
    [{ type: 'match', min_usdc: 0 }],
    [{ type: 'match', min_usdc: 2, max_usdc: 1 }],
    [{ type: 'match', min_price: 60, max_price: 50 }],
  ])('%j is refused', (given) => {
    expect(issuesOf(Rule, given)).not.toEqual([]);
  });

  test('wallets, tags and series are compared in lower case', () => {
    const given = {
      ...{ type: 'match', traders: [`0X${'AbCdEf0123'.repeat(4)}`] },
      ...{ tags: [' Crypto ', '5M'], series: ['BTC-Hourly'], markets: [`0x${'AB'.repeat(32)}`] },
    };
    expect(Rule.parse(given)).toEqual({
      ...{ ...given, traders: [`0x${'abcdef0123'.repeat(4)}`] },
      ...{ tags: ['crypto', '5m'], series: ['btc-hourly'] },
    });
  });

  test('a parsed rule parses to itself', () => {
    for (const given of [MATCH, GROUP, MOVE]) {
      const rule = Rule.parse(given);
      expect(JSON.stringify(Rule.parse(JSON.parse(JSON.stringify(rule))))).toBe(
        JSON.stringify(rule),
      );
    }
  });

  test.each<readonly [object, readonly number[]]>([
    [{ type: 'match', traders: many(3, address), tags: ['a', 'b'], series: ['c'] }, [3, 2, 1]],
    [{ type: 'match', min_usdc: 5 }, [0, 0, 0]],
    [{ ...GROUP, tags: ['a'] }, [2, 1, 0]],
    [MOVE, [0, 0, 0]],
  ])('sizesOf %j', (given, [addresses, tags, series]) => {
    expect(sizesOf(Rule.parse(given))).toEqual({
      ...{ max_filter_addrs: addresses, max_filter_tags: tags, max_filter_series: series },
    });
  });
});

describe('a new alert', () => {
  test('has no destinations and no confirmations unless it says so', () => {
    expect(NewAlert.parse({ name: ' whales ', rule: MATCH })).toEqual({
      ...{ name: 'whales', rule: MATCH, destinations: [], confirm: false },
    });
  });

  test('keeps what it says', () => {
    const given = { name: 'n'.repeat(64), rule: GROUP, destinations: [DESTINATION], confirm: true };
    expect(NewAlert.parse(given)).toEqual(given);
  });

  const GIVEN = { name: 'whales', rule: MATCH };
  test.each<readonly [string, unknown, string, RegExp]>([
    ['no name', { rule: MATCH }, 'name', /must be a string/],
    ['an empty name', { ...GIVEN, name: ' ' }, 'name', /must not be empty/],
    ['no rule', { name: 'whales' }, 'rule', /./],
    ['a bad rule', { ...GIVEN, rule: { type: 'match' } }, 'rule', /must restrict something/],
    [
      'a bad member of a rule',
      { ...GIVEN, rule: { ...GROUP, count: 9 } },
      'rule.count',
      /above the number/,
    ],
    [
      'a name as a destination',
      { ...GIVEN, destinations: ['my bot'] },
      'destinations.0',
      /id of a destination/,
    ],
    [
      'too many destinations',
      { ...GIVEN, destinations: many(11, () => DESTINATION) },
      'destinations',
      /10/,
    ],
    ['text as confirm', { ...GIVEN, confirm: 'yes' }, 'confirm', /true or false/],
    ['enabled, which only a change may say', { ...GIVEN, enabled: true }, '', /"enabled"/],
    ['an id', { ...GIVEN, id: DESTINATION }, '', /"id"/],
  ])('%s is refused', (_, given, path, message) => {
    expect(issuesOf(NewAlert, given)).toEqual([[path, expect.stringMatching(message)]]);
  });
});

test('a long name gets a message that says how long it may be', () => {
  const given = { name: 'n'.repeat(65), rule: MATCH };
  expect(issuesOf(NewAlert, given)).toEqual([['name', expect.stringMatching(/64/)]]);
});

describe('a change of an alert', () => {
  test.each<readonly [object]>([
    [{}],
    [{ enabled: false }],
    [{ name: 'fish', confirm: true }],
    [{ destinations: [] }],
    [{ rule: MOVE }],
  ])('%j changes nothing else', (given) => {
    expect(AlertChange.parse(given)).toEqual(given);
  });

  test.each<readonly [string, unknown, string, RegExp]>([
    ['a number as enabled', { enabled: 0 }, 'enabled', /true or false/],
    ['an empty name', { name: '' }, 'name', /must not be empty/],
    ['null', { confirm: null }, 'confirm', /true or false/],
    [
      'part of a rule',
      { rule: { type: 'group', count: 3, within_seconds: 5 } },
      'rule.traders',
      /list/,
    ],
    ['an account', { account: 'other' }, '', /"account"/],
  ])('%s is refused', (_, given, path, message) => {
    expect(issuesOf(AlertChange, given)).toEqual([[path, expect.stringMatching(message)]]);
  });
});
