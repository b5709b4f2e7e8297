/**
 * Puts the contracts on an empty chain: six transactions of the deployer in one block, at the addresses
 * of addresses.ts. Refuses to go on when one of them lands elsewhere or fails.
 */
import { encodeDeployData, encodeFunctionData, type Hex } from 'viem';
import { conditionalTokensAbi, pusdAbi } from './abi.ts';
import {
  CONDITIONAL_TOKENS,
  DEPLOYER,
  EXCHANGE,
  FEE_RECEIVER,
  NEG_RISK_EXCHANGE,
  OPERATORS,
  PUSD,
} from './addresses.ts';
import artifacts from './artifacts.json' with { type: 'json' };
import type { Rpc } from './rpc.ts';
import { Sender } from './sender.ts';

/** Deploys and wires everything in the block after the head. Throws when anything is not as planned. */
export async function deploy(rpc: Rpc, time: number): Promise<void> {
  const sender = new Sender(rpc);
  const spenders = [CONDITIONAL_TOKENS, EXCHANGE, NEG_RISK_EXCHANGE] as const;
  const exchange = creation('CtfExchange', [PUSD, CONDITIONAL_TOKENS, FEE_RECEIVER, OPERATORS]);
  const hashes = await sender.send([
    { from: DEPLOYER, data: creation('PusdToken', []) },
    { from: DEPLOYER, data: creation('ConditionalTokens', [PUSD]) },
    { from: DEPLOYER, data: exchange },
    { from: DEPLOYER, data: exchange },
    {
      from: DEPLOYER,
      to: PUSD,
      data: encodeFunctionData({ abi: pusdAbi, functionName: 'setSpenders', args: [spenders] }),
    },
    {
      from: DEPLOYER,
      to: CONDITIONAL_TOKENS,
      data: encodeFunctionData({
        abi: conditionalTokensAbi,
        functionName: 'setSpenders',
        args: [spenders],
      }),
    },
  ]);
  await sender.mine(time);
  const planned = [PUSD, CONDITIONAL_TOKENS, EXCHANGE, NEG_RISK_EXCHANGE];
  for (const [i, hash] of hashes.entries()) {
    const receipt = await rpc.call<{ status: Hex; contractAddress: Hex | null }>(
      'eth_getTransactionReceipt',
      hash,
    );
    const address = planned[i]?.toLowerCase() ?? null;
    if (receipt.status !== '0x1' || (receipt.contractAddress ?? null) !== address) {
      throw new Error(`deployment step ${i} failed or missed its address ${address}`);
    }
  }
}

function creation(name: keyof typeof artifacts, args: readonly unknown[]): Hex {
  const { abi, bytecode } = artifacts[name];
  return encodeDeployData({ abi, bytecode: bytecode as Hex, args });
}
