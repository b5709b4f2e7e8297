import pino from 'pino';
import type { Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import { factsOf, ordersOf, type RawBlock } from '../../ingest/chain/blocks.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { decodeMatchCall } from '../../ingest/events/match-call.ts';
import { TokenMap } from '../../ingest/events/token-ids.ts';
import { blockOf } from '../../ingest/ledger/ledger-writer.ts';
import { atlas, EXCHANGE, POLYGON } from './fixtures.ts';

const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon' }));
const SENDER: Hex = `0x${'aa'.repeat(20)}`;
const [{ transactionHash: TX_HASH }] = atlas.logs as [(typeof atlas.logs)[0]];
const CALL = decodeMatchCall(atlas.input, EXCHANGE, POLYGON);

/** The block of the real match, with `input` instead of its calldata and `to` instead of the exchange. */
function block(input: Hex, to: string = EXCHANGE): RawBlock {
  const hash: Hex = `0x${'bb'.repeat(32)}`;
  const transactions = [{ hash: TX_HASH, from: SENDER, to, input }] as never;
  const head = { number: 1, hash, parentHash: hash, timestamp: 1_776_463_011 };
  return {
    block: { ...head, transactions },
    logs: atlas.logs.filter(({ address }) => address === EXCHANGE),
  };
}

/** Knows only markets that can be derived from a condition, and `listed` tokens. */
function markets(listed: ReadonlyMap<string, Hex> = new Map()) {
  const tokens = new TokenMap(CHAIN, pino({ enabled: false }));
  return {
    outcomeOf: tokens.outcomeOf.bind(tokens),
    conditionOfToken: async (tokenId: string) => listed.get(tokenId),
  };
}

describe('factsOf', () => {
  test('finds the market in the calldata, and the orders on request', async () => {
    const { matches, refused } = await factsOf(block(atlas.input), CHAIN, markets());
    expect(refused).toEqual([]);
    expect(matches).toHaveLength(1);
    const [match] = matches as [(typeof matches)[0]];
    expect(match).toMatchObject({ conditionId: CALL.conditionId, sender: SENDER, ordinal: 0 });
    const fills = [...CALL.makers, CALL.taker];
    expect(match.fills.map(({ orderHash }) => orderHash)).toEqual(
      fills.map((one) => one.orderHash),
    );
    expect(ordersOf(match, POLYGON)).toEqual(
      new Map(fills.map(({ orderHash, order }) => [orderHash, order])),
    );
  });

  test('returns the same LEDGER events from calldata, from the beginning of calldata, or from metadata', async () => {
    const listed = new Map(
      [CALL.taker, ...CALL.makers].map(({ tokenId }) => [`${tokenId}`, CALL.conditionId]),
    );
    const whole = await factsOf(block(atlas.input), CHAIN, markets());
    const head = atlas.input.slice(0, 74) as Hex;
    const others = [
      await factsOf(block(head), CHAIN, markets()),
      await factsOf(block('0x'), CHAIN, markets(listed)),
      await factsOf(block(atlas.input, SENDER), CHAIN, markets(listed)),
    ];
    for (const facts of others) {
      expect(blockOf(facts, false)).toEqual(blockOf(whole, false));
      for (const match of facts.matches) expect(ordersOf(match, POLYGON)).toEqual(new Map());
    }
  });

  test('rejects a condition that does not match the tokens', async () => {
    const other = atlas.input.replace(CALL.conditionId.slice(2), '12'.repeat(32)) as Hex;
    const { matches, refused } = await factsOf(block(other), CHAIN, markets());
    expect(matches).toEqual([]);
    expect(refused.map(({ error }) => error.reason)).toEqual(['unknown_token']);
  });
});
