/**
 * Faults inside JSON-RPC: responses of a node that lags, has lost its state or is behind a bad load balancer. Changes
 * a request on its way to the node (an older block instead of the head) or the response on its way back (null, no
 * logs, an error, a reordered batch).
 */
import { z } from 'zod';
import type { FaultDice } from './rates.ts';

const BLOCKS_BACK_MAX = 8;

const Call = z.looseObject({
  id: z.union([z.number(), z.string(), z.null()]).optional(),
  method: z.string(),
  params: z.array(z.unknown()).default([]),
});
type Call = z.infer<typeof Call>;
const Answer = z.looseObject({ id: z.unknown(), result: z.unknown().optional() });
type Answer = z.infer<typeof Answer>;

/** The faults chosen for one request. */
export type Plan = {
  /** The request to send to the node. */
  readonly body: Buffer;
  /** Applied to the response's text; undefined to pass it unchanged. */
  readonly alter: ((text: string) => string) | undefined;
};

/** Rolls the dice for each call of the request. `headOf` returns the node's current number for a tag. */
export async function planCalls(
  body: Buffer,
  dice: FaultDice,
  headOf: (tag: string) => Promise<number>,
): Promise<Plan> {
  const parsed = z.union([z.array(Call), Call]).safeParse(JSON.parse(body.toString()));
  if (!parsed.success) return { body, alter: undefined };
  const calls = [parsed.data].flat();
  let changed = false;
  const alterations = new Map<unknown, (answer: Answer) => Answer>();
  for (const call of calls) {
    if (await makeStale(call, dice, headOf)) changed = true;
    const alteration = answerFault(call, dice);
    if (alteration !== undefined) alterations.set(call.id, alteration);
  }
  const shuffle = calls.length > 1 && dice.first(['shuffled_batch']) !== undefined;
  const altered = alterations.size > 0 || shuffle;
  return {
    body: changed ? Buffer.from(JSON.stringify(parsed.data)) : body,
    alter: altered ? (text) => alterText(text, alterations, shuffle, dice) : undefined,
  };
}

/** Requests an older block instead of the newest. */
async function makeStale(
  call: Call,
  dice: FaultDice,
  headOf: (tag: string) => Promise<number>,
): Promise<boolean> {
  const [tag] = call.params;
  if (call.method !== 'eth_getBlockByNumber' || typeof tag !== 'string') return false;
  if (tag !== 'latest' && tag !== 'finalized') return false;
  if (dice.first([tag === 'latest' ? 'stale_head' : 'finalized_back']) === undefined) return false;
  const number = Math.max(0, (await headOf(tag)) - 1 - dice.random.below(BLOCKS_BACK_MAX));
  call.params[0] = `0x${number.toString(16)}`;
  return true;
}

function answerFault(call: Call, dice: FaultDice): ((answer: Answer) => Answer) | undefined {
  if (dice.first(['rpc_error']) !== undefined) {
    const error = dice.random.pick([
      { code: -32005, message: 'limit exceeded' },
      { code: -32000, message: 'header not found' },
      { code: -32603, message: 'internal error' },
    ]);
    return ({ result: _result, ...answer }) => ({ ...answer, error });
  }
  const [block] = call.params;
  const named = typeof block === 'string' && block.startsWith('0x');
  if (/^eth_getBlock(ByNumber|ByHash|Receipts)$/.test(call.method) && named) {
    if (dice.first(['null_block']) !== undefined) return (answer) => ({ ...answer, result: null });
  }
  if (call.method === 'eth_getLogs' && dice.wants('empty_logs')) {
    return (answer) => {
      // An empty response is wrong only if the block has logs.
      if (Array.isArray(answer.result) && answer.result.length > 0) dice.count('empty_logs');
      return { ...answer, result: [] };
    };
  }
  return undefined;
}

function alterText(
  text: string,
  alterations: ReadonlyMap<unknown, (answer: Answer) => Answer>,
  shuffle: boolean,
  dice: FaultDice,
): string {
  const parsed = z.union([z.array(Answer), Answer]).parse(JSON.parse(text));
  const alter = (answer: Answer) => alterations.get(answer.id)?.(answer) ?? answer;
  if (!Array.isArray(parsed)) return JSON.stringify(alter(parsed));
  const answers = parsed.map(alter);
  if (shuffle) answers.sort(() => dice.random.unit() - 0.5);
  return JSON.stringify(answers);
}
