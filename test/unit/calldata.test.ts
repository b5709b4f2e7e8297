/** Reading of calldata by hand against viem's general decoder. */
import fc from 'fast-check';
import { decodeFunctionData, encodeFunctionData, type Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import { conditionOfCall, type Order, readArguments } from '../../ingest/calldata.ts';
import { DecodeError } from '../../ingest/decode-error.ts';
import { MATCH_ORDERS_ABI } from '../../ingest/exchange-abi.ts';
import { atlas } from './fixtures.ts';

const WORD = 32;
const SELECTOR_BYTES = 4;

const uint = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 53n }),
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
);
const bytes = (minLength: number, maxLength = minLength) =>
  fc
    .uint8Array({ minLength, maxLength })
    .map((array): Hex => `0x${Buffer.from(array).toString('hex')}`);
const anyOrder = fc.record({
  salt: uint,
  maker: bytes(20),
  signer: bytes(20),
  tokenId: uint,
  makerAmount: uint,
  takerAmount: uint,
  side: fc.nat(255),
  signatureType: fc.nat(255),
  timestamp: uint,
  metadata: bytes(32),
  builder: bytes(32),
  signature: bytes(0, 100),
});
const anyCall = fc
  .tuple(
    bytes(32),
    anyOrder,
    fc.array(anyOrder, { maxLength: 4 }),
    uint,
    fc.array(uint, { maxLength: 4 }),
    uint,
    fc.array(uint, { maxLength: 4 }),
  )
  .map((args) => encodeFunctionData({ abi: MATCH_ORDERS_ABI, args }));

/** The call as viem reads it, in the same form; undefined where viem refuses it. */
function byViem(input: Hex) {
  let args: ReturnType<typeof decodeFunctionData<typeof MATCH_ORDERS_ABI>>['args'];
  try {
    args = decodeFunctionData({ abi: MATCH_ORDERS_ABI, data: input }).args;
  } catch {
    return undefined;
  }
  const [conditionId, takerOrder, makerOrders, takerFillAmount, makerFillAmounts, ...fees] = args;
  const [takerFeeAmount, makerFeeAmounts] = fees;
  return {
    ...{ conditionId, takerFillAmount, makerFillAmounts, takerFeeAmount, makerFeeAmounts },
    takerOrder: common(takerOrder),
    makerOrders: makerOrders.map(common),
  };
}

function byHand(input: Hex) {
  try {
    const { takerOrder, makerOrders, ...others } = readArguments(input);
    return { ...others, takerOrder: common(takerOrder), makerOrders: makerOrders.map(common) };
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return undefined;
  }
}

function common(order: Omit<Order, 'words'>) {
  const { maker, tokenId, makerAmount, takerAmount, side, signatureType, timestamp } = order;
  const amounts = { tokenId, makerAmount, takerAmount, timestamp };
  return { maker: maker.toLowerCase(), side, signatureType, ...amounts };
}

describe('readArguments', () => {
  test('reads what a general decoder reads, from the real call and from any other', () => {
    expect(byHand(atlas.input)).toEqual(byViem(atlas.input));
    fc.assert(
      fc.property(anyCall, (input) => {
        expect(byHand(input)).toBeDefined();
        expect(byHand(input)).toEqual(byViem(input));
      }),
    );
  });

  test('takes no call with a changed word for another than a general decoder does', () => {
    fc.assert(
      fc.property(anyCall, fc.nat(), fc.nat(WORD - 1), fc.nat(255), (input, word, byte, value) => {
        const data = Buffer.from(input.slice(2), 'hex');
        const words = Math.floor((data.length - SELECTOR_BYTES) / WORD);
        data[SELECTOR_BYTES + (word % words) * WORD + byte] = value;
        const changed: Hex = `0x${data.toString('hex')}`;
        const read = byHand(changed);
        // It may refuse more: the contract reverts on an address with something in its upper bytes.
        if (read !== undefined) expect(read).toEqual(byViem(changed));
      }),
      { numRuns: 2_000 },
    );
  });

  test('refuses what ends early, a dirty address, a number that is no uint8, and what is no hex', () => {
    const whole = atlas.input;
    const at = (word: number) => 2 + 2 * (SELECTOR_BYTES + word * WORD);
    const changed = (place: number, text: string): Hex =>
      `${whole.slice(0, place)}${text}${whole.slice(place + text.length)}` as Hex;
    const [TAKER_MAKER, TAKER_SIGNER, TAKER_SIDE] = [8, 9, 13];
    for (const input of [
      changed(at(TAKER_MAKER), '01'),
      changed(at(TAKER_SIGNER), '01'),
      changed(at(TAKER_SIDE), '01'),
      changed(at(TAKER_SIDE), 'zz'),
      whole.slice(0, at(40)) as Hex,
      whole.slice(0, 11) as Hex,
    ]) {
      expect(() => readArguments(input)).toThrow(DecodeError);
    }
  });
});

describe('conditionOfCall', () => {
  test('is the first argument, and undefined where there is none', () => {
    const { conditionId } = readArguments(atlas.input);
    expect(conditionOfCall(atlas.input)).toBe(conditionId);
    expect(conditionOfCall(atlas.input.slice(0, 72) as Hex)).toBeUndefined();
    expect(conditionOfCall(`0x00000000${'11'.repeat(32)}`)).toBeUndefined();
  });
});
