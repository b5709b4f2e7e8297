/**
 * Reorganises the newest blocks of anvil and mines their transactions again, some in a later block than before: other
 * block hashes, other log indices, the same transactions. A few are replaced by an empty call with the same nonce, so
 * that a match that was seen in a block never becomes final.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../../local/devnet/random.ts';
import type { Rpc } from '../../../local/devnet/rpc.ts';

type Transaction = {
  readonly hash: string;
  readonly from: string;
  readonly nonce: string;
};
type Replayed = readonly [string | Readonly<Record<string, string>>, number];

const REPLACED_CHANCE = 1 / 200;
/** A block that was requested before everybody was stopped is mined within this time. */
const QUIET_MS = 400;
const GAS = '0x989680';

export type Reorg = { readonly blocks: number; readonly moved: number; readonly replaced: number };

/**
 * Replaces the newest `blocks` blocks. Nobody else may mine at the same time (Stage.whileNobodyAsks): a block that is
 * mined between reading and replacing would be lost with its transactions.
 */
export async function reorganise(rpc: Rpc, blocks: number, random: Random): Promise<Reorg> {
  // Waits until a block in progress is done, because anvil mines one at a time.
  await rpc.call('evm_mine');
  const head = await quietHead(rpc);
  const replayed: Replayed[] = [];
  let moved = 0;
  let replaced = 0;
  let place = 0;
  for (let offset = 0; offset < blocks; offset++) {
    const number = `0x${(head - blocks + 1 + offset).toString(16)}`;
    const params = [number, true];
    const block = await rpc.call<{ transactions: Transaction[] }>(
      'eth_getBlockByNumber',
      ...params,
    );
    for (const transaction of block.transactions) {
      // Never before its predecessor, because of nonces and balances.
      place = Math.max(place, offset);
      if (place < blocks - 1 && random.chance(1 / block.transactions.length)) place += 1;
      if (place > offset) moved += 1;
      const replace = random.chance(REPLACED_CHANCE);
      if (replace) replaced += 1;
      const { from, nonce, hash } = transaction;
      const other = { from, to: from, nonce, gas: GAS, gasPrice: '0x0', value: '0x0' };
      const raw = () => rpc.call<string>('eth_getRawTransactionByHash', hash);
      replayed.push([replace ? other : await raw(), place]);
    }
  }
  await rpc.call('anvil_reorg', blocks, replayed);
  return { blocks, moved, replaced };
}

/** The head, after it has not changed for QUIET_MS. */
async function quietHead(rpc: Rpc): Promise<number> {
  const read = async () => Number(await rpc.call<string>('eth_blockNumber'));
  for (let head = await read(); ; ) {
    await delay(QUIET_MS);
    const again = await read();
    if (again === head) return head;
    head = again;
  }
}
