/**
 * The contracts of each chain. A new exchange is a new line; version 1 and the "Combos" exchange are
 * left out on purpose (specification 9.3). Addresses: facts of the deployments, lower case.
 */
import type { Hex } from 'viem';
import {
  CHAIN_ID,
  CONDITIONAL_TOKENS,
  EXCHANGE,
  NEG_RISK_EXCHANGE,
  PUSD,
} from '../infra/devnet/addresses.ts';

export type Chain = {
  readonly id: number;
  /** Exchange → collateral token inside its position ids, which is not what traders pay with. */
  readonly exchanges: ReadonlyMap<string, Hex>;
  readonly conditionalTokens: Hex;
  /** pUSD, 6 decimals: what traders pay with. */
  readonly collateral: Hex;
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
};

const DEVNET: Chain = {
  id: CHAIN_ID,
  exchanges: new Map([
    [lower(EXCHANGE), lower(PUSD)],
    [lower(NEG_RISK_EXCHANGE), lower(PUSD)],
  ]),
  conditionalTokens: lower(CONDITIONAL_TOKENS),
  collateral: lower(PUSD),
};

export const CHAINS = { polygon: POLYGON, devnet: DEVNET } as const;

function lower(address: string): Hex {
  return address.toLowerCase() as Hex;
}
