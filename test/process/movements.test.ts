/**
 * Wallets move shares in every way on a devnet that trades, while ingest, projector, nats-server and ClickHouse are killed. Afterwards every balance is
 * that of the chain, every movement is known once, what each wallet paid and got is what its fills and movements say, and nobody
 * gains in a market but from others. MOVES and KILLS set the size.
 */
import type { Hex } from 'viem';
import { expect, test } from 'vitest';
import { isStructured, structuredTokens } from '../../ingest/events/structured-ids.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { POSITION_MANAGER } from '../../local/devnet/contracts.ts';
import { sizes } from '../release/faults/run.ts';
import { CHAIN, type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { balancesOf, CASH, MovingWallets, moneyOf } from '../support/moving-wallets.ts';
import { SEED } from '../support/seed.ts';
import { settled, start, temporaryDirectory } from '../support/service.ts';
import { startParts } from '../support/stack.ts';
import { balancesIn } from '../support/v2-wallets.ts';

const { moves: MOVES, kills: KILLS } = sizes({ moves: [150, 5_000], kills: [8, 60] });
/** How often markets are resolved, whatever the size: the contract forgets old ones. */
const RESOLUTIONS = 15;

const KILLED = ['ingest', 'nats', 'projector', 'clickhouse'] as const;

/** Yields after every movement, in blocks of a few, with a match of others in every third. */
async function* moved(devnet: StillDevnet, wallets: MovingWallets) {
  for (let n = 0; n < MOVES; n++) {
    await wallets.ways[n % wallets.ways.length]?.();
    if (n % 3 === 0) await devnet.trade();
    if (n % 7 < 4) await devnet.mine(1);
    if (n % Math.ceil(MOVES / RESOLUTIONS) === 0) await wallets.resolveSome();
    yield n;
  }
  await devnet.mine(80);
}

test('every share and every payment is accounted, whoever is killed', async () => {
  const directory = temporaryDirectory();
  const devnet = await startStillDevnet(`${directory.path}/devnet`, 250);
  const parts = await startParts(`${directory.path}/parts`, []);
  const run = (name: 'ingest' | 'projector') =>
    start(`${name}/main.ts`, [], { ...devnet.env, ...parts.env, LOG_LEVEL: 'warn' });
  const processes = { ingest: run('ingest'), projector: run('projector') };
  try {
    const wallets = await MovingWallets.open(devnet, SEED);
    let killed = 0;
    for await (const n of moved(devnet, wallets)) {
      if ((n + 1) % Math.ceil(MOVES / KILLS) !== 0) continue;
      const name = KILLED[killed % KILLED.length] ?? 'ingest';
      killed += 1;
      if (name === 'nats' || name === 'clickhouse') {
        await parts.restart[name]();
        continue;
      }
      // Killed only once it has done something.
      await processes[name].event(name === 'ingest' ? 'ledger' : 'stored');
      processes[name].kill('SIGKILL');
      await processes[name].exit;
      processes[name] = run(name);
    }
    await settled(parts, await devnet.number('finalized'));
    const held = wallets.held();
    expect(await balancesOf(devnet, held)).toEqual(held.map(({ shares }) => shares));

    const own = [...wallets.given.keys()].map((owner) => `unhex('${owner.slice(2)}')`).join();
    const found = await parts.query<{ reason: string; count: string; opened: string }>(
      `SELECT toString(reason) AS reason, toString(countIf(kind = 'movement')) AS count,
         toString(countIf(kind = 'opening')) AS opened
       FROM movements WHERE trader IN (${own}) GROUP BY reason`,
    );
    const known = Object.fromEntries(found.map(({ reason, count }) => [reason, Number(count)]));
    expect(known).toEqual(wallets.rows);
    expect(found.every(({ opened }) => opened === '0')).toBe(true);
    const [unexplained] = await parts.query<{ count: string }>(
      "SELECT toString(count()) AS count FROM movements WHERE reason = 'unexplained'",
    );
    expect(unexplained?.count).toBe('0');

    const sums = await parts.query<{ owner: Hex; condition: Hex; zero: string; one: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS owner, concat('0x', lower(hex(condition_id))) AS condition,
         toString(sum(balance_0)) AS zero, toString(sum(balance_1)) AS one
       FROM trader_markets GROUP BY trader, condition_id`,
    );
    const ids = new Map(wallets.questions.map((one) => [one.conditionId, one.tokenIds]));
    const all = sums.flatMap(({ owner, condition, zero, one }) => {
      const isV2 = isStructured(condition);
      const of = isV2
        ? structuredTokens(condition).map(BigInt)
        : (ids.get(condition) ?? positionIds(CHAIN.collateral, condition));
      return [zero, one].map((shares, outcome) => ({ owner, id: of[outcome] ?? 0n, shares, isV2 }));
    });
    const [v2, asked] = [all.filter(({ isV2 }) => isV2), all.filter(({ isV2 }) => !isV2)];
    expect(asked.map(({ shares }) => BigInt(shares))).toEqual(await balancesOf(devnet, asked));
    expect(v2.map(({ shares }) => BigInt(shares))).toEqual(
      await balancesIn(devnet, POSITION_MANAGER, v2),
    );
    expect(new Set(asked.map(({ owner, id }) => `${owner}:${id}`))).toEqual(
      new Set([...held, ...asked].map(({ owner, id }) => `${owner}:${id}`)),
    );

    // The shares of a resolved market are worth what was paid for their pairs, so its PnL adds up to the fees that were paid.
    const converted = wallets.questions.filter(({ market }) => market !== undefined);
    const sides = await parts.query<{ total: string }>(
      `SELECT toString(sum(realised_pnl) + sum(fee)) AS total FROM trader_markets
       WHERE condition_id IN (SELECT condition_id FROM resolutions WHERE payout_0 = 0 OR payout_1 = 0)
         AND condition_id NOT IN (${converted.map(({ conditionId }) => `unhex('${conditionId.slice(2)}')`).join()})
       GROUP BY condition_id`,
    );
    expect(sides.length).toBeGreaterThan(5);
    expect(sides.filter(({ total }) => total !== '0')).toEqual([]);

    const cash = await parts.query<{ owner: Hex; cash: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS owner, toString(sum(${CASH})) AS cash
       FROM bookings GROUP BY trader`,
    );
    const paid = new Map(cash.map(({ owner, cash }) => [owner, BigInt(cash)]));
    for (const [owner, given] of wallets.given)
      expect([owner, given + (paid.get(owner) ?? 0n)]).toEqual([
        owner,
        await moneyOf(devnet, owner),
      ]);
  } finally {
    await Promise.all(Object.values(processes).map((one) => one.stop()));
    await parts.stop();
    await devnet.close();
    directory.remove();
  }
});
