/**
 * What an independent account has to know of protocol version 2: why its shares moved, and the results of its markets, from logs and
 * the ABI alone. `docs/pnl.md` has the rules.
 */
import { type ChainLog, chainLogs, type Fact, words } from '../release/faults/chain-facts.ts';
import { at } from './at.ts';

const EVENTS = {
  split: '0xb6a6b8b17a43b07b9359dd12d304e42077eede9e672f8646144842c8604582a4',
  merge: '0xf233f7be4ce81130a78e8eb2fa626497586c56094d27bfec2e196471e9c60301',
  redeem: '0x4fd474b703f46b453536518b4cbc159dfbea6fd663233763d321a9bc8ccdf97f',
  migrate: '0xe8d329e97d555e1e9d0da49d3b12d41a966458eee02ff4c869e54c6711d7c80b',
  horizontalSplit: '0x9dbee20759d31417e9b0d739e07904f87139522ce89cf2f6ad78e299067674ce',
  horizontalMerge: '0xbfdd473162148936b92fc229a1d66bcded27968d61ec543cbd86b433fd2d7b4b',
  convert: '0x975e919c2cacb75b8a9fc78ddf455a5211812df2f388c877c8d3adfe156e2779',
  compress: '0x43f975db4a407bc85816b44922ab015dc6b990ead8d39099398c03a258e70bce',
  wrap: '0xee943741871b99130d74367c491afe27aa9324108e10ae51d0a8f9e8cd9f9eff',
  unwrap: '0x49c5e71a70e54b164c70c3345b2f3ca11fbad1c05a76146be4c4e849f992658b',
  extract: '0x6c14fdbd417e901138c803349c26df1115726b468ebc6142d39f7b9aef7f17fe',
} as const;
export const V2_TOPICS: readonly string[] = Object.values(EVENTS);

const RESOLVED = '0xe560c1a2847d4cf2e66de11fe592605556989449f38cc3ab96e2e287daa68caa';
const PREPARED = '0x51c89d7ee51515f7235e928930da7f81be08212bc14870a6a37c64744492db96';

type Event = { readonly log: number; readonly paid: bigint } & {
  readonly reason: 'split' | 'merge' | 'redeem' | 'migrate' | 'convert';
};

/** What the module did next, and what it paid, or took if below 0. */
export function nextOf(logs: readonly ChainLog[], module: string, log: number): Event | undefined {
  const found = logs.find(
    ({ address, topics, logIndex }) =>
      address.toLowerCase() === module &&
      Number(logIndex) > log &&
      V2_TOPICS.includes(topics[0] ?? ''),
  );
  if (found === undefined) return undefined;
  const values = words(found.data);
  const word = (n: number) => values[n] ?? 0n;
  const at = { log: Number(found.logIndex) };
  const [topic] = found.topics;
  // Words of a split: the receiver of No, the amount.
  if (topic === EVENTS.split) return { ...at, reason: 'split', paid: -word(1) };
  if (topic === EVENTS.merge) return { ...at, reason: 'merge', paid: word(0) };
  if (topic === EVENTS.redeem) return { ...at, reason: 'redeem', paid: word(1) };
  if (topic === EVENTS.migrate) return { ...at, reason: 'migrate', paid: 0n };
  if (topic === EVENTS.horizontalSplit) return { ...at, reason: 'convert', paid: -word(0) };
  if (topic === EVENTS.horizontalMerge) return { ...at, reason: 'convert', paid: word(0) };
  // Words: the receiver, the amount, the new amount, the money.
  return { ...at, reason: 'convert', paid: topic === EVENTS.compress ? word(3) : 0n };
}

/** Shares of one outcome that were given or received, what one is worth, and which of all these it is. */
export type Piece = { readonly shares: bigint; readonly price: bigint | undefined };

const SHARE = 1_000_000n;

/** The wallet's cash for each piece; negative for a purchase. */
export function pricesOf(cash: bigint, pieces: readonly Piece[]): readonly bigint[] {
  const known = pieces.flatMap(({ price }) => price ?? []);
  const sum = known.reduce((a, b) => a + b, 0n);
  const typical = known.length === 0 ? SHARE / 2n : sum / BigInt(known.length);
  const size = ({ shares }: Piece) => (shares < 0n ? -shares : shares);
  const worth = (piece: Piece) => (size(piece) * (piece.price ?? typical)) / SHARE;
  const [out, into] = [
    pieces.filter((one) => one.shares < 0n),
    pieces.filter((one) => one.shares > 0n),
  ];
  const total = (some: readonly Piece[]) => some.reduce((a, one) => a + worth(one), 0n);
  let got = total(out);
  if (into.length === 0 || got < cash) got = cash;
  const spread = (amount: bigint, some: readonly Piece[]) => {
    const all = total(some);
    const parts = some.map((one) =>
      all === 0n ? amount / BigInt(some.length) : (amount * worth(one)) / all,
    );
    const last = parts.pop();
    if (last !== undefined) parts.push(amount - parts.reduce((a, b) => a + b, 0n));
    return parts;
  };
  const [given, taken] = [spread(got, out), spread(got - cash, into)];
  return pieces.map(({ shares }) => (shares < 0n ? (given.shift() ?? 0n) : -(taken.shift() ?? 0n)));
}

const PARTS = 10n ** 36n;

/**
 * Results of its markets: those that are logged, those that follow in a neg-risk event, and those of combos. `aliases` has the older
 * markets of conditions that continue one, whose results are among `facts`. Combos that are decided when they are prepared enter
 * `decidedAtOnce`.
 */
export async function v2Results(
  rpcUrl: string,
  head: number,
  facts: readonly Fact[],
  aliases: ReadonlyMap<string, string>,
  decidedAtOnce: Map<string, { txHash: string; payouts: readonly bigint[] }>,
): Promise<readonly Fact[]> {
  const logs: ChainLog[] = [];
  for await (const log of chainLogs(rpcUrl, { topics: [[RESOLVED, PREPARED]] }, 0, head))
    logs.push(log);
  const older = facts.filter((fact) => fact.kind === 'resolution');
  const steps = [
    ...logs.map((log) => ({ block: Number(log.blockNumber), log: Number(log.logIndex), of: log })),
    ...older.map((fact) => ({ block: fact.block, log: fact.logIndex, of: fact })),
  ].sort((a, b) => a.block - b.block || a.log - b.log);
  const results = new Map<string, readonly bigint[]>();
  const combos = new Map<string, readonly bigint[]>();
  const noes = new Map<string, number>();
  const found: Fact[] = [];
  for (const { block, log, of } of steps) {
    const txHash = 'txHash' in of ? of.txHash : of.transactionHash;
    let logIndex = log;
    const prepared = 'topics' in of && of.topics[0] === PREPARED ? of.topics[1] : undefined;
    const add = (conditionId: string, payouts: readonly bigint[]) => {
      if (results.has(conditionId)) return;
      results.set(conditionId, payouts);
      if (conditionId === prepared) decidedAtOnce.set(conditionId, { txHash, payouts });
      found.push({ block, logIndex, txHash, kind: 'resolution', conditionId, payouts });
    };
    const addCombos = () => {
      for (const [combo, legs] of combos) {
        const payouts = results.has(combo) ? undefined : comboPayouts(legs, results, aliases);
        if (payouts !== undefined) add(combo, payouts);
      }
    };
    if ('txHash' in of) {
      if (!results.has(of.conditionId)) results.set(of.conditionId, of.payouts);
    } else if (of.topics[0] === PREPARED) combos.set(of.topics[1] ?? '', words(of.data).slice(2));
    else {
      const condition = of.topics[1] ?? '';
      const result = words(of.data).slice(2, 4);
      if (aliases.has(condition)) continue;
      add(condition, result);
      addCombos();
      // The next log says what follows.
      logIndex += 1;
      if (condition.startsWith('0x02')) derive(condition, result[0] === SHARE, noes, aliases, add);
    }
    addCombos();
  }
  return found;
}

/** Undefined while it is open. */
function comboPayouts(
  legs: readonly bigint[],
  results: ReadonlyMap<string, readonly bigint[]>,
  aliases: ReadonlyMap<string, string>,
): readonly bigint[] | undefined {
  const paid = legs.map((leg) => {
    const own = `0x${(leg - (leg & 1n)).toString(16).padStart(64, '0')}`;
    const result = results.get(aliases.get(own) ?? own);
    const all = (result ?? []).reduce((a, b) => a + b, 0n);
    return result && { part: result[Number(leg & 1n)] ?? 0n, all };
  });
  if (paid.some((one) => one?.part === 0n)) return [0n, 1n];
  let [down, up] = [PARTS, PARTS];
  for (const one of paid) {
    if (one === undefined) return undefined;
    const { part, all } = one;
    down = (down * part) / all;
    up = -((-up * part) / all) + ((up * part) % all === 0n ? 0n : 1n);
  }
  // The third part is paid to nobody.
  return [down, PARTS - up, up - down];
}

/** One Yes makes all others No; all No make the last one, which is never reported, Yes. */
function derive(
  condition: string,
  isYes: boolean,
  noes: Map<string, number>,
  aliases: ReadonlyMap<string, string>,
  add: (condition: string, payouts: readonly bigint[]) => void,
): void {
  const event = condition.slice(0, 60);
  const arity = Number(`0x${condition.slice(36, 40)}`);
  const nameOf = (number: number) => `${event}${number.toString(16).padStart(4, '0')}00`;
  if (!isYes) {
    const count = at(noes, event, () => 0) + 1;
    noes.set(event, count);
    if (count === arity) add(nameOf(arity), [1n, 0n]);
    return;
  }
  for (let number = 0; number <= arity; number++)
    if (!aliases.has(nameOf(number))) add(nameOf(number), [0n, 1n]);
}
