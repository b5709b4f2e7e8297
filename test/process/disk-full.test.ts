/**
 * A full disk: the data of `npm start` is on a separate disk that is filled and emptied. Only lines of logs may
 * be lost. Mounting needs root on Linux; elsewhere this is skipped.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DISK_RESERVE_BYTES } from '../../infra/disk.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { blockNumber } from '../release/faults/chain-facts.ts';
import { compare } from '../release/faults/compare.ts';
import { storedFacts } from '../support/chain-facts.ts';
import { mayMount, smallDisk } from '../support/damage.ts';
import { accountDifferences, recomputed } from '../support/reconcile.ts';
import {
  type Devnet,
  freeze,
  projectedTo,
  type Service,
  startDevnet,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const DISK_MB = 200;

describe.skipIf(!mayMount)('a full disk', () => {
  const directory = temporaryDirectory();
  let disk: ReturnType<typeof smallDisk>;
  let devnet: Devnet;
  let service: Service;

  beforeAll(async () => {
    disk = smallDisk(`${directory.path}/disk`, DISK_MB);
    devnet = await startDevnet(`${directory.path}/devnet`, { matches: 200, days: 1, rate: 10 });
    service = await startService(`${directory.path}/disk/data`, { env: devnet.env });
  });

  afterAll(async () => {
    await service?.up.stop();
    await devnet?.process.stop();
    disk?.remove();
    directory.remove();
  });

  test('is reported by every part, stops none, and loses and repeats nothing once there is room', async () => {
    const { up } = service;
    const liveAfter = await blockNumber(devnet.rpcUrl, 'latest');
    for (let round = 0; round < 2; round += 1) {
      await until(async () => ((await isReady()) ? true : undefined));
      const earlier = up.lines.length;
      const isNew = (line: (typeof up.lines)[number]) => up.lines.indexOf(line) >= earlier;
      // In two steps: the embedded ClickHouse needs a tenth of a second to end its merges.
      disk.fill(DISK_RESERVE_BYTES / 2);
      const reason = /disk full: \d+ of \d{3} MB free/;
      for (const name of ['ingest', 'projector', 'api']) {
        await until(async () => (reason.test(await readinessOf(name)) ? true : undefined));
      }
      await up.reached(
        'not_ready',
        (line) => isNew(line) && reason.test(JSON.stringify(line.reasons)),
      );
      disk.fill();
      const stalled = /JetStream has stored nothing/;
      await until(async () => (stalled.test(await readinessOf('ingest')) ? true : undefined));
      disk.drain();
      await up.reached('ready_again', isNew);
    }
    devnet = await freeze(devnet, `${directory.path}/devnet`);
    const nats = await connectNats({ ...service.nats, name: 'test' });
    try {
      const head = await blockNumber(devnet.rpcUrl, 'latest');
      const facts = await storedFacts(devnet.rpcUrl, head);
      const { chain } = await recomputed(devnet.rpcUrl, devnet.env.GAMMA_URL);
      await projectedTo(service, chain.lastFillBlock);
      const { differences } = await compare({ nats, rpcUrl: devnet.rpcUrl, facts, liveAfter });
      expect([...differences, ...(await accountDifferences(service, chain))]).toEqual([]);
    } finally {
      await nats.close();
    }
    const died = up.lines.filter(({ event, name }) => event === 'restarting' && name !== 'nats');
    expect(died).toEqual([]);
  });

  async function readinessOf(name: string): Promise<string> {
    const line = service.up.lines.findLast((one) => one.event === 'metrics' && one.name === name);
    return (await fetch(String(line?.url).replace('/metrics', '/readyz'))).text();
  }

  async function isReady(): Promise<boolean> {
    return (await fetch(`${service.ready.url}/readyz`)).status === 200;
  }
});
