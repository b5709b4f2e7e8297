/**
 * An operator, who may send matches, was added to an exchange or removed from it; in version 3 by its roles. LEDGER does not
 * store this.
 */
import { type Hex, toEventSelector } from 'viem';
import { addressTopic, type ChainLog, DecodeError, type EventKind } from './log.ts';

const NEW_OPERATOR = toEventSelector('NewOperator(address,address)');
const REMOVED_OPERATOR = toEventSelector('RemovedOperator(address,address)');
export const ROLES_UPDATED = toEventSelector('RolesUpdated(address,uint256)');
/** The role of operators among the bits of the roles. */
const OPERATOR_ROLE = 2n;

export type LoggedOperator = {
  readonly kind: 'operator';
  readonly exchange: Hex;
  readonly operator: Hex;
  readonly allowed: boolean;
};

export const OPERATOR: EventKind<LoggedOperator> = {
  contract: 'exchange',
  topics: [NEW_OPERATOR, REMOVED_OPERATOR, ROLES_UPDATED],
  reader: () => ({
    read: (log) => ({
      kind: 'operator',
      exchange: log.address,
      operator: addressTopic(log, 1),
      allowed: log.topics[0] === NEW_OPERATOR || isOperator(log),
    }),
  }),
};

function isOperator({ topics: [event, , roles] }: ChainLog): boolean {
  if (event !== ROLES_UPDATED) return false;
  if (roles === undefined) throw new DecodeError('bad_topics', 'no roles');
  return (BigInt(roles) & OPERATOR_ROLE) !== 0n;
}
