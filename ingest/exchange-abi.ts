/**
 * The parts of the V2 exchange, ConditionalTokens and pUSD contracts that ingest reads: one function,
 * the events with their topics. Source: the contracts' source, topics checked in
 * test/unit/exchange-abi.test.ts. V1 events have the same names and other topics: they never match.
 */
import { parseAbi, toEventSelector, toFunctionSelector } from 'viem';

const ORDER =
  'struct Order { uint256 salt; address maker; address signer; uint256 tokenId; uint256 makerAmount; uint256 takerAmount; uint8 side; uint8 signatureType; uint256 timestamp; bytes32 metadata; bytes32 builder; bytes signature; }';

export const MATCH_ORDERS_ABI = parseAbi([
  ORDER,
  'function matchOrders(bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts)',
]);

export const BALANCE_OF_ABI = parseAbi([
  'function balanceOf(address owner) view returns (uint256)',
]);

/** First four bytes of a `matchOrders` call. */
export const MATCH_ORDERS_SELECTOR = toFunctionSelector(MATCH_ORDERS_ABI[0]);

/** topic0 of each event. */
export const TOPICS = {
  orderFilled: toEventSelector(
    'OrderFilled(bytes32,address,address,uint8,uint256,uint256,uint256,uint256,bytes32,bytes32)',
  ),
  ordersMatched: toEventSelector('OrdersMatched(bytes32,address,uint8,uint256,uint256,uint256)'),
  feeCharged: toEventSelector('FeeCharged(address,uint256)'),
  newOperator: toEventSelector('NewOperator(address,address)'),
  removedOperator: toEventSelector('RemovedOperator(address,address)'),
  conditionResolution: toEventSelector(
    'ConditionResolution(bytes32,address,bytes32,uint256,uint256[])',
  ),
} as const;
