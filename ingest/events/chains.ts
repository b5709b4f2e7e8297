/**
 * The contracts of each chain, in lower case. To add an exchange, add a line. The version 1 exchanges and the
 * "Combos" exchange are excluded on purpose, and the configuration rejects them. Amoy's deployments are not
 * published, so they have to be configured.
 */
import type { Hex } from 'viem';
import { ConfigError, type IngestConfig } from '../../infra/config.ts';

export type Chain = {
  readonly id: number;
  /** Exchange → the collateral token in its position ids, which is not the token that traders pay with. */
  readonly exchanges: ReadonlyMap<string, Hex>;
  readonly conditionalTokens: Hex;
  /** pUSD, 6 decimals: the token that traders pay with. */
  readonly collateral: Hex;
  /** No condition was resolved before this block. */
  readonly firstBlock: number;
};

const USDC_E = '0x2791bca1f2de4661ed88a30c99a7a9449aa84174';
const WRAPPED_COLLATERAL = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';

const POLYGON: Chain = {
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
};

const AMOY_ID = 80_002;

/**
 * local/devnet deploys its contracts here. The deployer's address and nonces determine the addresses.
 */
const DEVNET_COLLATERAL = '0x5fbdb2315678afecb367f032d93f642f64180aa3';
const DEVNET: Chain = {
  id: 31_337,
  exchanges: new Map([
    ['0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0', DEVNET_COLLATERAL],
    ['0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9', DEVNET_COLLATERAL],
  ]),
  conditionalTokens: '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512',
  collateral: DEVNET_COLLATERAL,
  firstBlock: 0,
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
  'CHAIN' | 'EXCHANGES' | 'CONDITIONAL_TOKENS' | 'COLLATERAL'
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
  return {
    ...base,
    exchanges,
    conditionalTokens: config.CONDITIONAL_TOKENS ?? base.conditionalTokens,
    collateral: config.COLLATERAL ?? base.collateral,
  };
}

/** The addresses whose logs are read. */
export function watchedAddresses(chain: Chain): readonly string[] {
  return [...chain.exchanges.keys(), chain.conditionalTokens];
}

function amoyOf({ EXCHANGES, CONDITIONAL_TOKENS, COLLATERAL }: ChainConfig): Chain {
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
