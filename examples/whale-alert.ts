/**
 * Posts every match above a size to a chat: `MIN_USDC=10000 WEBHOOK_URL=https://discord.com/api/webhooks/… node
 * whale-alert.ts`. For Telegram, WEBHOOK_URL is https://api.telegram.org/bot<token>/sendMessage and CHAT_ID names the chat.
 * The cursor is stored in a file, so the program catches up after a restart.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Fillstream } from '@fillstream/client';

const { FILLSTREAM_URL: url = 'http://127.0.0.1:8080', FILLSTREAM_KEY: key = '' } = process.env;
const {
  CHAT_ID,
  CURSOR_FILE = 'whale-alert.cursor',
  MIN_USDC = '10000',
  WEBHOOK_URL = '',
} = process.env;

/** The limit of Discord; that of Telegram is 4,096. Names and questions may be of any length. */
const CHARACTERS_MAX = 2_000;

if (WEBHOOK_URL === '') throw new Error('WEBHOOK_URL is not set');

const money = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const fillstream = new Fillstream({ url, key });
const from = await readFile(CURSOR_FILE, 'utf8').catch(() => undefined);

const feed = fillstream.feed({ min_usdc: Number(MIN_USDC) }, from ? { from } : {});
// The cursor advances even when no match passes. Without a saved cursor, a restart would begin with new
// matches.
let saved = from;
let isBusy = false;
setInterval(() => {
  if (!isBusy) save(feed.cursor);
}, 1_000);

for await (const event of feed) {
  isBusy = true;
  if (event.type === 'order') {
    const { market, taker_order: order } = event.data;
    const cents = Math.round((100 * Number(order.usdc)) / Number(order.shares));
    // A match of less than a micro-share has no price.
    const price = Number(order.shares) === 0 ? '' : ` at ${cents}¢`;
    const who = order.trader.name || order.trader.address;
    const verb = order.side === 'BUY' ? 'buys' : 'sells';
    const usdc = money.format(Number(order.usdc) / 1e6);
    await post(`${who} ${verb} ${usdc} of “${order.outcome}”${price}: ${market.question}`);
  }
  if (event.type === 'gap') await post('Some matches were missed.');
  save(event.cursor);
  isBusy = false;
}

/** Retries until the chat accepts the message. Only then is the cursor saved. Throws if the chat refuses it for good. */
async function post(whole: string): Promise<void> {
  const isLong = whole.length > CHARACTERS_MAX;
  const text = isLong ? `${whole.slice(0, CHARACTERS_MAX - 1).toWellFormed()}…` : whole;
  // Anybody can choose a name with @everyone in it.
  const content = { content: text, allowed_mentions: { parse: [] } };
  const body = CHAT_ID === undefined ? content : { chat_id: CHAT_ID, text };
  for (let waitMs = 1_000; ; waitMs = Math.min(60_000, waitMs * 2)) {
    const headers = { 'Content-Type': 'application/json' };
    const sent = fetch(WEBHOOK_URL, { method: 'POST', headers, body: JSON.stringify(body) });
    const response = await sent.catch(() => undefined);
    if (response?.ok) return;
    const { status = 0 } = response ?? {};
    const outcome = status === 0 ? 'the chat cannot be reached' : `the chat answered ${status}`;
    if (status >= 400 && status < 500 && status !== 429) throw new Error(outcome);
    console.error(`${outcome}; retrying in ${waitMs / 1_000} s`);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

function save(cursor: string): void {
  if (cursor === '' || cursor === saved) return;
  writeFileSync(`${CURSOR_FILE}.new`, cursor);
  renameSync(`${CURSOR_FILE}.new`, CURSOR_FILE);
  saved = cursor;
}
