/** An operator, who may send matches, was added to an exchange or removed from it. LEDGER does not store this. */
import { type Hex, toEventSelector } from 'viem';
import { addressTopic, type EventKind } from './log.ts';

const NEW_OPERATOR = toEventSelector('NewOperator(address,address)');
const REMOVED_OPERATOR = toEventSelector('RemovedOperator(address,address)');

export type LoggedOperator = {
  readonly kind: 'operator';
  readonly exchange: Hex;
  readonly operator: Hex;
  readonly allowed: boolean;
};

export const OPERATOR: EventKind<LoggedOperator> = {
  contract: 'exchange',
  topics: [NEW_OPERATOR, REMOVED_OPERATOR],
  reader: () => ({
    read: (log) => ({
      kind: 'operator',
      exchange: log.address,
      operator: addressTopic(log, 1),
      allowed: log.topics[0] === NEW_OPERATOR,
    }),
  }),
};
