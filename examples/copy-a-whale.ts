/**
 * Copies the trades of one wallet at a hundredth of their size: `node copy-a-whale.ts 0x…`. It only prints orders. To place
 * them, call your exchange's client where it prints. A match is copied when it is first seen, seconds before its block. If
 * it never settles, the copy is closed.
 */
import { Fillstream } from '@fillstream/client';

const PART = 0.01;
const USDC_MAX = 50;

const whale = (process.argv[2] ?? '').toLowerCase();
const { FILLSTREAM_URL: url = 'http://127.0.0.1:8080', FILLSTREAM_KEY: key = '' } = process.env;
const fillstream = new Fillstream({ url, key });
const copies = new Map<string, string>();

for await (const event of fillstream.feed({ traders: [whale], finality: true })) {
  if (event.type === 'order') {
    const { maker_orders, market, match_id, taker_order } = event.data;
    const own = [taker_order, ...maker_orders].find(({ trader }) => trader.address === whale);
    if (own === undefined) continue;
    const usdc = Math.min(USDC_MAX, (Number(own.usdc) / 1e6) * PART);
    const price = Number(own.usdc) / Number(own.shares);
    copies.set(match_id, `${usdc.toFixed(2)} USDC of ${own.outcome} in ${market.slug}`);
    console.log(`${own.side} ${copies.get(match_id)} at ${price.toFixed(3)} or better`);
  }
  if (event.type === 'gap')
    console.log('matches were missed: compare your positions with those of the wallet');
  if (event.type !== 'void' && event.type !== 'restored' && event.type !== 'final') continue;
  // Matches that were shown before this program started have no copy.
  const copy = copies.get(event.data.match_id);
  if (copy === undefined) continue;
  if (event.type === 'void') console.log(`close ${copy}: ${event.data.reason}`);
  if (event.type === 'restored') console.log(`open ${copy} again`);
  if (event.type === 'final') {
    console.log(`keep ${copy}`);
    copies.delete(event.data.match_id);
  }
}
