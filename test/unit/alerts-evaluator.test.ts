/** Rules on the matches of FEED: what each kind finds, what follows when matches settle or not, and restarts, which change nothing. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { Evaluator } from '../../apps/alerts/evaluate/evaluator.ts';
import { AlertMessage } from '../../apps/alerts/logs.ts';
import { type AlertRecord, Rule } from '../../apps/alerts/rule.ts';
import type {
  FeedEvent,
  FeedFill,
  FeedMatch,
  FeedSequel,
  VoidReason,
} from '../../ingest/contract.ts';
import { at } from '../support/at.ts';
import { generator } from '../support/seed.ts';
import { address, fill, hash, market, match, naivelyPasses, randomMatch } from './feed-matches.ts';
import { runs } from './fixtures.ts';

const START_MS = 1_760_000_000_000;
const SENT = { sender: address(99), nonce: 1 };
const CONDITION = hash(2_000_000);

function alertOf(rule: object, over: Partial<AlertRecord> = {}): AlertRecord {
  return {
    ...{ id: 'alert-1', account: 'acme', name: 'whales', destinations: [], confirm: false },
    ...{ enabled: true, createdAt: '2026-05-01T12:00:00Z', updatedAt: '2026-05-01T12:00:00Z' },
    rule: Rule.parse(rule),
    ...over,
  };
}

function evaluatorOf(...alerts: readonly AlertRecord[]): Evaluator {
  const evaluator = new Evaluator(() => true);
  for (const alert of alerts) evaluator.change(alert.id, alert);
  return evaluator;
}

/** What FEED says later about a match. */
function sequelOf(
  kind: FeedSequel['kind'],
  { conditionId, makers, market, taker, txHash }: FeedMatch,
  matchId: string,
  over: { readonly reason?: VoidReason; readonly atMs?: number } = {},
): FeedSequel {
  const about = {
    ...{ matchId, txHash, conditionId, detectedAtMs: over.atMs ?? START_MS + 60_000 },
    traders: [...new Set([taker, ...makers].map(({ trader }) => trader.address))],
    ...{ tags: market.tags, seriesSlug: market.seriesSlug },
    ...{ usdc: taker.usdc, shares: taker.shares },
  };
  if (kind === 'void') return { kind, reason: over.reason ?? 'reverted', ...about };
  return kind === 'final' ? { kind, blockNumber: 7, ...about } : { kind, ...about };
}

describe('the watchers', () => {
  type Order = readonly [
    trader: number,
    does: 'buys' | 'sells',
    outcome: 'Yes' | 'No',
    usdc?: number,
    shares?: number,
  ];
  type Step =
    | {
        readonly s: number;
        /** The first is the taker's. */
        readonly orders: readonly Order[];
        readonly market?: number;
        readonly tags?: readonly string[];
      }
    | { readonly void: number };

  const orderFill = ([trader, does, outcome, usdc = 5, shares = 10]: Order): FeedFill =>
    fill(trader, {
      ...{ side: does === 'buys' ? 'BUY' : 'SELL', outcomeIndex: outcome === 'Yes' ? 0 : 1 },
      ...{ usdc: BigInt(Math.round(usdc * 1e6)), shares: BigInt(Math.round(shares * 1e6)) },
    });

  /** The messages of each step that has any; a void refers to an earlier step. */
  function foundBy(rule: object, steps: readonly Step[]) {
    const evaluator = evaluatorOf(alertOf(rule));
    const matches: FeedMatch[] = [];
    return steps.flatMap((step, n) => {
      if ('void' in step) {
        const voided = matches[step.void] as FeedMatch;
        evaluator.sequel(sequelOf('void', voided, `m${step.void}`));
        return [];
      }
      const [taker, ...makers] = step.orders.map(orderFill) as [FeedFill, ...FeedFill[]];
      const given = match(n, {
        ...{ detectedAtMs: START_MS + Math.round(step.s * 1_000), sent: SENT, taker, makers },
        conditionId: hash(2_000_000 + (step.market ?? 0)),
        market: market({ tags: [...(step.tags ?? [])] }),
      });
      matches[n] = given;
      return evaluator.match(given, `m${n}`).map(({ event }) => ({ step: n, event }));
    });
  }

  const buys = (s: number, ...traders: number[]): Step => ({
    s,
    orders: [[50, 'sells', 'Yes'], ...traders.map((one): Order => [one, 'buys', 'Yes'])],
  });

  describe('group', () => {
    const GROUP = {
      ...{ type: 'group', traders: [1, 2, 3, 4].map(address), count: 2, within_seconds: 60 },
    };
    const EXAMPLES: readonly {
      readonly name: string;
      readonly over?: object;
      readonly steps: readonly Step[];
      /** Step, outcome, wallets and their total, USDC. */
      readonly expected: readonly (readonly [number, 'Yes' | 'No', readonly number[], number])[];
    }[] = [
      { name: 'the first wallet is not enough', steps: [buys(0, 1)], expected: [] },
      {
        name: 'the second wallet completes the group',
        steps: [buys(0, 1), buys(10, 2)],
        expected: [[1, 'Yes', [1, 2], 10]],
      },
      { name: 'one wallet twice', steps: [buys(0, 1), buys(10, 1)], expected: [] },
      { name: 'both in one match', steps: [buys(0, 1, 2)], expected: [[0, 'Yes', [1, 2], 10]] },
      {
        name: 'the taker counts, too',
        steps: [
          {
            s: 0,
            orders: [
              [1, 'buys', 'Yes', 10, 20],
              [50, 'sells', 'Yes'],
              [2, 'sells', 'No', 4, 10],
            ],
          },
        ],
        expected: [[0, 'Yes', [1, 2], 16]],
      },
      {
        name: 'a wallet with several orders in a match counts once',
        steps: [buys(0, 1, 1), buys(1, 2)],
        expected: [[1, 'Yes', [1, 2], 15]],
      },
      {
        name: 'selling an outcome counts as buying the other, at the price of the other',
        steps: [buys(0, 1), { s: 1, orders: [[2, 'sells', 'No', 3, 10]] }],
        expected: [[1, 'Yes', [1, 2], 12]],
      },
      {
        name: 'two wallets that sell Yes buy No',
        steps: [
          { s: 0, orders: [[1, 'sells', 'Yes']] },
          { s: 1, orders: [[2, 'sells', 'Yes']] },
        ],
        expected: [[1, 'No', [1, 2], 10]],
      },
      {
        name: 'opposite outcomes',
        steps: [
          buys(0, 1),
          { s: 1, orders: [[2, 'buys', 'No']] },
          { s: 2, orders: [[3, 'sells', 'Yes']] },
        ],
        expected: [[2, 'No', [2, 3], 10]],
      },
      { name: 'a wallet of no interest', steps: [buys(0, 1), buys(1, 7)], expected: [] },
      { name: 'another market', steps: [buys(0, 1), { ...buys(1, 2), market: 1 }], expected: [] },
      {
        name: 'exactly within_seconds ago is too long ago',
        steps: [buys(0, 1), buys(60, 2)],
        expected: [],
      },
      {
        name: 'a millisecond less is not',
        steps: [buys(0, 1), buys(59.999, 2)],
        expected: [[1, 'Yes', [1, 2], 10]],
      },
      {
        name: 'more than count: once',
        steps: [buys(0, 1), buys(1, 2), buys(2, 3), buys(3, 4), buys(4, 1)],
        expected: [[1, 'Yes', [1, 2], 10]],
      },
      {
        name: 'not again while enough of them remain in the window',
        steps: [buys(0, 1), buys(1, 2), buys(50, 3), buys(60.5, 4)],
        expected: [[1, 'Yes', [1, 2], 10]],
      },
      {
        name: 'again after it fell below count',
        steps: [buys(0, 1), buys(1, 2), buys(70, 1), buys(71, 3)],
        expected: [
          [1, 'Yes', [1, 2], 10],
          [3, 'Yes', [1, 3], 10],
        ],
      },
      {
        name: 'a match that did not happen is forgotten',
        steps: [buys(0, 1), { void: 0 }, buys(1, 2)],
        expected: [],
      },
      {
        name: 'only that match is forgotten',
        steps: [buys(0, 1), buys(1, 1), { void: 0 }, buys(2, 2)],
        expected: [[3, 'Yes', [1, 2], 10]],
      },
      {
        name: 'a void that takes it below count lets it be found again',
        steps: [buys(0, 1), buys(1, 2), { void: 1 }, buys(2, 3)],
        expected: [
          [1, 'Yes', [1, 2], 10],
          [3, 'Yes', [1, 3], 10],
        ],
      },
      {
        name: 'min_usdc is what a wallet buys in a match, with all its orders',
        over: { min_usdc: 10 },
        steps: [buys(0, 1, 1), { s: 1, orders: [[2, 'buys', 'Yes', 10, 20]] }],
        expected: [[1, 'Yes', [1, 2], 20]],
      },
      {
        name: 'min_usdc is not summed over matches or wallets',
        over: { min_usdc: 10 },
        steps: [buys(0, 1), buys(1, 1), buys(2, 2), buys(3, 2, 3)],
        expected: [],
      },
      {
        name: 'min_usdc of a sale is what the other outcome costs',
        over: { min_usdc: 7 },
        steps: [
          { s: 0, orders: [[1, 'sells', 'No', 3, 10]] },
          { s: 1, orders: [[2, 'sells', 'No', 3.000_001, 10]] },
          { s: 2, orders: [[3, 'sells', 'No', 2.999_999, 10]] },
        ],
        expected: [[2, 'Yes', [1, 3], 14.000_001]],
      },
      {
        name: 'markets',
        over: { markets: [hash(2_000_001)] },
        steps: [buys(0, 1, 2), { ...buys(1, 1, 2), market: 1 }],
        expected: [[1, 'Yes', [1, 2], 10]],
      },
      {
        name: 'tags, in any letter case',
        over: { tags: ['crypto'] },
        steps: [
          buys(0, 1, 2),
          { ...buys(1, 1), tags: ['5M', 'Crypto'] },
          { ...buys(2, 2), tags: ['crypto'] },
        ],
        expected: [[2, 'Yes', [1, 2], 10]],
      },
      {
        name: 'three of four',
        over: { count: 3 },
        steps: [buys(0, 1), buys(1, 2), buys(2, 1), buys(3, 4)],
        expected: [[3, 'Yes', [1, 2, 4], 20]],
      },
    ];

    test.each(EXAMPLES)('$name', ({ expected, over, steps }) => {
      const found = foundBy({ ...GROUP, ...over }, steps).map(({ event, step }) => {
        const { outcome, outcome_index, traders, value } = event.data;
        expect(outcome_index).toBe(outcome === 'Yes' ? 0 : 1);
        return [step, outcome, (traders as { address: string }[]).map((one) => one.address), value];
      });
      expect(found).toEqual(
        expected.map(([step, outcome, traders, usdc]) => {
          return [step, outcome, traders.map(address), Math.round(usdc * 1e6)];
        }),
      );
    });

    test('the text names the wallets, at most five', () => {
      const six = [1, 2, 3, 4, 5, 6];
      const rule = { ...GROUP, traders: six.map(address), count: 6 };
      const [{ event }] = foundBy(rule, [buys(0, ...six)]) as [ReturnType<typeof foundBy>[number]];
      expect(event.text).toBe(
        '6 traders bought Yes of “Will “it” rain\nin Zürich? 雨”: trader-1, trader-2, trader-3, trader-4, trader-5 and 1 more, 30.00 USDC together',
      );
      expect(event).toMatchObject({ type: 'group', data: { match_id: 'm0', tx_hash: hash(0) } });
    });
  });

  describe('move', () => {
    const MOVE = { type: 'move', markets: [CONDITION], points: 10, within_seconds: 60 };
    const price = (s: number, cents: number, outcome: 'Yes' | 'No' = 'Yes'): Step => ({
      s,
      orders: [[1, 'buys', outcome, cents / 10, 10]],
    });
    const EXAMPLES: readonly {
      readonly name: string;
      readonly steps: readonly Step[];
      /** Step, cents before and after, seconds in between. */
      readonly expected: readonly (readonly [number, number, number, number])[];
    }[] = [
      { name: 'one price is no move', steps: [price(0, 50)], expected: [] },
      { name: 'up', steps: [price(0, 50), price(10, 60)], expected: [[1, 50, 60, 10]] },
      { name: 'down', steps: [price(0, 50), price(10, 40)], expected: [[1, 50, 40, 10]] },
      {
        name: 'less than points',
        steps: [price(0, 50), price(10, 59.99), price(20, 40.01)],
        expected: [[2, 59.99, 40.01, 10]],
      },
      {
        name: 'No is the complement of Yes',
        steps: [price(0, 50), price(10, 40, 'No')],
        expected: [[1, 50, 60, 10]],
      },
      {
        name: 'both prices of No',
        steps: [price(0, 50, 'No'), price(10, 60, 'No')],
        expected: [[1, 50, 40, 10]],
      },
      {
        name: 'the same price of both outcomes',
        steps: [price(0, 80), price(10, 20, 'No')],
        expected: [],
      },
      {
        name: 'a sale has a price, too',
        steps: [price(0, 50), { s: 10, orders: [[1, 'sells', 'Yes', 6, 10]] }],
        expected: [[1, 50, 60, 10]],
      },
      {
        name: 'the makers have none',
        steps: [
          price(0, 50),
          {
            s: 10,
            orders: [
              [1, 'buys', 'Yes', 5, 10],
              [2, 'sells', 'Yes', 9, 10],
            ],
          },
        ],
        expected: [],
      },
      {
        name: 'by several steps, from the price that is farthest away',
        steps: [price(0, 50), price(1, 45), price(2, 54), price(3, 56)],
        expected: [[3, 45, 56, 2]],
      },
      {
        name: 'exactly within_seconds ago is too long ago',
        steps: [price(0, 50), price(60, 60)],
        expected: [],
      },
      {
        name: 'a millisecond less is not',
        steps: [price(0, 50), price(59.999, 60)],
        expected: [[1, 50, 60, 60]],
      },
      {
        name: 'a fill of no shares has no price',
        steps: [
          ...([price(0, 50), { s: 1, orders: [[1, 'buys', 'Yes', 0, 0]] }, price(2, 59)] as Step[]),
          price(3, 60),
        ],
        expected: [[3, 50, 60, 3]],
      },
      {
        name: 'the next move begins at the end of the last one',
        steps: [price(0, 50), price(1, 60), price(2, 65), price(3, 69), price(4, 70), price(5, 60)],
        expected: [
          [1, 50, 60, 1],
          [4, 60, 70, 3],
          [5, 70, 60, 1],
        ],
      },
      {
        name: 'a match that did not happen is forgotten',
        steps: [price(0, 50), { void: 0 }, price(1, 60), price(2, 69)],
        expected: [],
      },
      {
        name: 'only that match is forgotten',
        steps: [price(0, 50), price(1, 51), { void: 0 }, price(2, 60), price(3, 61)],
        expected: [[4, 51, 61, 2]],
      },
      {
        name: 'another market',
        steps: [price(0, 50), { ...price(1, 60), market: 1 }, { ...price(2, 80), market: 1 }],
        expected: [],
      },
    ];

    test.each(EXAMPLES)('$name', ({ expected, steps }) => {
      const found = foundBy(MOVE, steps).map(({ event, step }) => {
        const { price_before, price: after, seconds } = event.data;
        expect(event.text).toContain(Number(after) > Number(price_before) ? ' rose ' : ' fell ');
        return [step, Number(price_before) / 1e4, Number(after) / 1e4, seconds];
      });
      expect(found).toEqual(expected);
    });

    test('markets do not mix', () => {
      const rule = { ...MOVE, markets: [0, 1].map((n) => hash(2_000_000 + n)) };
      const steps = [price(0, 50), { ...price(1, 20), market: 1 }, { ...price(2, 30), market: 1 }];
      const [first, ...others] = foundBy(rule, steps);
      expect(others).toEqual([]);
      expect(first?.event).toMatchObject({
        ...{
          type: 'move',
          text: 'Yes of “Will “it” rain\nin Zürich? 雨” rose from 20.0¢ to 30.0¢',
        },
        data: { match_id: 'm2', market: { condition_id: hash(2_000_001) }, outcome: 'Yes' },
      });
    });
  });

  describe('match', () => {
    const step: Step = {
      ...{ s: 0, tags: ['Crypto'] },
      orders: [
        [1, 'buys', 'Yes', 6.5, 10],
        [2, 'sells', 'Yes', 6.5, 10],
      ],
    };
    test.each<readonly [string, object, boolean]>([
      ['the taker', { traders: [address(1)] }, true],
      ['a maker', { traders: [address(9), address(2)] }, true],
      ['another wallet', { traders: [address(3)] }, false],
      ['its market', { markets: [CONDITION] }, true],
      ['another market', { markets: [hash(1)] }, false],
      ['its tag', { tags: ['x', 'crypto'] }, true],
      ['another tag', { tags: ['sports'] }, false],
      ['its series', { series: ['weather-daily'] }, true],
      ['another series', { series: ['nfl'] }, false],
      ['exactly min_usdc', { min_usdc: 6.5 }, true],
      ['a micro-USDC below min_usdc', { min_usdc: 6.500001 }, false],
      ['exactly max_usdc', { max_usdc: 6.5 }, true],
      ['a micro-USDC above max_usdc', { max_usdc: 6.499999 }, false],
      ['a bound that JavaScript writes with an exponent', { min_usdc: 1e-7 }, true],
      ['exactly its price', { min_price: 65, max_price: 65 }, true],
      ['above max_price', { max_price: 64.9 }, false],
      ['below min_price', { min_price: 65.1 }, false],
      ['both lists', { traders: [address(1)], tags: ['crypto'] }, true],
      ['one of two lists', { traders: [address(1)], tags: ['sports'] }, false],
    ])('%s', (_, filter, isFound) => {
      expect(foundBy({ type: 'match', ...filter }, [step]).length).toBe(isFound ? 1 : 0);
    });

    test('the event has the match as in the order feed, and a text about the watched wallet', () => {
      const textOf = (filter: object) =>
        foundBy({ type: 'match', ...filter }, [step])[0]?.event.text;
      const title = '“Will “it” rain\nin Zürich? 雨”';
      expect(textOf({ min_usdc: 1 })).toBe(`trader-1 bought Yes of ${title}: 6.50 USDC at 65.0¢`);
      expect(textOf({ traders: [address(2)] })).toBe(
        `trader-2 sold Yes of ${title}: 6.50 USDC at 65.0¢`,
      );
      const given = match(1);
      const [message] = evaluatorOf(alertOf({ type: 'match', min_usdc: 1 })).match(
        given,
        '0xa:0xb',
      );
      expect(message?.event.data).toEqual(JSON.parse(encodeMatch(given, 'json', '0xa:0xb')));
    });
  });
});

describe('what follows an event', () => {
  const MATCH = { type: 'match', traders: [address(1), address(2)] };
  const GROUP = { type: 'group', traders: [address(1), address(2)], count: 2, within_seconds: 60 };
  const OF = {
    a: match(1, { taker: fill(1), makers: [fill(8, { side: 'SELL' })] }),
    b: match(2, { taker: fill(2), makers: [fill(8, { side: 'SELL' })] }),
  };

  /** `seen`: first seen in a final block. */
  type Action = `${'seen' | 'pending' | 'final' | 'restored' | VoidReason} ${'a' | 'b'}`;

  /** Stores what an evaluator sends, as the process does. */
  function played(evaluator: Evaluator) {
    const stored: AlertMessage[] = [];
    return {
      stored,
      states: () => stored.map(({ event }) => event.state),
      play(...actions: readonly Action[]) {
        for (const action of actions) {
          const [verb, name] = action.split(' ') as ['seen', 'a'];
          const messages = eventOf(evaluator, verb, OF[name], name);
          for (const message of messages) evaluator.sent(message, stored.push(message));
        }
      },
    };
  }

  function eventOf(evaluator: Evaluator, verb: string, of: FeedMatch, id: string) {
    if (verb === 'seen') return evaluator.match(of, id);
    if (verb === 'pending') return evaluator.match({ ...of, sent: SENT }, id);
    if (verb === 'final' || verb === 'restored') return evaluator.sequel(sequelOf(verb, of, id));
    return evaluator.sequel(sequelOf('void', of, id, { reason: verb as VoidReason }));
  }

  const NEVER = 'never_mined';
  test.each<readonly [string, object, readonly Action[], string]>([
    ['a pending match', MATCH, ['pending a'], 'pending'],
    ['a final match', MATCH, ['seen a'], 'final'],
    ['a match becomes final', MATCH, ['pending a', 'final a'], 'pending (confirmed)'],
    ['a match is void', MATCH, ['pending a', 'replaced a'], 'pending retracted'],
    ['void for good', MATCH, ['pending a', 'reverted a', 'restored a'], 'pending retracted'],
    ['restored', MATCH, ['pending a', `${NEVER} a`, 'restored a'], 'pending retracted restored'],
    ['nothing after final', MATCH, ['pending a', 'final a', 'reverted a'], 'pending (confirmed)'],
    ['nothing after a match of a final block', MATCH, ['seen a', 'reverted a'], 'final'],
    [
      ...(['matches are independent', MATCH] as const),
      ['pending a', 'pending b', 'unmatched b', 'final a'],
      'pending pending retracted (confirmed)',
    ],
    ['a group of final matches', GROUP, ['seen a', 'seen b'], 'final'],
    [
      'a group with one pending match',
      GROUP,
      ['seen a', 'pending b', 'final b'],
      'pending (confirmed)',
    ],
    [
      'a group whose first match is pending',
      GROUP,
      ['pending a', 'seen b', 'reverted a'],
      'pending retracted',
    ],
    [
      ...(['a group whose first match became final before', GROUP] as const),
      ['pending a', 'final a', 'seen b'],
      'final',
    ],
    [
      ...(['a group is confirmed when all its matches are final', GROUP] as const),
      ['pending a', 'pending b', 'final b'],
      'pending',
    ],
    [
      '… and then once',
      GROUP,
      ['pending a', 'pending b', 'final b', 'final a'],
      'pending (confirmed)',
    ],
    [
      ...(['a group is retracted once', GROUP] as const),
      ['pending a', 'pending b', 'reverted a', 'reverted b'],
      'pending retracted',
    ],
    [
      ...(['a retracted group is not confirmed', GROUP] as const),
      ['pending a', 'pending b', `${NEVER} a`, 'final b'],
      'pending retracted',
    ],
    [
      ...(['a group with a final match is retracted if the other is void', GROUP] as const),
      ['pending a', 'pending b', 'final a', 'reverted b'],
      'pending retracted',
    ],
    [
      ...(['a group is not restored while a match of it is void', GROUP] as const),
      ['pending a', 'pending b', `${NEVER} a`, `${NEVER} b`, 'restored a'],
      'pending retracted',
    ],
    [
      ...(['… and then once', GROUP] as const),
      ['pending a', 'pending b', `${NEVER} a`, `${NEVER} b`, 'restored a', 'restored b'],
      'pending retracted restored',
    ],
    [
      ...(['a group with a match that is void for good is not restored', GROUP] as const),
      ['pending a', 'pending b', `${NEVER} a`, 'replaced b', 'restored a'],
      'pending retracted',
    ],
    [
      ...(['a restored group whose other match is pending', GROUP] as const),
      ['pending a', 'pending b', `${NEVER} a`, 'restored a', 'final b'],
      'pending retracted restored (confirmed)',
    ],
    [
      ...(['a restored group whose other match was final', GROUP] as const),
      ['pending a', 'pending b', 'final b', `${NEVER} a`, 'restored a'],
      'pending retracted restored',
    ],
  ])('%s', (_, rule, actions, expected) => {
    for (const confirm of [false, true]) {
      const run = played(evaluatorOf(alertOf(rule, { confirm })));
      run.play(...actions);
      const wanted = confirm
        ? expected.replace(/[()]/g, '')
        : expected.replace(/ ?\(confirmed\)/g, '');
      expect(run.states().join(' ')).toBe(wanted);
      const ids = run.stored.map(({ event }) => event.id);
      expect(new Set(ids).size).toBe(ids.length);
    }
  });

  test('a restored group that is void after all is retracted again, by another event', () => {
    const run = played(evaluatorOf(alertOf(GROUP)));
    run.play('pending a', 'pending b', `${NEVER} a`, 'restored a', 'reverted b');
    expect(run.states()).toEqual(['pending', 'retracted', 'restored', 'retracted']);
    expect(new Set(run.stored.map(({ event }) => event.id)).size).toBe(4);
  });

  test('a later event repeats the first one, refers to it and says which match decided', () => {
    const run = played(evaluatorOf(alertOf(GROUP, { confirm: true, destinations: ['d1'] })));
    run.play('pending a', 'pending b', `${NEVER} a`, 'restored a', 'final b');
    const [first, ...later] = run.stored as [AlertMessage, ...AlertMessage[]];
    expect(first.matches.toSorted()).toEqual(['a', 'b']);
    const decided = [
      { match_id: 'a', tx_hash: hash(1), reason: NEVER },
      { match_id: 'a', tx_hash: hash(1) },
      { match_id: 'b', tx_hash: hash(2), block_number: 7 },
    ];
    const { event } = first;
    expect(later.map((one) => one.event)).toEqual(
      ['retracted', 'restored', 'confirmed'].map((state, n) => ({
        ...{ ...event, id: expect.stringMatching(/^evt_[0-9a-f]{32}$/), state },
        ...{ refers_to: event.id, data: { ...event.data, settled_by: decided[n] } },
      })),
    );
    for (const { account, destinations, matches } of later) {
      expect({ account, destinations, matches }).toEqual({
        ...{ account: 'acme', destinations: ['d1'], matches: [] },
      });
    }
  });

  test('what was not stored is not taken back', () => {
    const evaluator = evaluatorOf(alertOf(MATCH));
    expect(evaluator.match({ ...OF.a, sent: SENT }, 'a').length).toBe(1);
    expect(evaluator.sequel(sequelOf('void', OF.a, 'a'))).toEqual([]);
  });

  test.each<readonly [string, (alert: AlertRecord) => AlertRecord | undefined]>([
    ['paused', (alert) => ({ ...alert, enabled: false })],
    ['deleted', () => undefined],
    ['different', (alert) => ({ ...alert, rule: Rule.parse({ type: 'match', tags: ['x'] }) })],
  ])('a %s alert finds nothing new, and what it sent is still settled', (_, changed) => {
    const alert = alertOf(MATCH, { confirm: true });
    const evaluator = evaluatorOf(alert);
    const run = played(evaluator);
    run.play('pending a', 'pending b');
    evaluator.change(alert.id, changed(alert));
    run.play('reverted a', 'final b', 'seen a', 'pending b');
    expect(run.states()).toEqual(['pending', 'pending', 'retracted', 'confirmed']);
  });

  test('a change of anything but the rule keeps what the alert remembers, and shows in the next event', () => {
    const alert = alertOf(GROUP);
    const evaluator = evaluatorOf(alert);
    const run = played(evaluator);
    run.play('seen a');
    evaluator.change(alert.id, { ...alert, name: 'fish', destinations: ['d1'] });
    run.play('seen b');
    expect(run.stored).toMatchObject([
      { destinations: ['d1'], event: { alert: { id: 'alert-1', name: 'fish' } } },
    ]);
  });

  test.each<readonly [string, object]>([
    ['another time', { ...GROUP, within_seconds: 61 }],
    ['another wallet', { ...GROUP, traders: [1, 2, 3].map(address) }],
  ])('a rule with %s begins anew', (_, rule) => {
    const alert = alertOf(GROUP);
    const evaluator = evaluatorOf(alert);
    const run = played(evaluator);
    run.play('seen a');
    evaluator.change(alert.id, alertOf(rule));
    run.play('seen b');
    expect(run.stored).toEqual([]);
    run.play('seen a');
    expect(run.states()).toEqual(['final']);
  });

  test('a paused alert begins anew when it is resumed', () => {
    const alert = alertOf(GROUP);
    const evaluator = evaluatorOf(alert);
    const run = played(evaluator);
    run.play('seen a');
    evaluator.change(alert.id, { ...alert, enabled: false });
    expect([evaluator.size, evaluator.memorySeconds]).toEqual([0, 0]);
    evaluator.change(alert.id, alert);
    expect([evaluator.size, evaluator.memorySeconds]).toEqual([1, 60]);
    run.play('seen b');
    expect(run.stored).toEqual([]);
  });

  test('destinations that the account does not have get nothing', () => {
    const owners: Readonly<Record<string, string>> = { d1: 'acme', d2: 'other' };
    const evaluator = new Evaluator((id, account) => owners[id] === account);
    evaluator.change('alert-1', alertOf(MATCH, { destinations: ['d2', 'd1', 'd3'] }));
    evaluator.change(
      'alert-2',
      alertOf(MATCH, { id: 'alert-2', account: 'other', destinations: ['d2', 'd1'] }),
    );
    const messages = evaluator.match(OF.a, 'a');
    expect(messages.map(({ account, destinations }) => [account, destinations])).toEqual([
      ['acme', ['d1']],
      ['other', ['d2']],
    ]);
  });

  test('an alert whose lists name a match several times sends one event', () => {
    const rule = { type: 'match', traders: Array.from({ length: 40 }, (_, n) => address(n)) };
    const evaluator = evaluatorOf(alertOf({ ...rule, tags: ['weather', '5m'] }));
    const many = match(1, { makers: [2, 3, 3, 4, 1].map((n) => fill(n)) });
    expect(evaluator.match(many, 'a').length).toBe(1);
  });

  test('two alerts have events of their own', () => {
    const alerts = [alertOf(MATCH), alertOf(MATCH, { id: 'alert-2', account: 'other' })];
    const messages = evaluatorOf(...alerts).match(OF.a, 'a');
    expect(new Set(messages.map(({ event }) => event.id)).size).toBe(2);
  });

  test('a group that was taken back is found again', () => {
    const evaluator = evaluatorOf(alertOf(GROUP));
    const run = played(evaluator);
    run.play('pending a', 'pending b', 'reverted b');
    expect(run.states()).toEqual(['pending', 'retracted']);
    // Of another match.
    const [found] = evaluator.match({ ...OF.b, sent: SENT }, 'c');
    expect(found?.event.state).toBe('pending');
    expect(found?.matches).toEqual(['c', 'a']);
  });

  test('the oldest open event is the one that ALERTS has first, whichever was acknowledged first', () => {
    const evaluator = evaluatorOf(alertOf(MATCH));
    const [a] = evaluator.match({ ...OF.a, sent: SENT }, 'a');
    const [b] = evaluator.match({ ...OF.b, sent: SENT }, 'b');
    if (a !== undefined && b !== undefined) {
      evaluator.sent(b, 11);
      evaluator.sent(a, 10);
    }
    expect(evaluator.open.oldest(OF.a.detectedAtMs)?.sequence).toBe(10);
  });

  test('the oldest open event: settled ones are gone, and all after three hours', () => {
    const evaluator = evaluatorOf(alertOf(MATCH));
    const run = played(evaluator);
    const oldest = (minutes: number) =>
      evaluator.open.oldest(OF.a.detectedAtMs + minutes * 60_000)?.sequence;
    expect(oldest(0)).toBe(undefined);
    run.play('pending a', 'pending b');
    expect(oldest(0)).toBe(1);
    run.play(`${NEVER} a`);
    expect([oldest(179), oldest(181)]).toEqual([1, undefined]);
    run.play('restored a', 'final b');
    expect([run.states().at(-1), oldest(0), evaluator.open.size]).toEqual([
      'retracted',
      undefined,
      0,
    ]);
  });
});

/*
 * Random FEEDs. Each step is a match, or the end of an earlier one, in the order in which ingest publishes them: a match that was
 * not final becomes final or void, once, and after `never_mined` it may be restored.
 */
type Stored = {
  readonly sequence: number;
  readonly id: string;
  readonly timestampMs: number;
  readonly event: FeedEvent;
};

const REASONS: readonly VoidReason[] = ['reverted', 'replaced', 'never_mined', 'unmatched'];
const step = fc.record({
  /** How likely it is that this is a match. */
  kind: fc.constantFrom('match', 'match', 'match', 'final', 'void', 'restored'),
  pick: fc.nat(1_000),
  reason: fc.constantFrom(...REASONS, 'never_mined' as const),
  seed: fc.nat(1_000_000),
  isPending: fc.constantFrom(true, true, true, false),
  waitMs: fc.integer({ min: 0, max: 20_000 }),
});
type RandomStep = Parameters<Parameters<typeof step.map>[0]>[0];

function feedOf(
  steps: readonly RandomStep[],
  matchOf: (n: number, seed: number) => FeedMatch,
): readonly Stored[] {
  const feed: Stored[] = [];
  const pending: Stored[] = [];
  const voided: Stored[] = [];
  let timestampMs = START_MS;
  const store = (id: string, event: FeedEvent) => {
    const stored = { sequence: feed.length + 1, id, timestampMs, event };
    feed.push(stored);
    return stored;
  };
  for (const [n, { isPending, kind, pick, reason, seed, waitMs }] of steps.entries()) {
    timestampMs += waitMs;
    const from = kind === 'restored' ? voided : pending;
    const [of] = kind === 'match' ? [] : from.splice(pick % (from.length + 1), 1);
    if (of === undefined || of.event.kind !== 'match' || kind === 'match') {
      const given = { ...matchOf(n, seed), detectedAtMs: timestampMs, pending: isPending };
      const event = isPending ? { ...given, sent: SENT } : given;
      const stored = store(`${given.txHash}:${given.taker.orderHash}`, event);
      if (isPending) pending.push(stored);
      continue;
    }
    const sequel = sequelOf(kind as FeedSequel['kind'], of.event, of.id, {
      ...{ reason, atMs: timestampMs },
    });
    store(`${kind}:${of.id}`, sequel);
    if (kind === 'void' && reason === 'never_mined') voided.push(of);
  }
  return feed;
}

const amount = fc.option(fc.integer({ min: 0, max: 500_000 }).map((n) => n / 10_000));
const cents = fc.option(fc.integer({ min: 0, max: 1_000_000 }).map((n) => n / 10_000));
const ordered = (bounds: fc.Arbitrary<number | null>) =>
  fc
    .tuple(bounds, bounds)
    .map(([a, b]) => (a !== null && b !== null && a > b ? ([b, a] as const) : ([a, b] as const)));
const wallets = (n: number, least = 0) =>
  fc.subarray(
    Array.from({ length: n }, (_, i) => address(i + 1)),
    { minLength: least },
  );
const conditions = (least = 0) =>
  fc.subarray(
    [0, 1, 2, 9].map((n) => hash(2_000_000 + n)),
    { minLength: least },
  );
const matchRule = fc
  .record({
    traders: wallets(13),
    markets: conditions(),
    tags: fc.subarray(['SPORTS', 'esports', 'crypto', '5m', 'politics', 'absent', 'All']),
    series: fc.subarray(['btc-HOURLY', 'nfl', 'absent']),
    usdc: ordered(amount),
    price: ordered(cents),
  })
  .map(({ price, usdc, ...lists }) => {
    const given = {
      min_usdc: usdc[0],
      max_usdc: usdc[1],
      min_price: price[0],
      max_price: price[1],
    };
    const bounds = Object.entries(given).filter(([, value]) => value !== null);
    const some = Object.entries(lists).filter(([, list]) => list.length > 0);
    return { type: 'match', ...Object.fromEntries([...some, ...bounds]) };
  })
  .filter((rule) => Rule.safeParse(rule).success);

const alertsOf = (rule: fc.Arbitrary<object>) =>
  fc
    .array(fc.tuple(rule, fc.boolean(), fc.nat(2)), { minLength: 1, maxLength: 6 })
    .map((all) =>
      all.map(([given, confirm, account], n) =>
        alertOf(given, { id: `alert-${n}`, account: `account-${account}`, confirm }),
      ),
    );

function anyMatch(n: number, seed: number): FeedMatch {
  const random = generator(seed);
  const given = randomMatch(n, random);
  return { ...given, conditionId: hash(2_000_000 + Math.floor(random() * 3)) };
}

/** What an alert sends about an event, by the rules of the documentation only. */
function naively(alerts: readonly AlertRecord[], feed: readonly Stored[]): readonly string[] {
  const id = (...parts: string[]) => {
    return `evt_${createHash('sha256').update(parts.join(' ')).digest('hex').slice(0, 32)}`;
  };
  const matches = new Map(feed.map((one) => [one.id, one.event]));
  return feed.flatMap(({ event, id: messageId }) =>
    alerts.flatMap((alert) => {
      const matchId = event.kind === 'match' ? messageId : event.matchId;
      const of = matches.get(matchId);
      if (of?.kind !== 'match' || !isWanted(alert, of)) return [];
      const first = id(alert.id, matchId);
      if (event.kind === 'match')
        return [`${first} ${event.sent === undefined ? 'final' : 'pending'}`];
      if (event.kind === 'final' && !alert.confirm) return [];
      const state = { final: 'confirmed', void: 'retracted', restored: 'restored' }[event.kind];
      return [`${id(first, state, matchId)} ${state}`];
    }),
  );
}

function isWanted({ rule }: AlertRecord, given: FeedMatch): boolean {
  const { markets = [], type: _, ...others } = rule as Extract<Rule, { type: 'match' }>;
  const query = Object.entries(others).map(([name, value]) => `${name}=${String(value)}`);
  const isMarket = markets.length === 0 || markets.includes(given.conditionId);
  return isMarket && naivelyPasses(query.join('&'), given);
}

/** As the process does: what is sent is stored, and told to the evaluator. */
function evaluated(evaluator: Evaluator, { event, id }: Stored): readonly AlertMessage[] {
  return event.kind === 'match' ? evaluator.match(event, id) : evaluator.sequel(event);
}

function uninterrupted(alerts: readonly AlertRecord[], feed: readonly Stored[]) {
  const evaluator = evaluatorOf(...alerts);
  const stored: AlertMessage[] = [];
  for (const one of feed) {
    for (const message of evaluated(evaluator, one)) {
      evaluator.sent(message, stored.push(message));
    }
  }
  return { evaluator, stored };
}

describe('any FEED', () => {
  const steps = fc.array(step, { minLength: 1, maxLength: 60, size: 'max' });

  test('match rules send what a naive comparison of every alert with every match finds', () => {
    fc.assert(
      fc.property(alertsOf(matchRule), steps, (alerts, list) => {
        const feed = feedOf(list, anyMatch);
        const { stored } = uninterrupted(alerts, feed);
        const sent = stored.map(({ event }) => `${event.id} ${event.state}`);
        expect(sent.toSorted()).toEqual(naively(alerts, feed).toSorted());
        const ids = stored.map(({ event }) => event.id);
        expect(new Set(ids).size).toBe(ids.length);
        for (const [n, { event }] of stored.entries()) {
          const referred = stored.slice(0, n).find((one) => one.event.id === event.refers_to);
          const isFirst = event.state === 'pending' || event.state === 'final';
          expect(referred?.event.state).toBe(isFirst ? undefined : 'pending');
          expect(referred?.account).toBe(isFirst ? undefined : stored[n]?.account);
        }
      }),
      { numRuns: runs(2_000) },
    );
  });

  test('nothing stays open when every match is final or void for good', () => {
    fc.assert(
      fc.property(alertsOf(fc.oneof(matchRule, groupRule)), steps, (alerts, list) => {
        const feed = feedOf(list, fewMatch);
        const over = new Set(
          feed.flatMap(({ event }) =>
            event.kind === 'match' || (event.kind === 'void' && event.reason === 'never_mined')
              ? []
              : [event.matchId],
          ),
        );
        const { evaluator } = uninterrupted(alerts, feed);
        for (const { event, id } of feed) {
          if (event.kind !== 'match' || event.sent === undefined || over.has(id)) continue;
          const isVoid = feed.some((one) => one.id === `void:${id}`);
          evaluator.sequel(sequelOf(isVoid ? 'restored' : 'final', event, id));
        }
        expect(evaluator.open.size).toBe(0);
        expect(evaluator.open.oldest(0)).toBe(undefined);
      }),
      { numRuns: runs(1_000) },
    );
  });
});

const groupRule = fc
  .record({
    traders: wallets(8, 2),
    count: fc.integer({ min: 2, max: 3 }),
    within_seconds: fc.integer({ min: 1, max: 120 }),
    markets: fc.option(conditions(1)),
    min_usdc: fc.option(fc.integer({ min: 0, max: 20 })),
  })
  .map(({ count, markets, min_usdc, traders, within_seconds }) => ({
    ...{ type: 'group', traders, count: Math.min(count, traders.length), within_seconds },
    ...(markets !== null && { markets }),
    ...(min_usdc !== null && { min_usdc }),
  }));

/** A random FEED takes less than four times this, so a restart finds out where every move ended. */
const moveRule = fc.record({
  type: fc.constant('move'),
  markets: conditions(1),
  points: fc.integer({ min: 1, max: 60 }),
  within_seconds: fc.integer({ min: 300, max: 1_200 }),
});

/** Of few wallets and two markets, so that groups and moves happen. */
function fewMatch(n: number, seed: number): FeedMatch {
  const random = generator(seed);
  const one = (given: FeedFill): FeedFill => ({
    ...given,
    side: random() < 0.5 ? 'BUY' : 'SELL',
    outcomeIndex: random() < 0.5 ? 0 : 1,
    trader: fill(1 + Math.floor(random() * 8)).trader,
  });
  const given = randomMatch(n, random);
  return {
    ...{ ...given, conditionId: hash(2_000_000 + Math.floor(random() * 2)) },
    ...{ taker: one(given.taker), makers: given.makers.map(one) },
  };
}

/*
 * The process of evaluate.ts with arrays in place of the streams. It stores how far it is at some event, goes on, and dies; of what
 * it sent since the last sequel, any part may be stored.
 */
type Run = {
  /** Events until progress is stored. */
  readonly events: number;
  /** Events after that, until the process dies. */
  readonly beyond: number;
  /** Which of the last messages are stored. */
  readonly survives: readonly boolean[];
};

class Streams {
  readonly feed: readonly Stored[];
  readonly alerts: AlertMessage[] = [];
  /** Everything that any process sent, in order. */
  readonly published: AlertMessage[] = [];
  progress = { feed: 0, alerts: 1 };

  constructor(feed: readonly Stored[]) {
    this.feed = feed;
  }

  /** Stores each id once, as NATS does, and returns its sequence. */
  publish(message: AlertMessage): number {
    this.published.push(message);
    const former = this.alerts.findIndex(({ event }) => event.id === message.event.id);
    if (former >= 0) return former + 1;
    return this.alerts.push(AlertMessage.parse(JSON.parse(bodyOf(message))));
  }
}

/** As in evaluate.ts. */
const MARGIN_MS = 60_000;

/** One life of the process, over the FEED up to its death. */
function live(alerts: readonly AlertRecord[], streams: Streams, { beyond, events, survives }: Run) {
  const { feed } = streams;
  const evaluator = evaluatorOf(...alerts);
  const from = streams.progress.feed;
  for (const [n, message] of streams.alerts.entries()) {
    if (n + 1 >= streams.progress.alerts) evaluator.sent(message, n + 1);
  }
  const nowMs = feed[Math.min(from + events, feed.length) - 1]?.timestampMs ?? START_MS;
  const lastMs = feed[from - 1]?.timestampMs ?? nowMs;
  const oldest = evaluator.open.oldest(nowMs);
  const openMs = oldest === undefined ? lastMs : Date.parse(oldest.message.event.timestamp);
  const fromMs = Math.min(openMs, lastMs - evaluator.memorySeconds * 1_000) - MARGIN_MS;
  for (const one of feed) {
    if (one.timestampMs >= fromMs && one.sequence <= from) evaluated(evaluator, one);
  }
  const store = (through: number) => {
    const sequence = evaluator.open.oldest(nowMs)?.sequence;
    streams.progress = { feed: through, alerts: sequence ?? streams.alerts.length + 1 };
  };
  store(from);
  const end = Math.min(from + events + beyond, feed.length);
  let unsure: AlertMessage[] = [];
  const flush = () => {
    for (const message of unsure) evaluator.sent(message, streams.publish(message));
    unsure = [];
  };
  for (const one of feed.slice(from, end)) {
    if (one.event.kind !== 'match') flush();
    unsure.push(...evaluated(evaluator, one));
    if (one.sequence === from + events) {
      flush();
      store(one.sequence);
    }
  }
  if (end === feed.length) return flush();
  for (const [n, message] of unsure.entries()) {
    if (survives[n % survives.length]) streams.publish(message);
  }
}

/** As it is stored; the order of the members is that of the schema. */
function bodyOf(message: AlertMessage): string {
  return JSON.stringify(AlertMessage.parse(JSON.parse(JSON.stringify(message))));
}

describe('restarts', () => {
  const lives = fc.array(
    fc.record({
      events: fc.nat(12),
      beyond: fc.nat(6),
      survives: fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }),
    }),
    { maxLength: 8 },
  );
  const LAST: Run = { events: Number.MAX_SAFE_INTEGER, beyond: 0, survives: [true] };
  const steps = fc.array(step, { minLength: 1, maxLength: 60, size: 'max' });

  function same(alerts: readonly AlertRecord[], feed: readonly Stored[], all: readonly Run[]) {
    const streams = new Streams(feed);
    for (const run of [...all, LAST]) live(alerts, streams, run);
    const bodies = new Map<string, Set<string>>();
    for (const message of uninterrupted(alerts, feed).stored) {
      at(bodies, message.event.id, () => new Set<string>()).add(bodyOf(message));
    }
    expect(streams.alerts.map(({ event }) => event.id).toSorted()).toEqual(
      [...bodies.keys()].toSorted(),
    );
    for (const message of streams.published) {
      expect([...(bodies.get(message.event.id) ?? [])]).toContain(bodyOf(message));
    }
  }

  test.each([
    ['match', matchRule],
    ['group', groupRule],
    ['move', moveRule],
  ])('at any events change nothing about what %s rules send', (_, rule) => {
    fc.assert(
      fc.property(alertsOf(rule), steps, lives, (alerts, list, all) => {
        same(alerts, feedOf(list, fewMatch), all);
      }),
      { numRuns: runs(300) },
    );
  });

  /** Matches of outcome Yes, in FEED at `storedS`; the process restarts before the last one. */
  function restarted(
    rule: object,
    list: readonly {
      readonly s: number;
      readonly storedS?: number;
      readonly trader: number;
      readonly cents: number;
    }[],
  ) {
    const feed = list.map(({ cents, s, storedS = s, trader }, n): Stored => {
      const taker = fill(trader, { shares: 10_000_000n, usdc: BigInt(cents) * 100_000n });
      const event = match(n, { detectedAtMs: START_MS + s * 1_000, taker, makers: [] });
      return { sequence: n + 1, id: `m${n}`, timestampMs: START_MS + storedS * 1_000, event };
    });
    same([alertOf(rule)], feed, [{ events: list.length - 1, beyond: 0, survives: [true] }]);
  }
  const MOVE = { type: 'move', markets: [CONDITION], points: 10, within_seconds: 20 };
  const GROUP = { type: 'group', traders: [1, 2].map(address), count: 2, within_seconds: 60 };

  test('keep what the rules remember', () => {
    restarted(MOVE, [
      { s: 0, trader: 3, cents: 50 },
      { s: 19, trader: 3, cents: 60 },
    ]);
    restarted(GROUP, [
      { s: 0, trader: 1, cents: 50 },
      { s: 59, trader: 2, cents: 50 },
    ]);
  });

  test('keep where the last move ended', () => {
    restarted(MOVE, [
      ...[
        { s: 0, trader: 3, cents: 50 },
        { s: 6, trader: 3, cents: 55 },
      ],
      ...[
        { s: 10, trader: 3, cents: 60 },
        { s: 25, trader: 3, cents: 60 },
      ],
      { s: 25.5, trader: 3, cents: 65 },
    ]);
  });

  test('keep what a match that FEED gets late needs', () => {
    restarted(GROUP, [
      ...[
        { s: 0, trader: 1, cents: 50 },
        { s: 61, trader: 3, cents: 50 },
      ],
      { s: 59.5, storedS: 62, trader: 2, cents: 50 },
    ]);
  });
});
