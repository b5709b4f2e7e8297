/**
 * An unreliable chain node endpoint: a JSON-RPC proxy, HTTP and WebSocket on one port, that injects random faults
 * from a seed. Start several to have endpoints with independent faults. Without rates it forwards everything. It
 * never changes an amount, a hash or a log, because a node that lies consistently cannot be detected.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { rpc } from '../../support/service.ts';
import { planCalls } from './call-faults.ts';
import { passSocket } from './push-faults.ts';
import { type Fault, FaultDice, type Rates } from './rates.ts';

const DELAY_MS_MAX = 2_000;
const RETRY_AFTER_SECONDS = '1';
const JSON_TYPE = { 'content-type': 'application/json' };
const TRANSPORT_FAULTS = [
  'drop',
  'cut_body',
  'cut_json',
  'too_many',
  'too_many_retry_after',
  'server_error',
] as const;

type RpcCall = { readonly method: string; readonly params: unknown[] };
export type RpcProxy = Awaited<ReturnType<typeof startRpcProxy>>;

/** Forwards a free port of 127.0.0.1 to `target` (http://host:port, and its WebSocket). */
export async function startRpcProxy(target: string, seed: string) {
  const dice = new FaultDice(seed);
  const sockets = new Set<Socket>();
  let isDown = false;
  let held = Promise.resolve();
  let isAwaited: (call: RpcCall) => boolean = () => false;
  let onAwaited = () => {};
  let finalMax = Number.POSITIVE_INFINITY;
  const pass = async (body: Buffer) => {
    const given: RpcCall | RpcCall[] = JSON.parse(body.toString());
    const calls = [given].flat();
    if (calls.some((call) => isAwaited(call))) onAwaited();
    await held;
    for (const call of calls) {
      if (call.params?.[0] === 'finalized' && finalMax < Number.POSITIVE_INFINITY) {
        call.params[0] = `0x${finalMax.toString(16)}`;
      }
    }
    return Buffer.from(JSON.stringify(given));
  };
  const server = createServer((request, response) => {
    // The node is down or the client left; either way, this connection is over.
    answer(request, response, target, dice, pass).catch(() => response.destroy());
  });
  server.on('upgrade', (request, socket: Socket) => passSocket(request, socket, target, dice));
  server.on('connection', (socket) => {
    if (isDown) socket.destroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    /** http://…; use ws:// for the WebSocket. */
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Counts of injected faults. */
    counts: dice.counts as ReadonlyMap<Fault, number>,
    /** Replaces all rates; `{}` ends the faults. */
    set: (rates: Rates) => dice.set(rates),
    /** Cuts every connection and refuses new ones until `up`. */
    down() {
      isDown = true;
      cut();
    },
    up() {
      isDown = false;
    },
    /** Holds all requests until the returned function is called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
    /** Holds the first request with a call that `isIt` accepts, and all later ones, until `release`. */
    holdAt(isIt: (call: RpcCall) => boolean) {
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      isAwaited = isIt;
      onAwaited = () => {
        isAwaited = () => false;
        held = released;
        resolve();
      };
      return { reached, release };
    },
    /** Reports at most this block as final. */
    limitFinal(block: number) {
      finalMax = block;
    },
    async close() {
      server.close();
      cut();
      await once(server, 'close');
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  target: string,
  dice: FaultDice,
  pass: (body: Buffer) => Promise<Buffer>,
): Promise<void> {
  const asked = await buffer(request);
  if (dice.first(['delay']) !== undefined) await delay(dice.random.below(DELAY_MS_MAX));
  const fault = dice.first(TRANSPORT_FAULTS);
  switch (fault) {
    case 'drop':
      response.destroy();
      return;
    case 'too_many':
      response.writeHead(429, { 'content-type': 'text/plain' }).end('slow down');
      return;
    case 'too_many_retry_after':
      response.writeHead(429, { 'retry-after': RETRY_AFTER_SECONDS }).end();
      return;
    case 'server_error':
      response.writeHead(dice.random.pick([500, 502, 503])).end('<html>upstream</html>');
      return;
    case 'cut_body':
    case 'cut_json':
    case undefined:
      break;
  }
  const plan = await planCalls(await pass(asked), dice, (tag) => headOf(target, tag));
  const answered = await fetch(target, { method: 'POST', headers: JSON_TYPE, body: plan.body });
  let body = Buffer.from(await answered.arrayBuffer());
  if (plan.alter !== undefined) body = Buffer.from(plan.alter(body.toString()));
  const part = body.subarray(0, dice.random.below(body.length));
  if (fault === 'cut_json') response.writeHead(200, JSON_TYPE).end(part);
  else if (fault === 'cut_body') {
    response.writeHead(200, { ...JSON_TYPE, 'content-length': body.length });
    response.write(part, () => response.destroy());
  } else response.writeHead(answered.status, JSON_TYPE).end(body);
}

async function headOf(target: string, tag: string): Promise<number> {
  const block = await rpc<{ number: string }>(target, 'eth_getBlockByNumber', [tag, false]);
  return Number(block.number);
}
