/**
 * Random matches that the exchange accepts. Which amounts it accepts is known from an accounting model: every wallet
 * pays in its part, pairs are minted or merged, the makers are paid, and the taker receives what remains.
 */
import type { Hex } from 'viem';

export const BUY = 0;
const SELL = 1;
const PPM = 1_000_000n;
const TRIES_MAX = 1_000;
const WORD_MAX = 2n ** 256n - 1n;

/** A random integer from `min` to `max`, both included. */
export type Draw = (min: bigint, max: bigint) => bigint;

export type ModelOrder = {
  readonly salt: bigint;
  readonly maker: Hex;
  readonly signer: Hex;
  readonly tokenId: bigint;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly side: 0 | 1;
  readonly signatureType: number;
  readonly timestamp: bigint;
  readonly metadata: Hex;
  readonly builder: Hex;
  readonly signature: Hex;
};

export type ModelMatch = {
  readonly takerOrder: ModelOrder;
  readonly makerOrders: readonly ModelOrder[];
  readonly takerFillAmount: bigint;
  readonly makerFillAmounts: readonly bigint[];
  readonly takerFeeAmount: bigint;
  readonly makerFeeAmounts: readonly bigint[];
};

export type MatchType = 'complementary' | 'mint' | 'merge' | 'mixed mint' | 'mixed merge';

export function typeOf({ takerOrder, makerOrders }: ModelMatch): MatchType {
  const same = makerOrders.filter((order) => order.side === takerOrder.side).length;
  if (same === 0) return 'complementary';
  const kind = takerOrder.side === BUY ? 'mint' : 'merge';
  return same === makerOrders.length ? kind : `mixed ${kind}`;
}

/** The amounts that one wallet pays in, receives and gets back, before fees. */
type Moved = { readonly gives: bigint; readonly gets: bigint };

type Outcome = {
  readonly makers: readonly Moved[];
  readonly taker: Moved;
  /** The part of the taker's payment that was not needed. */
  readonly refund: bigint;
};

/** The floor of making · takerAmount / makerAmount. */
function entitled(order: ModelOrder, making: bigint): bigint {
  // By binary search instead of division, to test against the definition.
  let [low, high] = [0n, making * order.takerAmount + 1n];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (middle * order.makerAmount <= making * order.takerAmount) low = middle;
    else high = middle;
  }
  return low;
}

/** Executes a match. The exchange's own account is empty before and after. */
function play(match: ModelMatch, takerGives: bigint): Outcome {
  const { takerOrder } = match;
  const own = takerOrder.tokenId;
  const other = match.makerOrders.find(({ tokenId }) => tokenId !== own)?.tokenId ?? -1n;
  const account = new Map<bigint | 'usdc', bigint>();
  const move = (what: bigint | 'usdc', amount: bigint) =>
    account.set(what, (account.get(what) ?? 0n) + amount);
  const given = (order: ModelOrder) => (order.side === BUY ? 'usdc' : order.tokenId);
  const got = (order: ModelOrder) => (order.side === BUY ? order.tokenId : 'usdc');
  move(given(takerOrder), takerGives);
  const makers = match.makerOrders.map((order, i): Moved => {
    const gives = match.makerFillAmounts[i] ?? 0n;
    const gets = entitled(order, gives);
    move(given(order), gives);
    move(got(order), -gets);
    return { gives, gets };
  });
  // A pair is minted for every share of the other token that a maker receives, and merged for every one that a maker
  // pays in.
  const missing = -(account.get(other) ?? 0n);
  for (const token of [own, other]) move(token, missing);
  move('usdc', -missing);
  const gets = account.get(got(takerOrder)) ?? 0n;
  const refund = account.get(given(takerOrder)) ?? 0n;
  return { makers, taker: { gives: takerGives, gets }, refund };
}

/** The minimum that the taker has to pay in. */
function needed(match: ModelMatch): bigint {
  return -play(match, 0n).refund;
}

type Market = {
  readonly wallets: readonly Hex[];
  readonly tokenIds: readonly [bigint, bigint];
};

/** A match that the exchange accepts: crossing orders, with amounts within them that are odd on purpose. */
export function drawMatch(draw: Draw, market: Market): ModelMatch {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const match = propose(draw, market);
    if (match !== undefined) return match;
  }
  throw new RangeError('no acceptable match drawn');
}

/** Undefined if the exchange would reject the generated match because of rounding. */
function propose(draw: Draw, { wallets, tokenIds }: Market): ModelMatch | undefined {
  const side = draw(0n, 1n) === 0n ? BUY : SELL;
  const token = Number(draw(0n, 1n));
  const [own, other] = [tokenIds[token] ?? 0n, tokenIds[1 - token] ?? 0n];
  // The taker's limit price per share, in millionths.
  const limit = draw(20_000n, 980_000n);
  const kind = draw(0n, 2n);
  const [taker = '0x', ...others] = wallets;
  const makerOrders = others.slice(0, Number(draw(1n, BigInt(others.length)))).map((maker, i) => {
    const isSame = kind === 1n || (kind === 2n && i % 2 === 0);
    const shares = draw(1_000n, 50_000_000n);
    const usdc = crossingUsdc(draw, { side, isSame, limit, shares });
    const makerSide = isSame ? side : side === BUY ? SELL : BUY;
    return order(draw, maker, makerSide, isSame ? other : own, shares, usdc);
  });
  const makerFillAmounts = makerOrders.map(({ makerAmount }) =>
    draw(0n, 3n) === 0n ? makerAmount : draw(1n, makerAmount),
  );
  const shares = draw(400_000_000n, 500_000_000n);
  // Rounds against the taker, so that the order crosses at least as its limit requires.
  const usdc = side === BUY ? (shares * limit + PPM - 1n) / PPM : (shares * limit) / PPM;
  const takerOrder = order(draw, taker, side, own, shares, usdc);
  const draft = { takerOrder, makerOrders, makerFillAmounts, takerFillAmount: 0n };
  const makerFeeAmounts = makerOrders.map(() => (draw(0n, 3n) === 0n ? draw(0n, 3n) : 0n));
  const match = { ...draft, makerFeeAmounts, takerFeeAmount: 0n };
  const least = needed(match);
  const { makerAmount, takerAmount } = takerOrder;
  // Above this, the taker would get less than at its limit price.
  const most = (play(match, least).taker.gets * makerAmount) / takerAmount;
  if (least < 1n || least > most || least > makerAmount) return undefined;
  const takerFillAmount =
    draw(0n, 1n) === 0n ? least : draw(least, most < makerAmount ? most : makerAmount);
  const { makers, taker: moved } = play(match, least);
  const payable =
    makers.every(({ gets }, i) => gets >= (makerFeeAmounts[i] ?? 0n)) && moved.gets > 0n;
  if (!payable) return undefined;
  const proceeds = side === BUY ? least : moved.gets;
  return { ...match, takerFillAmount, takerFeeAmount: draw(0n, proceeds / 50n) };
}

/** USDC of a maker's order that crosses the taker's limit, often at a better price. */
function crossingUsdc(
  draw: Draw,
  given: { side: 0 | 1; isSame: boolean; limit: bigint; shares: bigint },
): bigint {
  const { side, isSame, limit, shares } = given;
  const own = isSame ? PPM - limit : limit;
  // The highest price of a selling maker, or the lowest of a buying one.
  const makerSells = isSame ? side === SELL : side === BUY;
  const edge = makerSells ? (shares * own) / PPM : (shares * own + PPM - 1n) / PPM;
  return makerSells ? draw(edge / 2n, edge) : draw(edge, (edge + shares) / 2n + 1n);
}

function order(
  draw: Draw,
  maker: Hex,
  side: 0 | 1,
  tokenId: bigint,
  shares: bigint,
  usdc: bigint,
): ModelOrder {
  return {
    salt: draw(0n, WORD_MAX),
    maker,
    signer: maker,
    tokenId,
    makerAmount: side === BUY ? usdc : shares,
    takerAmount: side === BUY ? shares : usdc,
    side,
    signatureType: Number(draw(0n, 3n)),
    timestamp: draw(0n, 2_000_000_000_000n),
    metadata: word(draw),
    builder: word(draw),
    signature: '0x',
  };
}

function word(draw: Draw): Hex {
  return `0x${draw(0n, WORD_MAX).toString(16).padStart(64, '0')}`;
}
