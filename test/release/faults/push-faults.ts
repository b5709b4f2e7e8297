/**
 * Forwards one WebSocket between a client and the node with faults in the node's pushes: notifications are lost,
 * delayed, duplicated, reordered, repeated or cut, or the socket is dropped. Responses to calls, and everything from
 * the client, pass unchanged.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type WebSocket as Peer, WebSocketServer } from 'ws';
import type { FaultDice } from './rates.ts';

const PUSH_DELAY_MS_MAX = 1_500;
/** A push that waits for another to overtake it is sent after this time at the latest. */
const HELD_MS_MAX = 500;
const REMEMBERED_MAX = 200;
const PUSH_FAULTS = [
  'dropped_socket',
  'lost_push',
  'cut_push',
  'delayed_push',
  'duplicated_push',
  'reordered_push',
  'old_push_again',
] as const;

const upgrades = new WebSocketServer({ noServer: true, maxPayload: 2 ** 24 });

/** Connects the two until either side ends. `target` is the node's http:// URL. */
export function passSocket(
  request: IncomingMessage,
  socket: Socket,
  target: string,
  dice: FaultDice,
): void {
  if (dice.first(['refused_upgrade']) !== undefined) {
    socket.end('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n');
    return;
  }
  const node = new WebSocket(new URL(request.url ?? '/', target.replace('http', 'ws')));
  node.onerror = () => socket.destroy();
  node.onopen = () =>
    upgrades.handleUpgrade(request, socket, Buffer.alloc(0), (client) => {
      const pass = pushesTo(client, dice);
      node.onmessage = ({ data }) => pass(String(data));
      node.onclose = () => client.terminate();
      client.on('message', (data) => node.send(String(data)));
      client.on('error', () => undefined).on('close', () => node.close());
    });
}

/** Sends what the node sent, with faults. */
function pushesTo(client: Peer, dice: FaultDice): (text: string) => void {
  const { random } = dice;
  const remembered: string[] = [];
  let held: string | undefined;
  const send = (text: string) => client.send(text);
  const release = () => {
    if (held !== undefined) send(held);
    held = undefined;
  };
  return (text) => {
    if (!text.includes('"eth_subscription"')) {
      send(text);
      return;
    }
    remembered.push(text);
    if (remembered.length > REMEMBERED_MAX) remembered.shift();
    switch (dice.first(PUSH_FAULTS)) {
      case 'dropped_socket':
        client.terminate();
        return;
      case 'lost_push':
        return;
      case 'cut_push':
        send(text.slice(0, random.below(text.length)));
        return;
      case 'delayed_push':
        setTimeout(() => send(text), random.below(PUSH_DELAY_MS_MAX));
        return;
      case 'duplicated_push':
        send(text);
        break;
      case 'reordered_push':
        release();
        held = text;
        setTimeout(() => held === text && release(), HELD_MS_MAX);
        return;
      case 'old_push_again':
        send(random.pick(remembered));
        break;
      case undefined:
        break;
    }
    send(text);
    release();
  };
}
