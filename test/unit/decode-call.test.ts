import fc from 'fast-check';
import { encodeFunctionData, type Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import { decodeLogs } from '../../ingest/events/decode.ts';
import { DecodeError } from '../../ingest/events/log.ts';
import {
  type CalledMatch,
  conditionOfCall,
  decodeMatchCall,
  MATCH_ORDERS_ABI,
  makersOfCall,
} from '../../ingest/events/match-call.ts';
import { atlas, EXCHANGE, POLYGON, WATCHED } from './fixtures.ts';

const BUY = 0;
const SELL = 1;
const YES = 1001n;
const WORD = 32;
const SELECTOR_BYTES = 4;

type OrderGiven = {
  readonly side: number;
  readonly tokenId: bigint;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly timestamp?: bigint;
};

function order(given: OrderGiven) {
  return {
    salt: 7n,
    maker: '0x00000000000000000000000000000000000000aa',
    signer: '0x00000000000000000000000000000000000000bb',
    signatureType: 2,
    timestamp: 1_776_463_011_256n,
    metadata: `0x${'0'.repeat(64)}`,
    builder: `0x${'0'.repeat(64)}`,
    signature: '0x',
    ...given,
  } as const;
}

type CallGiven = {
  readonly taker: OrderGiven;
  readonly makers: readonly (OrderGiven & { readonly fill: bigint; readonly fee?: bigint })[];
  readonly takerFill: bigint;
  readonly takerFee?: bigint;
};

function encode({ taker, makers, takerFill, takerFee = 0n }: CallGiven): Hex {
  return encodeFunctionData({
    abi: MATCH_ORDERS_ABI,
    args: [
      `0x${'11'.repeat(32)}`,
      order(taker),
      makers.map(({ fill: _fill, fee: _fee, ...maker }) => order(maker)),
      takerFill,
      makers.map((maker) => maker.fill),
      takerFee,
      makers.map((maker) => maker.fee ?? 0n),
    ],
  });
}

const decode = (given: CallGiven) => decodeMatchCall(encode(given), EXCHANGE, POLYGON);
const amounts = ({ taker, makers }: CalledMatch) =>
  [taker, ...makers].map(({ shares, usdc, fee }) => ({ shares, usdc, fee }));

function reasonOf(decoding: () => unknown): string {
  try {
    decoding();
  } catch (error) {
    if (error instanceof DecodeError) return error.reason;
    throw error;
  }
  return 'decoded';
}

describe('decodeMatchCall', () => {
  test('predicts the receipt of the real transaction', () => {
    const call = decodeMatchCall(atlas.input, EXCHANGE, POLYGON);
    const logs = atlas.logs.filter((log) => log.address === EXCHANGE);
    const [match] = decodeLogs(logs, WATCHED).events.filter((event) => event.kind === 'match');
    const common = (fill: Omit<CalledMatch['taker'], 'order'>) => ({
      orderHash: fill.orderHash,
      trader: fill.trader,
      side: fill.side,
      tokenId: fill.tokenId,
      shares: fill.shares,
      usdc: fill.usdc,
      fee: fill.fee,
    });
    expect([...call.makers, call.taker].map(common)).toEqual(match?.fills.map(common));
    expect(call.conditionId).toBe(
      '0x182390641d3b1b47cc64274b9da290efd04221c586651ba190880713da6347d9',
    );
    expect(call.taker.order).toEqual({
      shares: 2_040_000n,
      usdc: 1_000_000n,
      signatureType: 2,
      timestampMs: 1_776_463_011_256,
    });
  });

  test('gives a buying taker all that complementary makers give, including price improvement', () => {
    const call = decode({
      taker: { side: BUY, tokenId: YES, makerAmount: 600n, takerAmount: 1_000n },
      makers: [
        { side: SELL, tokenId: YES, makerAmount: 400n, takerAmount: 200n, fill: 400n },
        { side: SELL, tokenId: YES, makerAmount: 600n, takerAmount: 330n, fill: 600n, fee: 3n },
      ],
      takerFill: 600n,
      takerFee: 9n,
    });
    expect(amounts(call)).toEqual([
      { shares: 1_000n, usdc: 530n, fee: 9n },
      { shares: 400n, usdc: 200n, fee: 0n },
      { shares: 600n, usdc: 330n, fee: 3n },
    ]);
  });

  test("rounds a maker's taking amount down", () => {
    const call = decode({
      taker: { side: SELL, tokenId: YES, makerAmount: 10n, takerAmount: 1n },
      makers: [{ side: BUY, tokenId: YES, makerAmount: 3n, takerAmount: 10n, fill: 2n }],
      takerFill: 10n,
    });
    expect(amounts(call)).toEqual([
      { shares: 6n, usdc: 2n, fee: 0n },
      { shares: 6n, usdc: 2n, fee: 0n },
    ]);
  });

  test('returns 0 for a missing or impossible timestamp', () => {
    for (const timestamp of [0n, 2n ** 200n]) {
      const call = decode({
        taker: { side: BUY, tokenId: YES, makerAmount: 5n, takerAmount: 10n, timestamp },
        makers: [{ side: SELL, tokenId: YES, makerAmount: 10n, takerAmount: 5n, fill: 10n }],
        takerFill: 5n,
      });
      expect(call.taker.order.timestampMs).toBe(0);
    }
  });

  test('rejects malformed matches, each with its own reason', () => {
    const maker = { side: SELL, tokenId: YES, makerAmount: 10n, takerAmount: 5n, fill: 10n };
    const taker = { side: BUY, tokenId: YES, makerAmount: 5n, takerAmount: 10n };
    const reason = (given: CallGiven) => reasonOf(() => decode(given));
    expect(reason({ taker, makers: [], takerFill: 1n })).toBe('no_makers');
    expect(reason({ taker, makers: [{ ...maker, makerAmount: 0n }], takerFill: 1n })).toBe(
      'zero_maker_amount',
    );
    expect(reason({ taker: { ...taker, side: 2 }, makers: [maker], takerFill: 1n })).toBe(
      'bad_side',
    );
    expect(reason({ taker, makers: [{ ...maker, fill: 2n ** 60n }], takerFill: 1n })).toBe(
      'amount_too_large',
    );
    expect(reasonOf(() => decodeMatchCall('0x2287e350', EXCHANGE, POLYGON))).toBe(
      'not_match_orders',
    );
  });

  test('rejects every truncation of the real call, always with DecodeError', () => {
    const bytes = (atlas.input.length - 2) / 2;
    for (let length = 4; length < bytes; length += 7) {
      const cut = atlas.input.slice(0, 2 + length * 2) as Hex;
      // The padding after the last signature may be cut without changing the meaning.
      const reason = reasonOf(() => decodeMatchCall(cut, EXCHANGE, POLYGON));
      expect(['bad_calldata', 'decoded']).toContain(reason);
      if (length < bytes - 32 * 6) expect(reason).toBe('bad_calldata');
    }
  });

  test('survives garbage after the selector', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
        const data: Hex = `0x3c2b4399${Buffer.from(bytes).toString('hex')}`;
        expect(reasonOf(() => decodeMatchCall(data, EXCHANGE, POLYGON))).not.toBe('decoded');
      }),
    );
  });

  test('survives any flipped byte of the real call', () => {
    const bytes = (atlas.input.length - 2) / 2;
    fc.assert(
      fc.property(fc.nat(bytes - 5), fc.integer({ min: 1, max: 255 }), (index, flip) => {
        const buffer = Buffer.from(atlas.input.slice(2), 'hex');
        buffer[index + 4] = (buffer[index + 4] ?? 0) ^ flip;
        reasonOf(() => decodeMatchCall(`0x${buffer.toString('hex')}`, EXCHANGE, POLYGON));
      }),
    );
  });
});

const uint = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }),
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
);
const bytes = (minLength: number, maxLength = minLength) =>
  fc
    .uint8Array({ minLength, maxLength })
    .map((array): Hex => `0x${Buffer.from(array).toString('hex')}`);
const amount = fc.bigInt({ min: 1n, max: 2n ** 40n });
const anyOrder = fc.record({
  salt: uint,
  maker: bytes(20),
  signer: bytes(20),
  tokenId: uint,
  makerAmount: amount,
  takerAmount: amount,
  side: fc.nat(1),
  signatureType: fc.nat(255),
  timestamp: uint,
  metadata: bytes(32),
  builder: bytes(32),
  signature: bytes(0, 100),
});
/** Every maker takes the opposite side of the taker and fills a single unit. */
const anyCall = fc
  .tuple(bytes(32), anyOrder, fc.array(anyOrder, { minLength: 1, maxLength: 4 }), amount)
  .map(([conditionId, taker, others, fee]) => {
    const makers = others.map((maker) => ({ ...maker, side: 1 - taker.side, takerAmount: 1n }));
    const ones = makers.map(() => 1n);
    const args = [conditionId, taker, makers, 1n, ones, fee, ones] as const;
    return {
      conditionId,
      taker,
      makers,
      fee,
      input: encodeFunctionData({ abi: MATCH_ORDERS_ABI, args }),
    };
  });

/** The real call with a word of its arguments replaced. */
function withWord(word: number, value: bigint): Hex {
  const data = Buffer.from(atlas.input.slice(2), 'hex');
  const digits = value.toString(16).padStart(2 * WORD, '0');
  data.write(digits, SELECTOR_BYTES + word * WORD, 'hex');
  return `0x${data.toString('hex')}`;
}

describe('the arguments of a call', () => {
  test('decode to what was encoded, with any signatures', () => {
    fc.assert(
      fc.property(anyCall, ({ conditionId, taker, makers, fee, input }) => {
        const call = decodeMatchCall(input, EXCHANGE, POLYGON);
        expect(call.conditionId).toBe(conditionId);
        expect(call.taker.fee).toBe(fee);
        expect(conditionOfCall(input)).toBe(conditionId);
        expect(makersOfCall(input)).toBe(makers.length);
        for (const [i, fill] of [call.taker, ...call.makers].entries()) {
          const { maker, tokenId, makerAmount, takerAmount, side, signatureType } = [
            taker,
            ...makers,
          ][i] as typeof taker;
          const [usdc, shares] =
            side === BUY ? [makerAmount, takerAmount] : [takerAmount, makerAmount];
          expect(fill).toMatchObject({
            trader: maker,
            tokenId: `${tokenId}`,
            order: { usdc, shares, signatureType },
          });
        }
      }),
    );
  });

  test('may be followed by more data, which the contract ignores', () => {
    const followed: Hex = `${atlas.input}${'7f'.repeat(33)}`;
    expect(decodeMatchCall(followed, EXCHANGE, POLYGON)).toEqual(
      decodeMatchCall(atlas.input, EXCHANGE, POLYGON),
    );
  });

  test('are rejected with non-zero padding, non-hex digits, or offsets out of range', () => {
    const [TAKER, MAKERS, MAKER_FILLS, MAKER_FEES] = [1, 2, 4, 6];
    const [TAKER_MAKER, TAKER_SIGNER, TAKER_SIDE, TAKER_TYPE, TAKER_SIGNATURE] = [8, 9, 13, 14, 18];
    const isDirty = [
      withWord(TAKER_MAKER, 1n << 160n),
      withWord(TAKER_SIGNER, 1n << 255n),
      withWord(TAKER_SIDE, 256n),
      withWord(TAKER_TYPE, 1n << 64n),
      `${atlas.input.slice(0, -2)}zz`,
      `${atlas.input}0`,
    ] as readonly Hex[];
    const isOutside = [TAKER, MAKERS, MAKER_FILLS, MAKER_FEES, TAKER_SIGNATURE].flatMap((word) =>
      [2n ** 31n, 2n ** 53n, 2n ** 64n, 2n ** 256n - 32n].map((value) => withWord(word, value)),
    );
    for (const input of [...isDirty, ...isOutside]) {
      expect(reasonOf(() => decodeMatchCall(input, EXCHANGE, POLYGON))).toBe('bad_calldata');
    }
  });

  test('are rejected with a length beyond the data, or with overlapping arrays', () => {
    const data = Buffer.from(atlas.input.slice(10), 'hex');
    const wordAt = (word: number) => Number(data.readBigUInt64BE(word * WORD + 24));
    const lengths = [2, 4, 6].map((word) => wordAt(word) / WORD);
    for (const at of lengths) {
      for (const length of [1_000n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 256n - 1n]) {
        const input = withWord(at, length);
        expect(reasonOf(() => decodeMatchCall(input, EXCHANGE, POLYGON))).toBe('bad_calldata');
      }
    }
    // An array of 100,000 orders that are all the same bytes.
    const many = Buffer.alloc(WORD * 100_000);
    for (let at = 0; at < many.length; at += WORD) many.writeUInt32BE(many.length, at + WORD - 4);
    const orders = Buffer.concat([
      Buffer.from((100_000).toString(16).padStart(2 * WORD, '0'), 'hex'),
      many,
      data.subarray(wordAt(1), wordAt(1) + 14 * WORD),
    ]);
    const head = Buffer.from(data);
    head.writeBigUInt64BE(BigInt(data.length), 2 * WORD + 24);
    const hostile: Hex = `0x3c2b4399${Buffer.concat([head, orders]).toString('hex')}`;
    expect(reasonOf(() => decodeMatchCall(hostile, EXCHANGE, POLYGON))).toBe('bad_calldata');
  });

  test('reveal condition and makers only in a matchOrders call', () => {
    expect(conditionOfCall(atlas.input.slice(0, 72) as Hex)).toBeUndefined();
    for (const input of [`0x00000000${atlas.input.slice(10)}`, '0x', '0x3c2b4399'] as const) {
      expect(conditionOfCall(input)).toBeUndefined();
      expect(makersOfCall(input)).toBeUndefined();
    }
    expect(makersOfCall(atlas.input)).toBe(1);
  });
});
