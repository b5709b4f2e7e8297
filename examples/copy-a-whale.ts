/**
 * Copies the trades of one wallet at a hundredth of their size: `node copy-a-whale.ts 0x…`. It only prints orders: call your
 * exchange's client instead. A trade is copied when it is first seen, seconds before its block. If it never settles, the copy
 * is closed.
 */
import { Fillstream } from '@fillstream/client';

const TASKS = { order: 'place', void: 'close', restored: 'place again', final: 'keep' };
const whale = (process.argv[2] ?? '').toLowerCase();
const { FILLSTREAM_URL: url = 'http://127.0.0.1:8080', FILLSTREAM_KEY: key = '' } = process.env;
const fillstream = new Fillstream({ url, key });
const copies = new Map<string, string>();

for await (const event of fillstream.feed({ traders: [whale], finality: true })) {
  if (event.type === 'gap') console.log('trades were missed: compare your positions');
  if (event.type === 'gap' || event.type === 'end') continue;
  if (event.type === 'order') {
    const { maker_orders, market, match_id, taker_order } = event.data;
    // An order of less than a micro-share has no price.
    const own = [taker_order, ...maker_orders].filter(
      ({ trader, shares }) => trader.address === whale && shares !== '0',
    );
    const orders = own.map(({ side, outcome, usdc, shares }) => {
      const size = (Number(usdc) / 1e6 / 100).toFixed(2);
      const price = (Number(usdc) / Number(shares)).toFixed(3);
      return `${side} ${size} USDC of ${outcome} in ${market.slug} at ${price} or better`;
    });
    if (orders.length > 0) copies.set(match_id, orders.join(', '));
  }
  // There is no copy of a trade that was shown before this program started.
  const copy = copies.get(event.data.match_id);
  if (copy !== undefined) console.log(`${TASKS[event.type]}: ${copy}`);
  if (event.type === 'final') copies.delete(event.data.match_id);
}
