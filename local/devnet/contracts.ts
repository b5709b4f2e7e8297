/**
 * The devnet's contracts: their addresses, the parts of their interfaces that the devnet uses, and their
 * deployment. The accounts are those of anvil's default mnemonic ("test test … junk"). Contract addresses
 * follow from the deployer and its first nonces, so they are the same on every devnet; ingest/events/chains.ts
 * names them too.
 */
import { encodeDeployData, encodeFunctionData, type Hex, parseAbi } from 'viem';
import artifacts from './artifacts.json' with { type: 'json' };
import { type Rpc, Sender } from './rpc.ts';

export const CHAIN_ID = 31337;

/** Account 0: deploys and administers the contracts, mints pUSD and, as ORACLE, resolves conditions. */
export const DEPLOYER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';
export const ORACLE = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';

/** Accounts 1 to 3: the exchanges' operators, who send every match. */
export const OPERATORS = [
  '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  '0x90F79bf6EB2c4f870365E785982E1f101E93b906',
] as const;

/** Account 4: not an operator; sends well-formed matches that revert. */
export const STRANGER = '0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65';

/** Account 5. */
export const FEE_RECEIVER = '0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc';

/** Account 6: takes the fees of conversions. */
export const VAULT = '0x976EA74026E726554dB657fA54763abd0C3a0aa9';

/** Deployer nonces 0 to 16, in this order. */
export const PUSD = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
export const CONDITIONAL_TOKENS = '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512';
export const EXCHANGE = '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0';
export const NEG_RISK_EXCHANGE = '0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9';
export const WRAPPED_COLLATERAL = '0xDc64a140Aa3E981100a9becA4E685f962f0cF6C9';
export const NEG_RISK_ADAPTER = '0x5FC8d32690cc91D4c39d9d3abcBD16989F875707';
export const SILENT_ADAPTER = '0x0165878A594ca255338adfa4d48449f69242Eb8F';
export const LOGGING_ADAPTER = '0xa513E6E4b8f2a923D98304ec87F64353C4D5C853';
export const REDEEMER = '0x2279B7A0a67DB372996a5FaB50D91eAA73d2eBe6';
/** Trades the markets of the neg-risk adapter. Those of the calendar have another oracle (NEG_RISK_EXCHANGE). */
export const WRAPPED_EXCHANGE = '0x8A791620dd6260079BF849Dc5567aDC3F2FdC318';

/** Protocol version 2. */
export const POSITION_MANAGER = '0x610178dA211FEF7D417bC0e6FeD39F05609AD788';
export const BINARY_MODULE = '0xB7f8BC63BbcaD18155201308C8f3540b07f84F5e';
export const NEG_RISK_MODULE = '0xA51c1fc2f0D1a1b8494Ed1FE312d7C3a78Ed91C0';
export const COMBINATORIAL_MODULE = '0x0DCd1Bf9A1b36cE34237eEaFef220932846BCD82';
export const EXCHANGE_V3 = '0x9A676e781A523b5d0C0e43731313A708CB607508';
export const ROUTER = '0x0B306BF915C4d645ff596e518fAf3F9669b97016';
export const POSITION_REDEEMER = '0x959922bE3CAee4b8Cd9a407cc3ac1C251C2007B1';

/** The whole interfaces are in artifacts.json; these parts are typed for viem. */
const ORDER =
  'struct Order { uint256 salt; address maker; address signer; uint256 tokenId; uint256 makerAmount; uint256 takerAmount; uint8 side; uint8 signatureType; uint256 timestamp; bytes32 metadata; bytes32 builder; bytes signature; }';
export const exchangeAbi = parseAbi([
  ORDER,
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

export const exchangeV3Abi = parseAbi([
  ORDER,
  'struct TakerAmounts { uint256 takerFillAmount; uint256 takerReceiveAmount; uint256 takerFeeAmount; }',
  'function matchOrders(Order takerOrder, Order[] makerOrders, uint256[] makerFillAmounts, uint256[] makerFeeAmounts, TakerAmounts takerAmounts)',
  'function matchOrdersAndPrepareCombinatorial(Order takerOrder, Order[] makerOrders, uint256[] makerFillAmounts, uint256[] makerFeeAmounts, TakerAmounts takerAmounts, uint256[] combinatorialLegs)',
]);

export const conditionalTokensAbi = parseAbi([
  'function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount)',
  'function reportPayouts(bytes32 questionId, uint256[] payouts)',
  'function splitPosition(bytes32 conditionId, uint256 amount)',
  'function mergePositions(bytes32 conditionId, uint256 amount)',
  'function redeemPositions(bytes32 conditionId, address[] owners)',
  'function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes data)',
  'function safeBatchTransferFrom(address from, address to, uint256[] ids, uint256[] amounts, bytes data)',
  'function setSpenders(address[] spenders)',
  'function balanceOf(address owner, uint256 id) view returns (uint256)',
  'function balanceOfBatch(address[] owners, uint256[] ids) view returns (uint256[])',
  'function positionIds(bytes32 conditionId) view returns (uint256[2])',
  'function payoutDenominator(bytes32 conditionId) view returns (uint256)',
  'function derivePositionIds(address token, bytes32 conditionId) view returns (uint256, uint256)',
  'event ConditionPreparation(bytes32 indexed conditionId, address indexed oracle, bytes32 indexed questionId, uint256 outcomeSlotCount)',
  'event ConditionResolution(bytes32 indexed conditionId, address indexed oracle, bytes32 indexed questionId, uint256 outcomeSlotCount, uint256[] payoutNumerators)',
]);

const positionManagerAbi = parseAbi([
  'function addModule(uint256 moduleId, address module)',
  'function setSpenders(address[] spenders)',
]);

export const moduleAbi = parseAbi([
  'function reportResult(bytes31 conditionId, uint256[] result)',
  'function getResult(uint256 conditionId) view returns (uint256[2])',
]);

export const positionRedeemerAbi = parseAbi([
  'function redeem(address[] owners, uint256[] positionIds)',
]);

export const loggingAdapterAbi = parseAbi([
  'function splitFor(address owner, bytes32 conditionId, uint256 amount)',
  'function mergeFor(address owner, bytes32 conditionId, uint256 amount)',
]);

export const pusdAbi = parseAbi([
  'function mint(address[] owners, uint256[] values)',
  'function setSpenders(address[] spenders)',
  'function balanceOf(address owner) view returns (uint256)',
  'function totalSupply() view returns (uint256)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
]);

const EXCHANGES = [EXCHANGE, NEG_RISK_EXCHANGE, WRAPPED_EXCHANGE] as const;
const ADAPTERS = [NEG_RISK_ADAPTER, SILENT_ADAPTER, LOGGING_ADAPTER, REDEEMER] as const;
/** By their numbers, from 1. */
const MODULES = [BINARY_MODULE, NEG_RISK_MODULE, COMBINATORIAL_MODULE] as const;
/** They move shares of protocol version 2. */
const V2_SPENDERS = [EXCHANGE_V3, ROUTER, POSITION_REDEEMER] as const;

/**
 * Deploys and connects the contracts on an empty chain, in one block with the timestamp `time` (unix
 * seconds). Throws if a transaction fails or a contract lands at another address.
 */
export async function deploy(rpc: Rpc, time: number): Promise<void> {
  const sender = new Sender(rpc);
  const setSpenders = {
    functionName: 'setSpenders',
    args: [[CONDITIONAL_TOKENS, ...EXCHANGES, ...ADAPTERS, ...MODULES, EXCHANGE_V3, ROUTER]],
  } as const;
  const exchange = (factory: Hex) =>
    creation('CtfExchange', [PUSD, CONDITIONAL_TOKENS, factory, FEE_RECEIVER, OPERATORS]);
  const negRisk = [PUSD, CONDITIONAL_TOKENS, WRAPPED_COLLATERAL, VAULT];
  const created = [
    [PUSD, creation('PusdToken', [])],
    [
      CONDITIONAL_TOKENS,
      creation('ConditionalTokens', [PUSD, NEG_RISK_ADAPTER, WRAPPED_COLLATERAL]),
    ],
    [EXCHANGE, exchange(CONDITIONAL_TOKENS)],
    [NEG_RISK_EXCHANGE, exchange(CONDITIONAL_TOKENS)],
    [WRAPPED_COLLATERAL, creation('WrappedCollateral', [PUSD, NEG_RISK_ADAPTER])],
    [NEG_RISK_ADAPTER, creation('NegRiskAdapter', negRisk)],
    [SILENT_ADAPTER, creation('SilentAdapter', [NEG_RISK_ADAPTER])],
    [LOGGING_ADAPTER, creation('LoggingAdapter', [NEG_RISK_ADAPTER])],
    [REDEEMER, creation('Redeemer', [NEG_RISK_ADAPTER])],
    [WRAPPED_EXCHANGE, exchange(SILENT_ADAPTER)],
    [POSITION_MANAGER, creation('PositionManager', [PUSD])],
    [BINARY_MODULE, creation('BinaryModule', [POSITION_MANAGER, CONDITIONAL_TOKENS])],
    [NEG_RISK_MODULE, creation('NegRiskModule', [POSITION_MANAGER, CONDITIONAL_TOKENS])],
    [COMBINATORIAL_MODULE, creation('CombinatorialModule', [POSITION_MANAGER])],
    [EXCHANGE_V3, creation('ExchangeV3', [POSITION_MANAGER, FEE_RECEIVER, OPERATORS])],
    [ROUTER, creation('Router', [POSITION_MANAGER])],
    [POSITION_REDEEMER, creation('PositionRedeemer', [POSITION_MANAGER])],
  ] as const;
  const ofManager = (data: Hex) => ({ from: DEPLOYER, to: POSITION_MANAGER, data }) as const;
  const hashes = await sender.send([
    ...created.map(([, data]) => ({ from: DEPLOYER, data }) as const),
    { from: DEPLOYER, to: PUSD, data: encodeFunctionData({ abi: pusdAbi, ...setSpenders }) },
    {
      from: DEPLOYER,
      to: CONDITIONAL_TOKENS,
      data: encodeFunctionData({ abi: conditionalTokensAbi, ...setSpenders }),
    },
    ...MODULES.map((module, at) => {
      const args = [BigInt(at + 1), module] as const;
      const add = { abi: positionManagerAbi, functionName: 'addModule' } as const;
      return ofManager(encodeFunctionData({ ...add, args }));
    }),
    ofManager(
      encodeFunctionData({
        abi: positionManagerAbi,
        functionName: 'setSpenders',
        args: [V2_SPENDERS],
      }),
    ),
  ]);
  await sender.mine(time);
  for (const [i, hash] of hashes.entries()) {
    const receipt = await rpc.call<{ status: Hex; contractAddress: Hex | null }>(
      'eth_getTransactionReceipt',
      hash,
    );
    const address = created[i]?.[0].toLowerCase() ?? null;
    if (receipt.status !== '0x1' || (receipt.contractAddress ?? null) !== address) {
      throw new Error(`deployment step ${i} failed or missed its address ${address}`);
    }
  }
}

function creation(name: keyof typeof artifacts, args: readonly unknown[]): Hex {
  const { abi, bytecode } = artifacts[name];
  return encodeDeployData({ abi, bytecode: bytecode as Hex, args });
}
