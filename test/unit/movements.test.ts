/** Movements of the constructed transactions of test/fixtures/shares-cases.json. */
import type { Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import { MATCH } from '../../ingest/events/match.ts';
import { KnownMarkets } from '../../ingest/events/shares/known-markets.ts';
import { movementsOf, type TokenPlace } from '../../ingest/events/shares/movements.ts';
import type { ShareContracts } from '../../ingest/events/shares/share-logs.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { cases, ids, logOf, names, of } from '../support/share-cases.ts';
import { shareLogsOf } from './fixtures.ts';

const CONTRACTS: ShareContracts = {
  conditionalTokens: of('CTF'),
  collateral: of('USDCE'),
  negRiskCollateral: of('WCOL'),
  negRiskAdapter: of('NRA'),
  exchanges: new Set([of('X'), of('XN'), of('X3')]),
  silentAdapters: new Set([of('G1'), of('G1N')]),
  adapters: new Set([of('G2'), of('G2N')]),
  redeemers: new Set([of('AR2'), of('AR3')]),
  burn: of('BURN'),
  others: new Set([of('WCOL'), of('VAULT')]),
  v2: { positionManager: of('PM'), modules: new Set([of('BIN'), of('NRM'), of('CMB')]) },
};
const PLACES = new Map<string, TokenPlace>();
for (const [condition, [first, second]] of Object.entries({
  C0: ['Y', 'N'],
  C1: ['Y0', 'N0'],
  C2: ['Y1', 'N1'],
  C3: ['Y2', 'N2'],
  C4: ['Y3', 'N3'],
} as Record<string, [string, string]>)) {
  for (const [index, id] of [first, second].entries()) {
    PLACES.set(BigInt(ids[id] ?? 0).toString(), {
      conditionId: of(condition),
      outcomeIndex: index as 0 | 1,
    });
  }
}

test('the ids of the fixture are those of its conditions', () => {
  expect(positionIds(of('USDCE'), of('C0'))).toEqual([BigInt(ids.Y ?? 0), BigInt(ids.N ?? 0)]);
  expect(positionIds(of('WCOL'), of('C4'))).toEqual([BigInt(ids.Y3 ?? 0), BigInt(ids.N3 ?? 0)]);
});

describe('the movements of a transaction', () => {
  for (const { id, what, logs: rows, expect: expected } of cases) {
    test(`${id}: ${what}`, () => {
      const logs = rows.map(logOf);
      const reader = MATCH.reader();
      const matches = logs
        .filter(
          ({ address, topics }) =>
            CONTRACTS.exchanges.has(address) && MATCH.topics.includes(topics[0] as Hex),
        )
        .flatMap((log) => reader.read(log) ?? []);
      const fills = matches.flatMap((match) => match.fills);
      const known = new KnownMarkets();
      const placeOf = (token: string) => PLACES.get(token) ?? known.placeOf(token);
      const found = movementsOf(shareLogsOf(logs, CONTRACTS), fills, CONTRACTS, placeOf);
      const shown = found.map(({ kind, trader, conditionId, change, counterparty }) => [
        kind,
        trader,
        conditionId,
        Number(change[0]),
        Number(change[1]),
        ...(counterparty === '' ? [] : [counterparty]),
      ]);
      const wanted = expected.movements.map((row) =>
        row.map((value) => (typeof value === 'string' && value in names ? names[value] : value)),
      );
      const sorted = (all: unknown[][]) => all.map((one) => JSON.stringify(one)).sort();
      expect(sorted(shown)).toEqual(sorted(wanted as unknown[][]));
    });
  }
});
