/**
 * What decoding costs, on the real transaction of test/fixtures with new salts, wallets, tokens and
 * hashes in every copy, so that nothing is decoded twice. Copies are made before the clock starts.
 */
import { Random } from '../../../infra/local/devnet/random.ts';
import { type ChainLog, decodeLogs, decodeMatchCall, TOPICS } from '../../../ingest/decode.ts';
import { atlas, EXCHANGE, POLYGON, WATCHED } from '../../unit/fixtures.ts';

const WORD = 64;
const SELECTOR = 10;
/**
 * Words of the calldata: salt, maker, signer and token of both orders, with the hex digits varied.
 */
const VARIED_WORDS = [7, 8, 9, 10, 25, 26, 27, 28];
const VARIED_DIGITS = 12;
const MATCHES_PER_BLOCK = 20;
/** Copies in memory at a time. */
const BATCH = 5_000;

export type DecodeResult = { readonly fills: number; readonly items: number; readonly ms: number };

/** Decodes `count` calldatas of one maker each. */
export function decodeCalls(count: number, seed: string): DecodeResult {
  const random = new Random(seed);
  let fills = 0;
  let ms = 0;
  for (let done = 0; done < count; done += BATCH) {
    const inputs = Array.from({ length: Math.min(BATCH, count - done) }, () => callCopy(random));
    const startedAt = performance.now();
    for (const input of inputs) {
      const match = decodeMatchCall(input, EXCHANGE, POLYGON);
      fills += 1 + match.makers.length;
    }
    ms += performance.now() - startedAt;
  }
  return { fills, items: count, ms };
}

/** Decodes `count` OrderFilled logs with their OrdersMatched, twenty matches a block. */
export function decodeBlocks(count: number, seed: string): DecodeResult {
  const random = new Random(seed);
  const template = atlas.logs.filter(
    ({ topics: [topic] }) => topic === TOPICS.orderFilled || topic === TOPICS.ordersMatched,
  );
  const fillsPerMatch = template.length - 1;
  let fills = 0;
  let items = 0;
  let ms = 0;
  while (fills < count) {
    const blocks = Array.from({ length: BATCH / (MATCHES_PER_BLOCK * fillsPerMatch) }, () =>
      Array.from({ length: MATCHES_PER_BLOCK }, () => logCopies(template, random)).flat(),
    );
    const startedAt = performance.now();
    for (const logs of blocks) {
      const decoded = decodeLogs(logs, WATCHED);
      if (decoded.refused.length > 0) throw decoded.refused[0]?.error;
      items += logs.length;
      for (const match of decoded.matches) fills += match.fills.length;
    }
    ms += performance.now() - startedAt;
  }
  return { fills, items, ms };
}

function callCopy(random: Random): `0x${string}` {
  let input: string = atlas.input;
  for (const word of VARIED_WORDS) {
    const end = SELECTOR + (word + 1) * WORD;
    input = input.slice(0, end - VARIED_DIGITS) + digits(random) + input.slice(end);
  }
  // Joined pieces are a rope: reading it once makes it a plain string, outside of the clock.
  return Buffer.from(input).toString() as `0x${string}`;
}

function logCopies(template: readonly ChainLog[], random: Random): ChainLog[] {
  const transactionHash = random.hex(32);
  // The same order, wallet or token stays the same within a match: OrdersMatched repeats them.
  const varied = new Map<string, string>();
  const vary = (word: string) => {
    const known = varied.get(word) ?? word.slice(0, -VARIED_DIGITS) + digits(random);
    varied.set(word, known);
    return known;
  };
  return template.map((log) => {
    const [topic = '0x', orderHash = '', owner = '', ...others] = log.topics;
    const [side, tokenId] = [2, 2 + WORD].map((at) => log.data.slice(at, at + WORD));
    const data = `0x${side}${vary(tokenId ?? '')}${log.data.slice(2 + 2 * WORD)}`;
    return {
      ...log,
      transactionHash,
      topics: [topic, vary(orderHash), vary(owner), ...others] as `0x${string}`[],
      data: Buffer.from(data).toString() as `0x${string}`,
    };
  });
}

function digits(random: Random): string {
  return random.hex(VARIED_DIGITS / 2).slice(2);
}
