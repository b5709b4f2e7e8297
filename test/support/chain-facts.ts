/**
 * The matches and results that LEDGER has of a chain, read without ingest's decoders: those that are logged, and those that follow from
 * them in protocol version 2.
 */
import { chainFacts, type Fact } from '../release/faults/chain-facts.ts';
import { v2Results } from './v2-account.ts';

/** In chain order, up to this block, of markets that continue no others. */
export async function storedFacts(url: string, to: number): Promise<readonly Fact[]> {
  const older = await chainFacts(url, 0, to);
  const facts = [...older, ...(await v2Results(url, to, older, new Map(), new Map()))];
  return facts.sort((a, b) => a.block - b.block || a.logIndex - b.logIndex);
}

/** As `block:txHash:logIndex`. */
export function placeOf({ block, logIndex, txHash }: Fact): string {
  return `${block}:${txHash}:${logIndex}`;
}

/** Places of the facts that have a log of their own, in chain order. */
export async function factsOfChain(url: string, to: number): Promise<readonly string[]> {
  const facts = await storedFacts(url, to);
  return facts.filter(isLogged).map(placeOf);
}

/** A combo has no result of its own, and what follows from a log comes after what it says. */
export function isLogged(fact: Fact, at: number, facts: readonly Fact[]): boolean {
  if (fact.kind === 'match') return true;
  const before = facts[at - 1];
  const isFirst = before === undefined || placeOf(before) !== placeOf(fact);
  return isFirst && !fact.conditionId.startsWith('0x03');
}
