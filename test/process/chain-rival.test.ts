/** An ingest that starts while another one still runs. */
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { Balances } from '../../ingest/chain/balances.ts';
import { connectRpc } from '../../ingest/chain/rpc.ts';
import { writeFinalBlocks } from '../../ingest/final-blocks.ts';
import {
  type LedgerEnd,
  LedgerFencedError,
  LedgerWriter,
  readEnd,
} from '../../ingest/ledger/ledger-writer.ts';
import { Gamma } from '../../ingest/metadata/gamma.ts';
import { Metadata } from '../../ingest/metadata/metadata.ts';
import { FinalBlocksProgress } from '../../ingest/progress.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { CHAIN, type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { temporaryDirectory } from '../support/service.ts';

const directory = temporaryDirectory();
const ending = new AbortController();
let devnet: StillDevnet;
let server: Awaited<ReturnType<typeof startNatsServer>>;
let nats: Nats;

beforeAll(async () => {
  devnet = await startStillDevnet(directory.path, 5);
  server = await startNatsServer({ dataDir: `${directory.path}/nats` });
  nats = await connectNats({ url: server.url, name: 'test' });
  await ensureStreams(nats, 1);
});

afterAll(async () => {
  ending.abort();
  await nats?.close();
  await server?.stop();
  await devnet?.close();
  directory.remove();
});

/** Follows the chain up to its newest final block; adds the blocks that it offers to FEED. */
async function follow(ledger: LedgerWriter, end: LedgerEnd, blocks: number[]): Promise<void> {
  const logger = pino({ level: 'silent' });
  const { signal } = ending;
  const rpc = connectRpc(devnet.url);
  const gamma = new Gamma({ url: devnet.env.GAMMA_URL, logger, signal });
  const nothing = () => Promise.resolve();
  await writeFinalBlocks({
    ...{ rpc, chain: CHAIN, nats, ledger, end, logger, signal },
    metadata: new Metadata({ chain: CHAIN, gamma, logger, signal, onChange: nothing }),
    balances: new Balances({ rpc, token: CHAIN.collateral, logger, signal, onBalances: nothing }),
    progress: new FinalBlocksProgress({
      ...{ logger, registry: new Registry(), notReady: {}, rpcUrl: devnet.url },
    }),
    ...{ finality: 'finalized', startBlock: 0, resolutionsFrom: 0 },
    toBlock: await devnet.number('finalized'),
    async onBlock({ block }) {
      blocks.push(block.number);
    },
    onStored: () => undefined,
    onCaughtUp: () => undefined,
  });
}

/** Otherwise, a match that was shown and is in such a block would become void, because ingest would find it in no block. */
test('reads the blocks that the other ingest has stored since its start, and stops at its first message', async () => {
  const late = await LedgerWriter.open(nats);
  const end = await readEnd(nats);
  const [stored, read]: [number[], number[]] = [[], []];
  await follow(await LedgerWriter.open(nats), end, stored);
  await expect(follow(late, end, read)).rejects.toThrow(LedgerFencedError);
  expect(read).toEqual(stored.slice(0, 1));
  expect(read).toHaveLength(1);
});
