/** The order feed read again from the API: what a tape must have shown between two positions. */

type Replayed = {
  readonly position: string;
  readonly txHash: string;
  readonly usdc: string;
  readonly shares: string;
};

type Labelled = { tx_hash: string; taker_order: { usdc: string; shares: string } };

/**
 * Matches behind `after` up to `last`, and the transactions of which one was voided up to `end`, with
 * the position at which that was sent first.
 */
export async function replay(
  { url, key }: { readonly url: string; readonly key: string },
  { after, last, end }: { readonly after: string; readonly last: string; readonly end: string },
) {
  const gone = new AbortController();
  const response = await fetch(`${url}/v1/stream/orders?format=json`, {
    headers: { 'X-Service-Key': key, 'Last-Event-ID': after },
    signal: gone.signal,
  });
  if (response.status !== 200 || response.body === null) throw new Error(await response.text());
  const replayed: Replayed[] = [];
  const voided = new Map<string, bigint>();
  let rest = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? '';
      const position = field('id');
      if (position === '') continue;
      // Positions grow with the feed.
      if (BigInt(position) > BigInt(end)) {
        gone.abort();
        return { replayed, voided };
      }
      const data = field('data');
      if (field('event') === 'gap') throw new Error(`the feed has lost history: ${data}`);
      if (field('event') === 'void') {
        const { tx_hash } = JSON.parse(data) as Labelled;
        voided.set(tx_hash, voided.get(tx_hash) ?? BigInt(position));
      }
      if (field('event') === 'restored') voided.delete((JSON.parse(data) as Labelled).tx_hash);
      if (field('event') !== 'order' || BigInt(position) > BigInt(last)) continue;
      const order = JSON.parse(data) as Labelled;
      const { usdc, shares } = order.taker_order;
      replayed.push({ position, txHash: order.tx_hash, usdc, shares });
    }
  }
  throw new Error('the feed ended');
}
