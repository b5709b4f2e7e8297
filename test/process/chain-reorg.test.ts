import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { eventsOf } from '../../ingest/ledger/ledger.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { serviceUrl } from '../../local/secret.ts';
import { migrate } from '../../sql/migrate.ts';
import { placeOf, storedFacts } from '../support/chain-facts.ts';
import { factsOfLedger, type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { hasCurl } from '../support/runtimes.ts';
import { query, start, temporaryDirectory, until } from '../support/service.ts';

const run = promisify(execFile);
const REFUSED = 6;
const directory = temporaryDirectory();
let devnet: StillDevnet;
let server: Awaited<ReturnType<typeof startNatsServer>>;
let nats: Nats;
let clickhouse: ReturnType<typeof start>;
let env: Record<string, string>;

beforeAll(async () => {
  devnet = await startStillDevnet(`${directory.path}/devnet`, 120);
  server = await startNatsServer({ dataDir: `${directory.path}/nats` });
  nats = await connectNats({ url: server.url, name: 'test' });
  const data = `${directory.path}/clickhouse`;
  clickhouse = start('local/clickhouse/main.ts', ['--data', data, '--port', '0']);
  const url = serviceUrl(String((await clickhouse.event('listening')).url), data);
  env = { ...devnet.env, NATS_URL: server.url, CLICKHOUSE_URL: url, LOG_LEVEL: 'warn' };
  await migrate({ url, database: 'fillstream' });
  await query(
    url,
    `INSERT INTO markets (condition_id_hex, market_id, question, tags)
     VALUES ('${'7'.repeat(64)}', 4000000000, 'Who won?', ['old'])`,
  );
});

afterAll(async () => {
  await nats?.close();
  await clickhouse?.stop();
  await server?.stop();
  await devnet?.close();
  directory.remove();
});

/** A proxy to the devnet's node that, after `fail()`, rejects the first lookup of a few blocks. */
async function startUnreliableNode() {
  const refused = new Set<string>();
  let isFailing = false;
  const node = createServer(async (request, response) => {
    const body = await text(request);
    const call = body.replaceAll(/"id":\d+/g, '');
    const isLookup = call.includes('"eth_getBlockByNumber"') && !refused.has(call);
    if (isFailing && isLookup && refused.size < REFUSED) {
      refused.add(call);
      response.writeHead(500).end();
      return;
    }
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(devnet.url, { method: 'POST', headers, body });
    response.writeHead(200, headers).end(await answer.text());
  }).listen(0, '127.0.0.1');
  await once(node, 'listening');
  return {
    url: `http://127.0.0.1:${(node.address() as AddressInfo).port}`,
    fail() {
      isFailing = true;
    },
    close() {
      node.closeAllConnections();
      node.close();
    },
  };
}

async function ledgerReaches(block: number): Promise<void> {
  await until(async () => {
    const { blocks } = await factsOfLedger(nats);
    return (blocks.at(-1)?.number ?? -1) >= block ? true : undefined;
  });
}

/** The commands of "A final block was replaced". */
function documentedRebuild(): string {
  const document = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const section = document.split('## A final block was replaced')[1] ?? '';
  const blocks = [...section.matchAll(/^ {3}```sh\n(.*?)^ {3}```$/gms)].map(([, block]) => block);
  const last = /`(curl [^`]*DROP DATABASE kept SYNC')`/.exec(section)?.[1];
  return [...blocks, last].join('\n');
}

/** Rows of a projection from scratch: the database is dropped, created again and filled from LEDGER, as documented. */
async function rebuiltFills(): Promise<number> {
  const url = env.CLICKHOUSE_URL ?? '';
  const { stdout } = await run('bash', ['-e', '-c', documentedRebuild()], {
    env: { ...process.env, ...env },
  });
  expect(stdout).toContain('applied 0001');
  expect(stdout).not.toContain('DB::Exception');
  expect(await oldListing()).toEqual(OLD);
  const projector = start('projector/main.ts', [], env);
  await projector.event('projecting');
  const { blocks } = await factsOfLedger(nats);
  const fills = eventsOf('matches', blocks).flatMap((match) => match.fills).length;
  const count = await until(async () => {
    const [row] = await query<{ n: string }>(
      url,
      "SELECT toString(countIf(kind = 'fill')) AS n FROM bookings",
    );
    return Number(row?.n) >= fills ? Number(row?.n) : undefined;
  });
  await projector.stop();
  expect(count).toBe(fills);
  return count;
}

const OLD = [{ question: 'Who won?', tags: ['old'], words: 2 }];

/** The texts of a listing that METADATA does not have, and how many of their words are in the search tables. */
function oldListing() {
  return query(
    env.CLICKHOUSE_URL ?? '',
    `SELECT question, tags, (SELECT toUInt32(uniqExact(word)) FROM search_words WHERE word IN ('who', 'won')) AS words
     FROM markets FINAL WHERE market_id = 4000000000`,
  );
}

test.skipIf(!hasCurl())(
  'a replaced final block stops ingest with an alarm; a rewind and a rebuild repair it',
  async () => {
    const node = await startUnreliableNode();
    const first = start('ingest/main.ts', [], { ...env, RPC_URL: node.url });
    await devnet.trade();
    await devnet.mine(3);
    await first.event('caught_up');
    const final = await devnet.number('finalized');
    await ledgerReaches(final);
    const before = await factsOfLedger(nats);
    const fills = await rebuiltFills();

    // The newest blocks with facts are replaced by empty ones, far below "final".
    const head = await devnet.number('latest');
    const depth = head - Number(before.facts.at(-1)?.split(':')[0]) + 1;
    node.fail();
    await devnet.call('anvil_reorg', depth, []);
    await devnet.mine(4);
    expect(await first.exit).toBe(3);
    node.close();
    const alarm = JSON.stringify(first.lines);
    expect(alarm).toContain('ALARM: a final block was replaced');
    expect(alarm).toContain(`LEDGER holds ${before.blocks.at(-1)?.hash} as block ${final}`);
    const agreed = Number(/agree on blocks up to (\d+)/.exec(alarm)?.[1]);
    expect(agreed).toBe(head - depth);
    expect((await factsOfLedger(nats)).facts).toEqual(before.facts);

    const plan = ['rewind', '--to-block', String(agreed)];
    const shown = start('ops/ledger.ts', plan, env);
    expect(await shown.exit).toBe(0);
    expect((await factsOfLedger(nats)).facts).toEqual(before.facts);
    const done = start('ops/ledger.ts', [...plan, '--yes'], env);
    expect(await done.exit, done.errors() + JSON.stringify(done.lines)).toBe(0);
    const rewound = await factsOfLedger(nats);
    expect(rewound.blocks.at(-1)?.number).toBe(agreed);
    expect(rewound.facts).toEqual(
      before.facts.filter((place) => Number(place.split(':')[0]) <= agreed),
    );

    const again = start('ingest/main.ts', [], env);
    const newFinal = await devnet.number('finalized');
    await ledgerReaches(newFinal);
    const { facts, blocks } = await factsOfLedger(nats);
    expect(facts).toEqual((await storedFacts(devnet.url, newFinal)).map(placeOf));
    expect(facts.length).toBeLessThan(before.facts.length);
    const newBlocks = blocks.filter(({ number }) => number > agreed);
    expect(newBlocks.map(({ number }) => number)).toEqual(
      Array.from({ length: newFinal - agreed }, (_, i) => agreed + 1 + i),
    );
    expect(await rebuiltFills()).toBeLessThan(fills);
    expect(await again.stop()).toBe(0);
  },
);
