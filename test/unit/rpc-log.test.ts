import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RpcAnswerError } from '../../ingest/rpc-error.ts';
import { parseLogs } from '../../ingest/rpc-log.ts';
import receipt from '../fixtures/atlas-0001-receipt.json' with { type: 'json' };

const lowerCase = z.string().toLowerCase();
const Data = z.string().regex(/^0x([0-9a-f]{2})*$/);
const Quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/)
  .transform(Number)
  .pipe(z.int());
/** What parseLogs accepts and makes, as a schema. */
const Logs = z.array(
  z.object({
    address: lowerCase,
    topics: z.array(Data),
    data: lowerCase.pipe(Data),
    transactionHash: Data,
    logIndex: Quantity,
    blockHash: Data,
    blockNumber: Quantity,
  }),
);

function byHand(value: unknown): unknown {
  try {
    return parseLogs(value);
  } catch (error) {
    if (!(error instanceof RpcAnswerError)) throw error;
    return undefined;
  }
}

const real = receipt.result.logs;
const first: Readonly<Record<string, unknown>> = { ...real[0] };
const anything = fc.oneof(
  fc.anything(),
  fc.constantFrom('', '0x', '0x0', '0xAB', '0xab', '0xabc', 'ab', '0x20000000000001'),
  fc.array(fc.constantFrom('0x', '0xab', '0xAB', '0xa', 7), { maxLength: 4 }),
);

describe('parseLogs', () => {
  test('reads the real receipt as the schema does', () => {
    expect(parseLogs(real)).toEqual(Logs.parse(real));
  });

  test('accepts and refuses what the schema does, whatever one field or the whole is', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(first)), anything, (name, value) => {
        const one = { ...first, [name]: value };
        // After another log, of which a field may be the same.
        for (const changed of [[one], [first, one], [one, first], [value], value]) {
          const expected = Logs.safeParse(changed);
          expect(byHand(changed)).toEqual(expected.success ? expected.data : undefined);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
