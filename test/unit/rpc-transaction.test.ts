import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RpcAnswerError } from '../../ingest/rpc-error.ts';
import { parseTransactions } from '../../ingest/rpc-transaction.ts';
import atlas from '../fixtures/atlas-0001-tx.json' with { type: 'json' };

const Quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/)
  .transform(Number)
  .pipe(z.int());
/** What parseTransactions accepts and makes, as a schema. */
const Transactions = z.array(
  z.object({
    hash: z.string().regex(/^0x([0-9a-f]{2})*$/),
    from: z.string().toLowerCase(),
    to: z.string().toLowerCase().nullable().optional(),
    nonce: Quantity,
    input: z.string().toLowerCase(),
  }),
);

function byHand(value: unknown): unknown {
  try {
    return parseTransactions(value);
  } catch (error) {
    if (!(error instanceof RpcAnswerError)) throw error;
    return undefined;
  }
}

const real: Readonly<Record<string, unknown>> = atlas.result;
const anything = fc.oneof(
  fc.anything(),
  fc.constantFrom(null, undefined, '', '0x', '0x0', '0xAB', '0xab', '0xabc', 'ab'),
  fc.constant('0x20000000000001'),
);

describe('parseTransactions', () => {
  test('reads a real transaction as the schema does, with or without a receiver', () => {
    const { to: _to, ...creation } = real;
    for (const one of [real, creation, { ...real, to: null }]) {
      expect(parseTransactions([one])).toEqual(Transactions.parse([one]));
    }
  });

  test('accepts and refuses what the schema does, whatever one field or the whole is', () => {
    const fields = ['hash', 'from', 'to', 'nonce', 'input'];
    fc.assert(
      fc.property(fc.constantFrom(...fields), anything, (name, value) => {
        for (const changed of [[{ ...real, [name]: value }], [value], value]) {
          const expected = Transactions.safeParse(changed);
          expect(byHand(changed)).toEqual(expected.success ? expected.data : undefined);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
