/**
 * The contracts of each chain, in lower case. To add an exchange, add a line. The version 1 exchanges are excluded on
 * purpose, and the configuration rejects them. Amoy's deployments are not published, so they have to be configured.
 */
import type { Hex } from 'viem';
import { ConfigError, type IngestConfig } from '../../infra/config.ts';
import type { ShareContracts } from './shares/share-logs.ts';

export type Chain = {
  readonly id: number;
  /**
   * Exchange → the collateral token in its position ids, which is not the token that traders pay with. The ids of an exchange
   * of version 3 are structured.
   */
  readonly exchanges: ReadonlyMap<string, Hex | 'v3'>;
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
    ['0xe3333700ca9d93003f00f0f71f8515005f6c00aa', 'v3'],
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
      // The router of protocol version 2.
      '0x12121212006e4cd160d18e3f00711da5c3372600',
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
    v2: {
      positionManager: '0x006f54f7f9a22e0000cc2ab60031000000ae9fef',
      modules: new Set([
        '0x1000008dd9001b968442c1000017eae6e0da00ba',
        '0x200000900045e3b6259600682756002200028933',
        '0x30000034706c7d8e12009dab006be20000c031a8',
      ]),
    },
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
    ['0x9a676e781a523b5d0c0e43731313a708cb607508', 'v3'],
  ]),
  conditionalTokens: '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512',
  collateral: DEVNET_COLLATERAL,
  firstBlock: 0,
  shares: {
    collateral: DEVNET_COLLATERAL,
    negRiskCollateral: DEVNET_WRAPPED_COLLATERAL,
    negRiskAdapter: '0x5fc8d32690cc91d4c39d9d3abcbd16989f875707',
    silentAdapters: new Set([
      '0x0165878a594ca255338adfa4d48449f69242eb8f',
      // The router of protocol version 2.
      '0x0b306bf915c4d645ff596e518faf3f9669b97016',
    ]),
    adapters: new Set(['0xa513e6e4b8f2a923d98304ec87f64353c4d5c853']),
    redeemers: new Set([
      '0x2279b7a0a67db372996a5fab50d91eaa73d2ebe6',
      // Of protocol version 2.
      '0x959922be3caee4b8cd9a407cc3ac1c251c2007b1',
    ]),
    burn: '0xa5ef39c3d3e10d0b270233af41cac69796b12966',
    others: new Set([
      DEVNET_WRAPPED_COLLATERAL,
      // Takes the fees of conversions.
      '0x976ea74026e726554db657fa54763abd0c3a0aa9',
      // Account 0 redeems for all traders.
      '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
    ]),
    v2: {
      positionManager: '0x610178da211fef7d417bc0e6fed39f05609ad788',
      modules: new Set([
        '0xb7f8bc63bbcad18155201308c8f3540b07f84f5e',
        '0xa51c1fc2f0d1a1b8494ed1fe312d7c3a78ed91c0',
        '0x0dcd1bf9a1b36ce34237eeafef220932846bcd82',
      ]),
    },
  },
};

const CHAINS = { polygon: POLYGON, devnet: DEVNET } as const;

/** Exchanges whose trades are not recorded. */
const EXCLUDED = new Map([
  ['0x4bfb41d5b3570defd03c39a9a4d8de6bd8b8982e', 'a version 1 exchange'],
  ['0xc5d563a36ae78145c45a50134d48a1215220f80a', 'a version 1 exchange'],
]);

export type ChainConfig = Pick<
  IngestConfig,
  'CHAIN' | 'EXCHANGES' | 'CONDITIONAL_TOKENS' | 'COLLATERAL' | 'MOVEMENTS'
>;

/** The results and the shares of its markets are read with the movements, from contracts that are built in. */
const V3_NEEDS = 'MOVEMENTS=on and a chain with protocol version 2';

/** The configured chain. Throws ConfigError if an address is missing or excluded. */
export function chainOf(config: ChainConfig): Chain {
  const base = config.CHAIN === 'amoy' ? amoyOf(config) : CHAINS[config.CHAIN];
  const isWatched = config.MOVEMENTS === 'on' && base.shares !== undefined;
  const configured = config.EXCHANGES.length > 0 ? new Map(config.EXCHANGES) : undefined;
  const v3 = [...(configured ?? [])].find(([, ids]) => ids === 'v3')?.[0];
  if (v3 !== undefined && (!isWatched || base.shares?.v2 === undefined))
    throw new ConfigError(`EXCHANGES: ${v3} is of version 3, which needs ${V3_NEEDS}`);
  const own = [...base.exchanges].filter(([, ids]) => isWatched || ids !== 'v3');
  const exchanges = configured ?? new Map(own);
  const excluded = [...exchanges.keys()].find((address) => EXCLUDED.has(address));
  if (excluded !== undefined) {
    throw new ConfigError(
      `EXCHANGES: ${excluded} is ${EXCLUDED.get(excluded)}, which is not supported`,
    );
  }
  const other = [...exchanges].find(
    ([address, ids]) => ids !== 'v3' && base.exchanges.get(address) === 'v3',
  );
  if (other !== undefined)
    throw new ConfigError(`EXCHANGES: ${other[0]} is of version 3: write ${other[0]}:v3`);
  const conditionalTokens = config.CONDITIONAL_TOKENS ?? base.conditionalTokens;
  const hasV3 = [...exchanges.values()].includes('v3');
  const shares =
    !isWatched || base.shares === undefined
      ? undefined
      : {
          ...{ ...base.shares, conditionalTokens, exchanges: new Set(exchanges.keys()) },
          v2: hasV3 ? base.shares.v2 : undefined,
        };
  const collateral = config.COLLATERAL ?? base.collateral;
  return { ...base, exchanges, conditionalTokens, collateral, shares };
}

/** The addresses that log matches and resolutions. */
export function watchedAddresses({
  exchanges,
  conditionalTokens,
  shares,
}: Chain): readonly string[] {
  return [...exchanges.keys(), conditionalTokens, ...(shares?.v2?.modules ?? [])];
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
