// Ingest as a process while its dependencies become unavailable and return: it reports what is
// missing and waits for it, and in the end LEDGER equals the chain.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectNats, type Nats, streamState } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { removeMessages } from '../../infra/nats/streams.ts';
import { LEDGER_STREAM } from '../../ingest/ledger/ledger.ts';
import { INGEST_BUCKET } from '../../ingest/streams.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { placeOf, storedFacts } from '../support/chain-facts.ts';
import {
  factsOfLedger,
  type StillDevnet,
  startEndpoint,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { Front } from '../support/front.ts';
import { start, temporaryDirectory, until } from '../support/service.ts';

type Ingest = ReturnType<typeof start>;

const directory = temporaryDirectory();
let devnet: StillDevnet;
let server: NatsServer;
let rpcGate: Front;
let gammaGate: Front;
let natsGate: Front;
let runs: Ingest[] = [];
let ledgers = 0;

beforeAll(async () => {
  devnet = await startStillDevnet(`${directory.path}/devnet`, 120);
  await devnet.mine(3);
});

// Each test has a LEDGER of its own.
beforeEach(async () => {
  server = await startNatsServer({ dataDir: `${directory.path}/nats${ledgers++}` });
  natsGate = await Front.listen(server.url);
  rpcGate = await Front.listen(devnet.url);
  gammaGate = await Front.listen(devnet.env.GAMMA_URL);
});

afterEach(async () => {
  await Promise.all(runs.map((run) => run.stop()));
  runs = [];
  for (const gate of [natsGate, rpcGate, gammaGate]) gate.close();
  await server.stop();
});

afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

function ingest(args: readonly string[] = [], env: Record<string, string> = {}): Ingest {
  const run = start('ingest/main.ts', args, {
    ...devnet.env,
    RPC_URL: rpcGate.url,
    GAMMA_URL: gammaGate.url,
    NATS_URL: natsGate.url.replace('http:', 'nats:'),
    METRICS_PORT: '0',
    ...env,
  });
  runs.push(run);
  return run;
}

async function asked(run: Ingest, path: string): Promise<Response> {
  const { port } = await run.event('metrics');
  return fetch(`http://127.0.0.1:${port}${path}`);
}

/** Resolves when /readyz returns exactly these reasons; without any, when it is ready. */
async function reasons(run: Ingest, ...parts: string[]): Promise<void> {
  await until(async () => {
    const response = await asked(run, '/readyz');
    const { reasons } = (await response.json()) as { reasons: Record<string, string> };
    const isSame = Object.keys(reasons).toSorted().join() === parts.toSorted().join();
    return isSame && response.status === (parts.length === 0 ? 200 : 503) ? true : undefined;
  });
}

/** LEDGER holds the chain's matches and resolutions up to the final block, once and in order. */
async function whole(): Promise<void> {
  const nats = await connectNats({ url: server.url, name: 'test' });
  try {
    const last = await devnet.number('finalized');
    await until(async () => {
      const { blocks } = await factsOfLedger(nats);
      return (blocks.at(-1)?.number ?? -1) >= last ? true : undefined;
    });
    expect((await factsOfLedger(nats)).facts).toEqual(
      (await storedFacts(devnet.url, last)).map(placeOf),
    );
  } finally {
    await nats.close();
  }
}

async function withNats<T>(work: (nats: Nats) => Promise<T>): Promise<T> {
  const nats = await connectNats({ url: server.url, name: 'test' });
  try {
    return await work(nats);
  } finally {
    await nats.close();
  }
}

describe('readiness', () => {
  test('names the chain nodes or NATS during an outage, and nothing afterwards', async () => {
    const run = ingest();
    await reasons(run);
    rpcGate.down();
    await reasons(run, 'rpc');
    natsGate.down();
    await reasons(run, 'nats', 'rpc');
    await devnet.mine(4);
    rpcGate.up();
    natsGate.up();
    await reasons(run);
    await whole();
  });

  test('does not depend on the metadata API, whose outage is in the metrics', async () => {
    gammaGate.down();
    const run = ingest();
    await reasons(run);
    const degraded = async () => {
      const text = await (await asked(run, '/metrics')).text();
      expect(text).toMatch(/^fillstream_balances\{outcome="failed",/m);
      return /^fillstream_metadata_degraded\{.*\} 1$/m.test(text) ? true : undefined;
    };
    await until(degraded);
    gammaGate.up();
    await until(async () => ((await degraded()) === undefined ? true : undefined));
    await whole();
  });

  test('names a node that is behind LEDGER, waits, and continues once it is not', async () => {
    const first = ingest();
    await reasons(first);
    await first.stop();
    const held = await devnet.number('finalized');
    let isBehind = true;
    const behind = await startEndpoint(devnet.url, (calls, replies) =>
      replies.map((reply) => {
        const call = calls.find(({ id }) => id === reply.id);
        if (!isBehind || call?.params[0] !== 'finalized') return reply;
        const number = `0x${(held - 2).toString(16)}`;
        return { id: reply.id, result: { ...(reply.result as object), number } };
      }),
    );
    try {
      const run = ingest([], { RPC_URL: behind.url });
      const { host } = new URL(behind.url);
      const reason =
        `the final head of ${host} is block ${held - 2}, LEDGER is at ${held}: ` +
        'wait until the node is in sync, or set RPC_URL to another one';
      await until(async () => {
        const response = await asked(run, '/readyz');
        const body = (await response.json()) as { reasons: Record<string, string> };
        return body.reasons.final === reason && response.status === 503 ? true : undefined;
      });
      isBehind = false;
      await devnet.mine(4);
      await reasons(run);
      await whole();
    } finally {
      await Promise.all(runs.map((run) => run.stop()));
      await behind.close();
    }
  });

  test('names the stream that JetStream does not store', async () => {
    const run = ingest();
    await reasons(run);
    // It accepts connections and never responds, like a server on a full or failing disk.
    server.child.kill('SIGSTOP');
    await devnet.mine(4);
    await until(async () => {
      const text = await (await asked(run, '/readyz')).text();
      return /LEDGER|nats/.test(text) ? true : undefined;
    });
    server.child.kill('SIGCONT');
    await reasons(run);
    await whole();
  });
});

test('a full store is reported, and loses nothing', async () => {
  const dataDir = `${directory.path}/nats${ledgers - 1}`;
  const again = async (configExtra = '') => {
    await server.stop();
    server = await startNatsServer({ dataDir, port: server.port, configExtra });
  };
  const store = JSON.stringify(`${dataDir}/jetstream`);
  await again(`jetstream { store_dir: ${store}, max_mem: 64MB, max_file: 16KB }\n`);
  const run = ingest();
  // LEDGER, or METADATA if that was requested first, in which case LEDGER waits.
  await until(async () => {
    const text = await (await asked(run, '/readyz')).text();
    return /"(LEDGER|METADATA)":"JetStream has stored nothing/.test(text) ? true : undefined;
  });
  await again();
  await reasons(run);
  await whole();
});

describe('an outage of NATS', () => {
  test('at startup makes ingest wait, but does not delay a stop', async () => {
    natsGate.down();
    const stopped = ingest();
    await reasons(stopped, 'final', 'nats');
    expect(await stopped.stop()).toBe(0);
    const run = ingest();
    await reasons(run, 'final', 'nats');
    natsGate.up();
    await run.event('caught_up');
    await whole();
  });

  test('repeatedly during a start only delays it', async () => {
    await ingest().event('caught_up');
    await runs.pop()?.stop();
    await devnet.mine(4);
    const run = ingest();
    await run.event('metrics');
    for (let i = 0; i < 12; i += 1) {
      await delay(60 + 15 * i);
      natsGate.down();
      await delay(100);
      natsGate.up();
    }
    await run.event('caught_up');
    await whole();
  });

  test('with kill −9 during a backfill: it continues, ends with code 0, and LEDGER is complete', async () => {
    await devnet.mine(20);
    const last = await devnet.number('finalized');
    let ranges = 0;
    let kills = 0;
    let killed: Promise<void> = Promise.resolve();
    const kill = async () => {
      server.child.kill('SIGKILL');
      await once(server.child, 'exit');
      server = await startNatsServer({
        dataDir: `${directory.path}/nats${ledgers - 1}`,
        port: server.port,
      });
    };
    const slow = await startEndpoint(devnet.url, async (calls, replies) => {
      const [{ method, params } = { method: '', params: [] }] = calls;
      if (method !== 'eth_getLogs') return undefined;
      const { fromBlock, toBlock } = (params[0] ?? {}) as Record<string, string>;
      // Small ranges, so that kills happen between them.
      if (Number(toBlock) - Number(fromBlock) > 4) {
        return replies.map(({ id }) => ({
          id,
          error: { code: -32005, message: 'range too large' },
        }));
      }
      ranges += 1;
      if (ranges % 2 === 0 && kills < 3) {
        kills += 1;
        killed = killed.then(kill);
        await killed;
      }
      return undefined;
    });
    try {
      const args = ['backfill', '--from-block', '0', '--to-block', String(last)];
      const run = ingest(args, { RPC_URL: slow.url, LOG_LEVEL: 'warn' });
      expect(await run.exit, run.errors()).toBe(0);
      expect(kills).toBe(3);
      await whole();
    } finally {
      await slow.close();
    }
  });
});

describe('the chain', () => {
  test('with kill −9 of its node, which comes back unchanged: ingest continues', async () => {
    const run = ingest();
    await reasons(run);
    await devnet.kill();
    await reasons(run, 'rpc');
    devnet = await startStillDevnet(`${directory.path}/devnet`, 120, devnet.ports);
    await devnet.mine(4);
    await reasons(run);
    await whole();
  });

  test('with an endpoint whose block does not follow LEDGER: reported, and read again', async () => {
    let spoiled = 0;
    const torn = await startEndpoint(devnet.url, (calls, replies) =>
      replies.map((reply) => {
        const call = calls.find(({ id }) => id === reply.id);
        const block = reply.result as { number?: string; parentHash?: string } | null;
        const isNew = call?.method === 'eth_getBlockByNumber' && block?.number === first;
        if (!isNew || spoiled >= 3) return reply;
        spoiled += 1;
        return { id: reply.id, result: { ...block, parentHash: `0x${'ab'.repeat(32)}` } };
      }),
    );
    const final = await devnet.number('finalized');
    const first = `0x${(final + 1).toString(16)}`;
    try {
      const run = ingest([], { RPC_URL: torn.url });
      await reasons(run);
      await devnet.mine(1);
      await whole();
      await reasons(run);
      const warnings = run.lines.filter(({ msg }) =>
        String(msg).includes('does not follow LEDGER'),
      );
      expect(warnings.map(({ pauseMs }) => pauseMs)).toEqual(
        [200, 400, 800].slice(0, warnings.length),
      );
      expect(warnings.length).toBeGreaterThan(0);
      const text = await (await asked(run, '/metrics')).text();
      expect(text).toMatch(
        new RegExp(`^fillstream_final_contradictions_total\\{.*\\} ${warnings.length}$`, 'm'),
      );
    } finally {
      await torn.close();
    }
  });
});

// ledger.test.ts interrupts a rewind at each of its stages; this is the state after the first one.
test('a half-finished rewind stops ingest from starting and is completed by another run', async () => {
  await ingest().event('caught_up');
  await runs.pop()?.stop();
  const to = (await devnet.number('finalized')) - 6;
  await withNats(async (nats) => {
    const kv = await openKv(nats, INGEST_BUCKET);
    await kv.put('rewind', String(to));
    const { lastSequence } = await streamState(nats, LEDGER_STREAM);
    await removeMessages(nats, LEDGER_STREAM, [lastSequence]);
  });
  const refused = ingest();
  expect(await refused.exit).toBe(1);
  expect(refused.errors()).toContain(
    'a rewind was interrupted: run "npm run ledger -- rewind --to-block',
  );
  const again = start('ops/ledger.ts', ['rewind', '--to-block', String(to), '--yes'], {
    NATS_URL: natsGate.url.replace('http:', 'nats:'),
  });
  expect(await again.exit, again.errors()).toBe(0);
  await withNats(async (nats) => {
    expect((await factsOfLedger(nats)).blocks.at(-1)?.number).toBeLessThanOrEqual(to);
  });
  await ingest().event('caught_up');
  await whole();
});
