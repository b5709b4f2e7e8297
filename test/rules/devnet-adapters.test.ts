/**
 * The logs of the devnet's neg-risk adapter, adapters, redeemer and their exchange: emitters, operators and order are those of
 * Polymarket's contracts, from their sources and from real transactions.
 */
import {
  decodeEventLog,
  encodeAbiParameters,
  encodeFunctionData,
  encodePacked,
  type Hex,
  keccak256,
  parseAbiParameters,
} from 'viem';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { positionIds } from '../../ingest/events/token-ids.ts';
import artifacts from '../../local/devnet/artifacts.json' with { type: 'json' };
import { type Chain, startChain } from '../../local/devnet/chain.ts';
import {
  CONDITIONAL_TOKENS,
  DEPLOYER,
  deploy,
  LOGGING_ADAPTER,
  NEG_RISK_ADAPTER,
  OPERATORS,
  PUSD,
  pusdAbi,
  REDEEMER,
  SILENT_ADAPTER,
  VAULT,
  WRAPPED_COLLATERAL,
  WRAPPED_EXCHANGE,
} from '../../local/devnet/contracts.ts';
import { BUY, SELL, type Side } from '../../local/devnet/orders.ts';
import { Sender } from '../../local/devnet/rpc.ts';
import { temporaryDirectory } from '../support/service.ts';

const GENESIS = 1_790_000_000;
const M = 1_000_000n;
const FEE_BIPS = 200;
const ZERO_WORD: Hex = `0x${'00'.repeat(32)}`;
const [USER, OTHER] = [`0x${'a1'.repeat(20)}`, `0x${'b2'.repeat(20)}`] as const;
const NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    [`0x${'0'.repeat(40)}`]: 'zero',
    [CONDITIONAL_TOKENS]: 'ctf',
    [NEG_RISK_ADAPTER]: 'nra',
    [SILENT_ADAPTER]: 'silent',
    [LOGGING_ADAPTER]: 'logging',
    [REDEEMER]: 'redeemer',
    [WRAPPED_EXCHANGE]: 'exchange',
    [VAULT]: 'vault',
    '0xa5Ef39C3D3e10d0B270233af41CaC69796B12966': 'burn',
    [USER]: 'user',
    [OTHER]: 'other',
  }).map(([address, name]) => [address.toLowerCase(), name]),
);
const QUESTIONS = [0, 1, 2];

const directory = temporaryDirectory();
let chain: Chain;
let sender: Sender;
let time = GENESIS + 10;

const types = parseAbiParameters('address, uint16, bytes');
const hash = keccak256(encodeAbiParameters(types, [DEPLOYER, FEE_BIPS, '0x01']));
const MARKET: Hex = `${hash.slice(0, -2) as Hex}00`;
const questionId = (n: number): Hex => `${MARKET.slice(0, -2) as Hex}0${n}`;
const conditionId = (n: number): Hex =>
  keccak256(encodePacked(['address', 'bytes32', 'uint256'], [NEG_RISK_ADAPTER, questionId(n), 2n]));

type Contract = keyof typeof artifacts;
type Log = { readonly address: Hex; readonly topics: [Hex, ...Hex[]]; readonly data: Hex };

/** Sends a call and returns its logs, without those of ERC-20 tokens. */
async function logsOf(from: Hex, to: Hex, of: Contract, functionName: string, args: unknown[]) {
  await chain.rpc.call('anvil_impersonateAccount', from);
  const { abi } = artifacts[of];
  const data = encodeFunctionData({ abi, functionName, args });
  const [txHash] = await sender.send([{ from, to, data }]);
  await sender.mine(++time);
  const receipt = await chain.rpc.call<{ status: Hex; logs: Log[] }>(
    ...(['eth_getTransactionReceipt', txHash] as const),
  );
  expect(receipt.status).toBe('0x1');
  const tokens = [PUSD.toLowerCase(), WRAPPED_COLLATERAL.toLowerCase()];
  return receipt.logs.filter(({ address }) => !tokens.includes(address)).map(textOf);
}

const CONTRACTS: Readonly<Record<string, Contract>> = {
  ctf: 'ConditionalTokens',
  nra: 'NegRiskAdapter',
  logging: 'LoggingAdapter',
  redeemer: 'Redeemer',
  exchange: 'CtfExchange',
};

/** `from→to [operator] ids` of a transfer, else `emitter.Event(first argument)`. */
function textOf({ address, topics, data }: Log): string {
  const emitter = NAMES[address] ?? address;
  const { abi } = artifacts[CONTRACTS[emitter] ?? 'ConditionalTokens'];
  const decoded = decodeEventLog({ abi, topics, data });
  const { eventName, args } = decoded as unknown as { eventName: string; args: object };
  const all = args as Readonly<Record<string, unknown>>;
  const name = (value: unknown) => NAMES[String(value).toLowerCase()] ?? '';
  if (!eventName.startsWith('Transfer')) return `${emitter}.${eventName}(${name(byOf(all))})`;
  const ids = eventName === 'TransferSingle' ? 1 : (all.ids as bigint[]).length;
  const kind = eventName === 'TransferSingle' ? 'TS' : 'TB';
  return `${kind} ${name(all.from)}→${name(all.to)} [${name(all.operator)}] ${ids}`;
}

function byOf({
  stakeholder,
  redeemer,
  initiator,
  from,
  maker,
}: Readonly<Record<string, unknown>>) {
  return stakeholder ?? redeemer ?? initiator ?? from ?? maker ?? '';
}

const adapter = (from: Hex, functionName: string, ...args: unknown[]) =>
  logsOf(from, NEG_RISK_ADAPTER, 'NegRiskAdapter', functionName, args);

beforeAll(async () => {
  chain = await startChain({
    ...{ stateFile: `${directory.path}/chain.json`, port: 0, genesisTime: GENESIS },
  });
  await deploy(chain.rpc, GENESIS + 1);
  sender = new Sender(chain.rpc);
  const mint = { abi: pusdAbi, functionName: 'mint' } as const;
  const args = [
    [USER, OTHER],
    [1_000n * M, 1_000n * M],
  ] as const;
  await sender.send([{ from: DEPLOYER, to: PUSD, data: encodeFunctionData({ ...mint, args }) }]);
  await sender.mine(++time);
  expect(await adapter(DEPLOYER, 'prepareMarket', FEE_BIPS, '0x01')).toEqual([
    'nra.MarketPrepared()',
  ]);
  for (const _ of QUESTIONS)
    expect(await adapter(DEPLOYER, 'prepareQuestion', MARKET, '0x')).toEqual([
      'ctf.ConditionPreparation()',
      'nra.QuestionPrepared()',
    ]);
});
afterAll(async () => {
  await chain?.stop();
  directory.remove();
});

const SPLIT = ['TB zero→nra [nra] 2', 'ctf.PositionSplit(nra)'];
const MERGE = ['TB nra→zero [nra] 2', 'ctf.PositionsMerge(nra)'];

test('splits', async () => {
  for (const n of QUESTIONS)
    expect(await adapter(USER, 'splitPosition', conditionId(n), 40n * M)).toEqual([
      ...SPLIT,
      'TB nra→user [nra] 2',
      'nra.PositionSplit(user)',
    ]);
  const through = (name: string) => [
    ...SPLIT,
    `TB nra→${name} [nra] 2`,
    `nra.PositionSplit(${name})`,
    `TB ${name}→user [${name}] 2`,
  ];
  const args = [conditionId(0), M];
  expect(await logsOf(USER, SILENT_ADAPTER, 'SilentAdapter', 'splitPosition', args)).toEqual(
    through('silent'),
  );
  expect(await logsOf(USER, LOGGING_ADAPTER, 'LoggingAdapter', 'splitPosition', args)).toEqual([
    ...through('logging'),
    'logging.PositionSplit(user)',
  ]);
});

test('merges', async () => {
  expect(await adapter(USER, 'mergePositions', conditionId(0), M)).toEqual([
    'TB user→nra [nra] 2',
    ...MERGE,
    'nra.PositionsMerge(user)',
  ]);
  const args = [conditionId(0), M];
  expect(await logsOf(USER, LOGGING_ADAPTER, 'LoggingAdapter', 'mergePositions', args)).toEqual([
    'TB user→logging [logging] 2',
    'TB logging→nra [nra] 2',
    ...MERGE,
    'nra.PositionsMerge(logging)',
    'logging.PositionsMerged(user)',
  ]);
});

test('conversions, with a fee', async () => {
  expect(await adapter(USER, 'convertPositions', MARKET, 0b101n, M)).toEqual([
    ...SPLIT,
    'TB user→burn [nra] 2',
    'TB nra→burn [nra] 1',
    'TB nra→vault [nra] 1',
    'TB nra→user [nra] 1',
    'nra.PositionsConverted(user)',
  ]);
  const args = [MARKET, 0b001n, M];
  const through = (name: string) => [
    `TB user→${name} [${name}] 1`,
    ...[...SPLIT, ...SPLIT],
    `TB ${name}→burn [nra] 1`,
    'TB nra→burn [nra] 2',
    'TB nra→vault [nra] 2',
    `TB nra→${name} [nra] 2`,
    `nra.PositionsConverted(${name})`,
    `TB ${name}→user [${name}] 2`,
  ];
  expect(await logsOf(USER, SILENT_ADAPTER, 'SilentAdapter', 'convertPositions', args)).toEqual(
    through('silent'),
  );
  expect(await logsOf(USER, LOGGING_ADAPTER, 'LoggingAdapter', 'convertPositions', args)).toEqual([
    ...through('logging'),
    'logging.PositionsConverted(user)',
  ]);
});

test('conversions of all questions, which move no Yes', async () => {
  const args = [MARKET, 0b111n, M];
  expect(await adapter(USER, 'convertPositions', ...args)).toEqual([
    'TB user→burn [nra] 3',
    'TB nra→burn [nra] 0',
    'nra.PositionsConverted(user)',
  ]);
  expect(await logsOf(USER, SILENT_ADAPTER, 'SilentAdapter', 'convertPositions', args)).toEqual([
    'TB user→silent [silent] 3',
    'TB silent→burn [nra] 3',
    'TB nra→burn [nra] 0',
    'nra.PositionsConverted(silent)',
    'TB silent→user [silent] 0',
  ]);
});

/** An order for 10 shares of an outcome of question 1, at this price in hundredths. */
function order(maker: Hex, side: Side, outcome: 0 | 1, price: bigint) {
  const [usdc, shares] = [(10n * M * price) / 100n, 10n * M];
  return {
    ...{ salt: BigInt(++time), maker, signer: maker, side, signatureType: 0, timestamp: 0n },
    tokenId: positionIds(WRAPPED_COLLATERAL, conditionId(1))[outcome],
    makerAmount: side === BUY ? usdc : shares,
    takerAmount: side === BUY ? shares : usdc,
    ...{ metadata: ZERO_WORD, builder: ZERO_WORD, signature: '0x' as const },
  };
}

const matched = (taker: ReturnType<typeof order>, maker: ReturnType<typeof order>) => {
  const fills = [taker.makerAmount, [maker.makerAmount], 0n, [0n]];
  const args = [conditionId(1), taker, [maker], ...fills];
  return logsOf(OPERATORS[0], WRAPPED_EXCHANGE, 'CtfExchange', 'matchOrders', args);
};

test('matches that mint and merge', async () => {
  expect(await matched(order(USER, BUY, 0, 40n), order(OTHER, BUY, 1, 60n))).toEqual([
    ...SPLIT,
    'TB nra→silent [nra] 2',
    'nra.PositionSplit(silent)',
    'TB silent→exchange [silent] 2',
    'TS exchange→other [exchange] 1',
    'exchange.OrderFilled(other)',
    'TS exchange→user [exchange] 1',
    'exchange.OrderFilled(user)',
    'exchange.OrdersMatched()',
  ]);
  expect(await matched(order(USER, SELL, 0, 40n), order(OTHER, SELL, 1, 60n))).toEqual([
    'TS other→exchange [exchange] 1',
    'TS user→exchange [exchange] 1',
    'TB exchange→silent [silent] 2',
    'TB silent→nra [nra] 2',
    ...MERGE,
    'nra.PositionsMerge(silent)',
    'exchange.OrderFilled(other)',
    'exchange.OrderFilled(user)',
    'exchange.OrdersMatched()',
  ]);
});

test('redemptions', async () => {
  for (const n of QUESTIONS)
    expect(await adapter(DEPLOYER, 'reportOutcome', questionId(n), n === 0)).toEqual([
      'ctf.ConditionResolution()',
      'nra.OutcomeReported()',
    ]);
  const both = ['TS nra→zero [nra] 1', 'TS nra→zero [nra] 1', 'ctf.PayoutRedemption(nra)'];
  expect(await adapter(USER, 'redeemPositions', conditionId(0), [M, M])).toEqual([
    'TB user→nra [nra] 2',
    ...both,
    'nra.PayoutRedemption(user)',
  ]);
  const one = [conditionId(1)];
  expect(await logsOf(USER, LOGGING_ADAPTER, 'LoggingAdapter', 'redeemPositions', one)).toEqual([
    'TB user→logging [logging] 2',
    'TB logging→nra [nra] 2',
    ...both,
    'nra.PayoutRedemption(logging)',
    'logging.PositionsRedeemed(user)',
  ]);
  const users = [
    [USER, USER],
    [conditionId(0), conditionId(2)],
  ];
  const redeemed = [
    'TB user→redeemer [redeemer] 2',
    'TB redeemer→nra [nra] 2',
    ...both,
    'nra.PayoutRedemption(redeemer)',
    'redeemer.NegRiskRedemption(user)',
  ];
  expect(await logsOf(DEPLOYER, REDEEMER, 'Redeemer', 'redeem', users)).toEqual([
    ...redeemed,
    ...redeemed,
  ]);
});
