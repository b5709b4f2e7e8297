/**
 * The parts of the contracts' interfaces that the devnet itself calls or reads, typed for viem.
 * The whole interfaces are in artifacts.json.
 */
import { parseAbi } from 'viem';

export const exchangeAbi = parseAbi([
  'struct Order { uint256 salt; address maker; address signer; uint256 tokenId; uint256 makerAmount; uint256 takerAmount; uint8 side; uint8 signatureType; uint256 timestamp; bytes32 metadata; bytes32 builder; bytes signature; }',
  'function matchOrders(bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts)',
  'function addOperator(address operator)',
  'function removeOperator(address operator)',
  'function hashOrder(Order order) view returns (bytes32)',
  'event OrderFilled(bytes32 indexed orderHash, address indexed maker, address indexed taker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee, bytes32 builder, bytes32 metadata)',
  'event OrdersMatched(bytes32 indexed takerOrderHash, address indexed takerOrderMaker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled)',
  'event FeeCharged(address indexed receiver, uint256 amount)',
  'event NewOperator(address indexed operator, address indexed admin)',
  'event RemovedOperator(address indexed operator, address indexed admin)',
]);

export const conditionalTokensAbi = parseAbi([
  'function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount)',
  'function reportPayouts(bytes32 questionId, uint256[] payouts)',
  'function redeemPositions(bytes32 conditionId, address[] owners)',
  'function setSpenders(address[] spenders)',
  'function balanceOf(address owner, uint256 id) view returns (uint256)',
  'function balanceOfBatch(address[] owners, uint256[] ids) view returns (uint256[])',
  'function positionIds(bytes32 conditionId) view returns (uint256[2])',
  'function derivePositionIds(address token, bytes32 conditionId) view returns (uint256, uint256)',
  'event ConditionPreparation(bytes32 indexed conditionId, address indexed oracle, bytes32 indexed questionId, uint256 outcomeSlotCount)',
  'event ConditionResolution(bytes32 indexed conditionId, address indexed oracle, bytes32 indexed questionId, uint256 outcomeSlotCount, uint256[] payoutNumerators)',
]);

export const pusdAbi = parseAbi([
  'function mint(address[] owners, uint256[] values)',
  'function setSpenders(address[] spenders)',
  'function balanceOf(address owner) view returns (uint256)',
  'function totalSupply() view returns (uint256)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
]);
