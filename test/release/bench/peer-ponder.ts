/**
 * Ponder as a peer: how many fills a second it indexes from the history of a devnet's node into a PostgreSQL of its own,
 * beside our ingest and projector. Its handler stores a row for each OrderFilled log and nothing else: no calldata,
 * listings, positions, PnL or sums, which is to its advantage. It runs as shipped, which begins with 20 requests a second and
 * adapts, and with that throttle lifted.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { ORDER_FILLED } from '../../../ingest/events/match.ts';
import { CHAIN_ID, EXCHANGE, NEG_RISK_EXCHANGE } from '../../../local/devnet/contracts.ts';
import { SMALL_YOUNG_SPACE } from '../../../local/service.ts';
import { type Devnet, rpc, start, temporaryDirectory } from '../../support/service.ts';
import { startParts } from '../../support/stack.ts';
import { blockNumber } from '../faults/chain-facts.ts';
import { openHistory } from './history.ts';
import {
  installPackages,
  type Postgres,
  postgresPrograms,
  startPostgres,
} from './peer-postgres.ts';
import { requireEqual } from './peer-questions.ts';
import { median, readable } from './report.ts';

export const PONDER_PACKAGES = ['ponder@0.16.6', 'hono@4', 'viem@2.57.0', 'typescript@5'];
/** Blocks that Ponder takes for unfinished on a chain that it does not know; it would wait for each of them. */
const UNFINISHED_BLOCKS = 30;
const LOG_BLOCKS = 200;
const LIMIT = 'BENCH_REQUESTS_PER_SECOND';
/** More requests a second than the machine can do. */
const UNLIMITED = '1000000';
const ADDRESSES = [EXCHANGE, NEG_RISK_EXCHANGE];

type Indexed = { readonly seconds: number; readonly fills: number; readonly shares: string };

/** Fills a second of both, by turns. */
export async function measureIndexing(matches: number, rounds: number) {
  postgresPrograms();
  const project = await installPonder();
  const data = join(tmpdir(), 'fillstream-bench-ponder-data');
  rmSync(data, { recursive: true, force: true });
  const postgres = await startPostgres(data);
  // A short interval, so that the last match is soon far enough behind the head.
  const history = await openHistory(matches, 1);
  try {
    const last = await lastMatch(history.rpcUrl);
    const head = () => blockNumber(history.rpcUrl, 'latest');
    while ((await head()) < last + UNFINISHED_BLOCKS) await delay(1_000);
    const ponder = { project, postgres, history, last };
    const runs = {
      Fillstream: () => indexOurs(history, last),
      'Ponder, throttle lifted': (round: number) =>
        indexPonder({ ...ponder, limit: { [LIMIT]: UNLIMITED }, name: `lifted_${round}` }),
      'Ponder as shipped': (round: number) =>
        indexPonder({ ...ponder, limit: {}, name: `shipped_${round}` }),
    };
    const found = new Map<string, Indexed[]>();
    for (let round = 0; round < rounds; round++) {
      for (const [name, run] of Object.entries(runs)) {
        found.set(name, [...(found.get(name) ?? []), await run(round)]);
      }
    }
    const figures = [...found.values()].flat().map(({ fills, shares }) => [fills, shares]);
    const [first = []] = figures;
    for (const other of figures) requireEqual('indexed fills and shares', [first], [other]);
    const rate = (name: string) =>
      median((found.get(name) ?? []).map(({ fills, seconds }) => fills / seconds));
    return [...found.keys()].map((name) => ({
      indexer: name,
      fills: readable(Number(first[0])),
      blocks: last + 1,
      'fills a second': readable(rate(name)),
      ratio: readable(rate('Fillstream') / rate(name)),
    }));
  } finally {
    await history.process.stop();
    await postgres.stop();
    rmSync(data, { recursive: true, force: true });
  }
}

/** Block of the newest match. */
async function lastMatch(url: string): Promise<number> {
  for (let to = await blockNumber(url, 'latest'); to >= 0; to -= LOG_BLOCKS) {
    const [fromBlock, toBlock] = [Math.max(0, to - LOG_BLOCKS + 1), to].map(
      (block) => `0x${block.toString(16)}`,
    );
    const filter = { fromBlock, toBlock, address: ADDRESSES, topics: [ORDER_FILLED] };
    const logs = await rpc<readonly { blockNumber: string }[]>(url, 'eth_getLogs', [filter]);
    if (logs.length > 0) return Number(logs.at(-1)?.blockNumber);
  }
  throw new Error('the devnet has no matches');
}

/** From the first request for blocks until the projector has stored the last match. */
async function indexOurs(history: Devnet, last: number): Promise<Indexed> {
  const directory = temporaryDirectory();
  const parts = await startParts(directory.path, []);
  const projector = start('projector/main.ts', [], parts.env);
  await projector.event('projecting');
  const env = { ...parts.env, ...history.env, NODE_OPTIONS: SMALL_YOUNG_SPACE };
  const ingest = start('ingest/main.ts', [], env);
  try {
    await ingest.event('following');
    const startedAt = performance.now();
    await projector.reached('stored', (line) => Number(line.block) >= last);
    const seconds = (performance.now() - startedAt) / 1_000;
    const [stored] = await parts.query<{ fills: string; shares: string }>(
      `SELECT toString(count()) AS fills, toString(sum(shares)) AS shares FROM bookings WHERE kind = 'fill'`,
    );
    return { seconds, fills: Number(stored?.fills), shares: stored?.shares ?? '' };
  } finally {
    await ingest.stop();
    await projector.stop();
    await parts.stop();
    directory.remove();
  }
}

/** From the first request for logs until its backfill is complete, in a database without a cache of requests. */
async function indexPonder(run: {
  readonly project: string;
  readonly postgres: Postgres;
  readonly history: Devnet;
  readonly last: number;
  /** Environment with the limit on requests a second; none as shipped. */
  readonly limit: Readonly<Record<string, string>>;
  readonly name: string;
}): Promise<Indexed> {
  const { project, postgres, history, last, limit, name } = run;
  const { host, user } = postgres.connection;
  await postgres.run(`CREATE DATABASE ${name}`);
  const args = [join(project, 'node_modules/ponder/dist/esm/bin/ponder.js'), 'start'];
  args.push('--schema', 'public', '--port', '0', '--hostname', '127.0.0.1', '--log-format', 'json');
  const child = spawn(process.execPath, args, {
    cwd: project,
    env: {
      ...process.env,
      ...{ RPC_URL: history.rpcUrl, LAST_BLOCK: String(last), PONDER_TELEMETRY_DISABLED: 'true' },
      DATABASE_URL: `postgresql://${user}@localhost/${name}?host=${encodeURIComponent(host)}`,
      ...limit,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors = `${errors}${chunk}`.slice(-5_000);
  });
  let startedAt: number | undefined;
  let seconds: number | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('"Started fetching backfill')) startedAt ??= performance.now();
    if (line.includes('"level":50')) errors += line;
    if (!line.includes('"Completed backfill indexing across all chains"')) continue;
    seconds = (performance.now() - (startedAt ?? Number.NaN)) / 1_000;
    break;
  }
  child.kill('SIGTERM');
  await exit;
  if (seconds === undefined) throw new Error(`ponder ended: ${errors}`);
  const sql = `SELECT count(*), sum(CASE WHEN side = 0 THEN taker_amount ELSE maker_amount END) FROM fills`;
  const [fills = '', shares = ''] = (await postgres.run(sql, name)).trim().split('|');
  return { seconds, fills: Number(fills), shares };
}

/** Installs Ponder and writes its project. The limit on requests becomes an environment variable with the same default. */
async function installPonder(): Promise<string> {
  const project = await installPackages('ponder', PONDER_PACKAGES);
  const file = join(project, 'node_modules/ponder/dist/esm/rpc/index.js');
  const code = readFileSync(file, 'utf8');
  const changed = code.replace(
    /const (INITIAL_MAX_RPS|MAX_RPS) = (\d+);/g,
    `const $1 = Number(process.env.${LIMIT} ?? $2);`,
  );
  if (!changed.includes(LIMIT)) throw new Error(`${file} has no limit on requests`);
  writeFileSync(file, changed);
  mkdirSync(join(project, 'src/api'), { recursive: true });
  for (const [name, text] of Object.entries(PROJECT)) writeFileSync(join(project, name), text);
  return project;
}

const PROJECT = {
  'ponder.config.ts': `
import { createConfig } from 'ponder';
import { parseAbi } from 'viem';
const abi = parseAbi(['event OrderFilled(bytes32 indexed orderHash, address indexed maker, address indexed taker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee, bytes32 builder, bytes32 metadata)']);
export default createConfig({
  database: { kind: 'postgres', connectionString: process.env.DATABASE_URL },
  chains: { devnet: { id: ${CHAIN_ID}, rpc: process.env.RPC_URL } },
  contracts: {
    Exchange: {
      abi, chain: 'devnet', address: ${JSON.stringify(ADDRESSES)}, startBlock: 0, endBlock: Number(process.env.LAST_BLOCK),
    },
  },
});
`,
  'ponder.schema.ts': `
import { onchainTable } from 'ponder';
export const fills = onchainTable('fills', (t) => ({
  id: t.text().primaryKey(), trader: t.hex().notNull(), orderHash: t.hex().notNull(), side: t.integer().notNull(),
  tokenId: t.bigint().notNull(), makerAmount: t.bigint().notNull(), takerAmount: t.bigint().notNull(), fee: t.bigint().notNull(),
  blockNumber: t.bigint().notNull(), blockTime: t.bigint().notNull(), txHash: t.hex().notNull(),
}));
`,
  'src/index.ts': `
import { ponder } from 'ponder:registry';
import { fills } from 'ponder:schema';
ponder.on('Exchange:OrderFilled', async ({ event, context }) => {
  const { orderHash, maker, side, tokenId, makerAmountFilled, takerAmountFilled, fee } = event.args;
  await context.db.insert(fills).values({
    id: event.id, trader: maker, orderHash, side, tokenId, makerAmount: makerAmountFilled, takerAmount: takerAmountFilled, fee,
    blockNumber: event.block.number, blockTime: event.block.timestamp, txHash: event.transaction.hash,
  });
});
`,
  'src/api/index.ts': `
import { Hono } from 'hono';
export default new Hono();
`,
};
