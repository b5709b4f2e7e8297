// Ingest reads blocks again whose matches were shown in FEED, which has removed some of them since. None is shown as
// new.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import { removeMessages } from '../../infra/nats/streams.ts';
import { decodeFeedEvent, FEED_MATCH_SUBJECT, FEED_STREAM } from '../../ingest/contract.ts';
import { LEDGER_STREAM, storedMessages } from '../../ingest/ledger/ledger.ts';
import { FeedWriter } from '../../ingest/pending/feed.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { start, temporaryDirectory, until } from '../support/service.ts';
import { address, fill, hash, market } from '../unit/feed-matches.ts';

const TRADES = 6;
const directory = temporaryDirectory();
let devnet: StillDevnet;
let server: NatsServer;
let nats: Nats;
let run: ReturnType<typeof start>;
let tests = 0;

beforeAll(async () => {
  devnet = await startStillDevnet(`${directory.path}/devnet`, 60);
  await devnet.mine(3);
});

beforeEach(async () => {
  server = await startNatsServer({ dataDir: `${directory.path}/nats${tests++}` });
  nats = await connectNats({ url: server.url, name: 'test' });
  await begin();
});

afterEach(async () => {
  await run.stop();
  await nats.close();
  await server.stop();
});

afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

function command(module: string, ...args: string[]) {
  return start(module, args, { ...devnet.env, NATS_URL: server.url, LOG_LEVEL: 'warn' });
}

async function finished(module: string, ...args: string[]): Promise<void> {
  const child = command(module, ...args);
  expect(await child.exit, child.errors()).toBe(0);
}

async function begin(): Promise<void> {
  run = command('ingest/main.ts');
  await run.event('caught_up');
}

async function feed() {
  const messages = [];
  for await (const { sequence, data } of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
    const event = decodeFeedEvent(data);
    const block = event.kind === 'final' ? event.blockNumber : 0;
    messages.push({ sequence, kind: event.kind, txHash: event.txHash, block });
  }
  return messages;
}

/** Trades in blocks of their own; each is final in FEED before the next. */
async function trade(count: number) {
  const finals = [];
  for (let i = 0; i < count; i += 1) {
    const hash = await devnet.trade();
    await devnet.mine(3);
    const final = await until(async () =>
      (await feed()).find(({ kind, txHash }) => kind === 'final' && txHash === hash),
    );
    finals.push(final);
  }
  return finals;
}

/** Starts ingest, and resolves with the messages of FEED until a new trade was final, without that trade. */
async function shownAgain(): Promise<readonly string[]> {
  const { last_seq: before } = (await nats.jsm.streams.info(FEED_STREAM)).state;
  await begin();
  const [newest] = await trade(1);
  return (await feed())
    .filter(({ sequence, txHash }) => sequence > before && txHash !== newest?.txHash)
    .map(({ kind, txHash }) => `${kind} ${txHash}`);
}

test('LEDGER is read again, in two runs: FEED shows only what it never showed', async () => {
  const finals = await trade(TRADES);
  await run.stop();
  // As after 72 hours.
  await nats.jsm.streams.purge(FEED_STREAM, { seq: (finals[2]?.sequence ?? 0) + 1 });
  await nats.jsm.streams.purge(LEDGER_STREAM);
  const missed = await devnet.trade();
  await devnet.mine(3);
  expect(await shownAgain()).toEqual([`match ${missed}`, `final ${missed}`]);

  // As if the first run had ended in the middle, and FEED had removed everything meanwhile.
  await run.stop();
  const later: number[] = [];
  for await (const { sequence, range } of storedMessages(nats, { sequence: 1 })) {
    if (range.to >= (finals[1]?.block ?? 0)) later.push(sequence);
  }
  await removeMessages(nats, LEDGER_STREAM, later);
  await nats.jsm.streams.purge(FEED_STREAM);
  const again = await shownAgain();
  expect(again).toContain(`match ${missed}`);
  for (const { txHash } of finals.slice(0, -1)) expect(again).not.toContain(`match ${txHash}`);
});

test('LEDGER and FEED are empty: FEED begins at the head', async () => {
  await trade(TRADES);
  await run.stop();
  await nats.jsm.streams.purge(LEDGER_STREAM);
  await nats.jsm.streams.purge(FEED_STREAM);
  expect(await shownAgain()).toEqual([]);
});

test('LEDGER is imported: FEED does not begin at the end of the archive', async () => {
  const archive = `${directory.path}/archive`;
  await trade(2);
  await finished('ops/archive.ts', 'export', '--to', archive, '--all');
  await trade(TRADES);
  await run.stop();
  await nats.jsm.streams.purge(LEDGER_STREAM);
  await nats.jsm.streams.purge(FEED_STREAM);
  await finished('ops/archive.ts', 'import', '--from', archive);
  expect(await shownAgain()).toEqual([]);
});

test('after a rewind: the matches that FEED has not shown', async () => {
  const [first, , ...others] = await trade(TRADES);
  await run.stop();
  // It represents a match of the new history.
  const { txHash } = others[0] ?? {};
  const held = (await feed()).filter((message) => message.txHash === txHash);
  await removeMessages(
    nats,
    FEED_STREAM,
    held.map(({ sequence }) => sequence),
  );
  // As with FEED_HOURS=100 for ingest alone.
  const max_age = 100 * 3_600_000_000_000;
  await nats.jsm.streams.update(FEED_STREAM, { max_age });
  await finished('ops/ledger.ts', 'rewind', '--to-block', `${first?.block}`, '--yes');
  expect((await nats.jsm.streams.info(FEED_STREAM)).config.max_age).toBe(max_age);
  expect(await shownAgain()).toEqual([`match ${txHash}`, `final ${txHash}`]);
});

test('after a restart that reads only the newest ids: no final match of the time before them', async () => {
  const [first] = await trade(2);
  await run.stop();
  const published: string[] = [];
  const writer = {
    append: async ({ id }: { id: string }) => published.push(id),
    flush: async () => undefined,
  };
  const metadata = {
    learn: async () => undefined,
    feedMarket: () => market(),
    feedTrader: () => fill(1).trader,
  };
  const again = new FeedWriter(writer, metadata, 2);
  const messages = storedSince(nats, FEED_STREAM, { sequence: first?.sequence ?? 0 });
  const { value } = await messages[Symbol.asyncIterator]().next();
  expect(await again.restore(nats, 0, ({ subject }) => subject === FEED_MATCH_SUBJECT)).toBe(false);
  const taker = { ...fill(1), trader: address(1), tokenId: '1', order: null };
  const final = (id: string, detectedAtMs: number) => ({
    ...{ id, txHash: hash(1), exchange: address(9), conditionId: hash(1), detectedAtMs },
    ...{ pending: false, sent: null, taker, makers: [taker] },
  });
  await again.show(final('forgotten', value?.timestampMs ?? 0));
  await again.show(final('new', Date.now() + 3_600_000));
  expect(published).toEqual(['new']);
});
