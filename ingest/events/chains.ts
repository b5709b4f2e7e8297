/**
 * The contracts of each chain, in lower case. To add an exchange, add a line. The version 1 exchanges and the
 * "Combos" exchange are excluded on purpose, and the configuration rejects them. Amoy's deployments are not
 * published, so they have to be configured.
 */
import type { Hex } from 'viem';
import { ConfigError, type IngestConfig } from '../../infra/config.ts';
import type { ShareContracts } from './shares/share-logs.ts';

export type Chain = {
  readonly id: number;
  /** Exchange → the collateral token in its position ids, which is not the token that traders pay with. */
  readonly exchanges: ReadonlyMap<string, Hex>;
  readonly conditionalTokens: Hex;
  /** pUSD, 6 decimals: the token that traders pay with. */
  readonly collateral: Hex;
  /** No condition was resolved before this block. */
  readonly firstBlock: number;
  /** The contracts that move shares; undefined if movements are not watched. */
  readonly shares?: ShareContracts | undefined;
};

type BuiltIn = Omit<Chain, 'shares'> & {
  readonly shares: Omit<ShareContracts, 'conditionalTokens' | 'exchanges'>;
};

const USDC_E = '0x2791bca1f2de4661ed88a30c99a7a9449aa84174';
const WRAPPED_COLLATERAL = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';

const POLYGON: BuiltIn = {
  id: 137,
  exchanges: new Map([
    ['0xe111180000d2663c0091e4f400237545b87b996b', USDC_E],
    ['0xe2222d279d744050d28e00520010520000310f59', WRAPPED_COLLATERAL],
    ['0xe2222d002000ba0053cef3375333610f64600036', WRAPPED_COLLATERAL],
  ]),
  conditionalTokens: '0x4d97dcd97ec945f40cf65f87097ace5ea0476045',
  collateral: '0xc011a7e12a19f7b1f670d46f03b03f3342e82dfb',
  // Deployment of ConditionalTokens (unverified: no Polygon node was available).
  firstBlock: 4_023_686,
  shares: {
    collateral: USDC_E,
    negRiskCollateral: WRAPPED_COLLATERAL,
    negRiskAdapter: '0xd91e80cf2e7be2e162c6513ced06f1dd0da35296',
    silentAdapters: new Set([
      '0xada100874d00e3331d00f2007a9c336a65009718',
      '0xada200001000ef00d07553cee7006808f895c6f1',
    ]),
    adapters: new Set([
      '0xada100db00ca00073811820692005400218fce1f',
      '0xada2005600dec949baf300f4c6120000bdb6eaab',
    ]),
    redeemers: new Set([
      '0x05cd9922a5d37fae921fc5dee280a9dbc4c3b393',
      '0xf3cfb6a6ebfeb51876289eb235719eb1c65252b0',
      '0xa1200000d0002264c9a1698e001292d00e1b00af',
    ]),
    burn: '0xa5ef39c3d3e10d0b270233af41cac69796b12966',
    others: new Set([
      WRAPPED_COLLATERAL,
      // Takes the fees of conversions.
      '0x7f67327e88c258932d7d8f72950be0d46975e11d',
      // Fee modules of version 1.
      '0xe3f18acc55091e2c48d883fc8c8413319d4ab7b0',
      '0xb768891e3130f6df18214ac804d4db76c2c37730',
      '0x78769d50be1763ed1ca0d5e878d93f05aabff29e',
    ]),
  },
};

const AMOY_ID = 80_002;

/**
 * local/devnet deploys its contracts here. The deployer's address and nonces determine the addresses.
 */
const DEVNET_COLLATERAL = '0x5fbdb2315678afecb367f032d93f642f64180aa3';
const DEVNET_WRAPPED_COLLATERAL = '0xdc64a140aa3e981100a9beca4e685f962f0cf6c9';
const DEVNET: BuiltIn = {
  id: 31_337,
  exchanges: new Map([
    ['0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0', DEVNET_COLLATERAL],
    ['0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9', DEVNET_COLLATERAL],
    ['0x8a791620dd6260079bf849dc5567adc3f2fdc318', DEVNET_WRAPPED_COLLATERAL],
  ]),
  conditionalTokens: '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512',
  collateral: DEVNET_COLLATERAL,
  firstBlock: 0,
  shares: {
    collateral: DEVNET_COLLATERAL,
    negRiskCollateral: DEVNET_WRAPPED_COLLATERAL,
    negRiskAdapter: '0x5fc8d32690cc91d4c39d9d3abcbd16989f875707',
    silentAdapters: new Set(['0x0165878a594ca255338adfa4d48449f69242eb8f']),
    adapters: new Set(['0xa513e6e4b8f2a923d98304ec87f64353c4d5c853']),
    redeemers: new Set(['0x2279b7a0a67db372996a5fab50d91eaa73d2ebe6']),
    burn: '0xa5ef39c3d3e10d0b270233af41cac69796b12966',
    others: new Set([
      DEVNET_WRAPPED_COLLATERAL,
      // Takes the fees of conversions.
      '0x976ea74026e726554db657fa54763abd0c3a0aa9',
      // Account 0 redeems for all traders.
      '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
    ]),
  },
};

const CHAINS = { polygon: POLYGON, devnet: DEVNET } as const;

/** Exchanges whose trades are not recorded. */
const EXCLUDED = new Map([
  ['0x4bfb41d5b3570defd03c39a9a4d8de6bd8b8982e', 'a version 1 exchange'],
  ['0xc5d563a36ae78145c45a50134d48a1215220f80a', 'a version 1 exchange'],
  ['0xe3333700ca9d93003f00f0f71f8515005f6c00aa', 'the version 3 ("Combos") exchange'],
]);

export type ChainConfig = Pick<
  IngestConfig,
  'CHAIN' | 'EXCHANGES' | 'CONDITIONAL_TOKENS' | 'COLLATERAL' | 'MOVEMENTS'
>;

/** The configured chain. Throws ConfigError if an address is missing or excluded. */
export function chainOf(config: ChainConfig): Chain {
  const base = config.CHAIN === 'amoy' ? amoyOf(config) : CHAINS[config.CHAIN];
  const exchanges = config.EXCHANGES.length > 0 ? new Map(config.EXCHANGES) : base.exchanges;
  const excluded = [...exchanges.keys()].find((address) => EXCLUDED.has(address));
  if (excluded !== undefined) {
    throw new ConfigError(
      `EXCHANGES: ${excluded} is ${EXCLUDED.get(excluded)}, which is not supported`,
    );
  }
  const conditionalTokens = config.CONDITIONAL_TOKENS ?? base.conditionalTokens;
  const shares =
    config.MOVEMENTS === 'off' || base.shares === undefined
      ? undefined
      : { ...base.shares, conditionalTokens, exchanges: new Set(exchanges.keys()) };
  const collateral = config.COLLATERAL ?? base.collateral;
  return { ...base, exchanges, conditionalTokens, collateral, shares };
}

/** The addresses that log matches and resolutions. */
export function watchedAddresses(chain: Chain): readonly string[] {
  return [...chain.exchanges.keys(), chain.conditionalTokens];
}

function amoyOf({
  EXCHANGES,
  CONDITIONAL_TOKENS,
  COLLATERAL,
}: ChainConfig): Omit<BuiltIn, 'shares'> & { readonly shares?: undefined } {
  if (EXCHANGES.length === 0 || CONDITIONAL_TOKENS === undefined || COLLATERAL === undefined) {
    const given = { EXCHANGES: EXCHANGES[0], CONDITIONAL_TOKENS, COLLATERAL };
    const missing = Object.entries(given).flatMap(([name, value]) => (value ? [] : [name]));
    throw new ConfigError(
      'CHAIN=amoy: the contract addresses are not built in and must be configured: ' +
        `${missing.join(', ')} missing`,
    );
  }
  return {
    id: AMOY_ID,
    exchanges: new Map(EXCHANGES),
    conditionalTokens: CONDITIONAL_TOKENS,
    collateral: COLLATERAL,
    firstBlock: 0,
  };
}
