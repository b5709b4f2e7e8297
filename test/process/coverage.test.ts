/** Balances of shares on a devnet are compared with what was booked, and lost bookings are noticed. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { settled, start, temporaryDirectory, until } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

const directory = temporaryDirectory();
let devnet: StillDevnet;
let parts: Parts;
let processes: readonly ReturnType<typeof start>[] = [];

beforeAll(async () => {
  devnet = await startStillDevnet(`${directory.path}/devnet`, 200);
  parts = await startParts(`${directory.path}/parts`, ['api']);
  processes = ['ingest', 'projector'].map((name) =>
    start(`${name}/main.ts`, [], { ...devnet.env, ...parts.env, LOG_LEVEL: 'warn' }),
  );
});
afterAll(async () => {
  await Promise.all(processes.map((one) => one.stop()));
  await parts?.stop();
  await devnet?.close();
  directory.remove();
});

type Coverage = {
  readonly movements_from_block: number | null;
  readonly balances: {
    readonly equal: number;
    readonly less: number;
    readonly more: number;
    readonly newest_block: number;
  };
  readonly unexplained_movements: number;
  readonly refused: readonly unknown[];
};
const coverage = async () =>
  (await parts.get<{ readonly coverage: Coverage }>('/v2/status')).coverage;

/** Mines until the status says so: balances are read at the newest block, and compared once it is booked. */
async function reached(condition: (now: Coverage) => boolean): Promise<Coverage> {
  return until(async () => {
    await devnet.trade();
    await devnet.mine(1);
    const now = await coverage();
    return condition(now) ? now : undefined;
  });
}

const alarms = () =>
  processes
    .flatMap(({ lines }) => lines.map(({ msg }) => `${msg}`))
    .filter((msg) => /ALARM/.test(msg));
const lose = (side: 'BUY' | 'SELL') =>
  parts.query(`ALTER TABLE bookings DELETE WHERE side = '${side}' SETTINGS mutations_sync = 2`);

test('balances on the chain equal what was booked', async () => {
  await devnet.mine(80);
  await settled(parts, await devnet.number('finalized'));
  const found = await reached(({ balances }) => balances.equal >= 10);
  expect(found).toMatchObject({
    ...{ movements_from_block: 0, unexplained_movements: 0, refused: [] },
    balances: { less: 0, more: 0 },
  });
  expect(alarms()).toEqual([]);
});

test('lost sales are noticed as more than on the chain, with an alarm', async () => {
  await lose('SELL');
  const { balances } = await reached((now) => now.balances.more > 0);
  expect(balances.less).toBe(0);
  expect(alarms()).toContain('ALARM: more shares were booked than the wallet has');
});

test('lost purchases are noticed as less', async () => {
  await lose('BUY');
  await reached(({ balances }) => balances.less > 0);
});
