/**
 * Forwards one WebSocket between a client and the node with faults in the node's pushes: notifications are lost,
 * delayed, duplicated, reordered, repeated or cut, or the socket is dropped in the middle of a frame. Responses to
 * calls, and everything from the client, pass unchanged.
 */
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type Frame, FrameReader, TEXT, textFrame } from './frames.ts';
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
const HEAD_END = '\r\n\r\n';

/** Connects the two until either side ends. `target` is the node's http:// URL. */
export function passSocket(
  request: IncomingMessage,
  client: Socket,
  target: string,
  dice: FaultDice,
): void {
  if (dice.first(['refused_upgrade']) !== undefined) {
    client.end('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n');
    return;
  }
  const { hostname, port } = new URL(target);
  const node = connect(Number(port), hostname, () => node.write(requestHead(request)));
  const end = () => {
    client.destroy();
    node.destroy();
  };
  for (const socket of [client, node]) socket.on('error', end).on('close', end);
  const pushes = new Pushes(client, dice, end);
  let head: Buffer | undefined = Buffer.alloc(0);
  const frames = new FrameReader();
  node.on('data', (chunk: Buffer) => {
    let rest = chunk;
    if (head !== undefined) {
      head = Buffer.concat([head, chunk]);
      const at = head.indexOf(HEAD_END);
      if (at < 0) return;
      client.write(head.subarray(0, at + HEAD_END.length));
      rest = head.subarray(at + HEAD_END.length);
      head = undefined;
    }
    for (const frame of frames.read(rest)) pushes.pass(frame);
  });
  client.on('data', (chunk) => node.write(chunk));
}

function requestHead({ url, headers }: IncomingMessage): string {
  const lines = Object.entries(headers)
    // We cannot read compressed frames.
    .filter(([name]) => name !== 'sec-websocket-extensions')
    .map(([name, value]) => `${name}: ${[value].flat().join(', ')}`);
  return [`GET ${url} HTTP/1.1`, ...lines, '', ''].join('\r\n');
}

class Pushes {
  readonly #client: Socket;
  readonly #dice: FaultDice;
  readonly #end: () => void;
  readonly #remembered: Buffer[] = [];
  #held: Buffer | undefined;

  constructor(client: Socket, dice: FaultDice, end: () => void) {
    this.#client = client;
    this.#dice = dice;
    this.#end = end;
  }

  pass(frame: Frame): void {
    const isPush =
      frame.opcode === TEXT && frame.whole && frame.payload.includes('"eth_subscription"');
    if (isPush) this.#mistreat(frame);
    else this.#write(frame.raw);
  }

  #mistreat({ raw, payload }: Frame): void {
    const { random } = this.#dice;
    this.#remembered.push(raw);
    if (this.#remembered.length > REMEMBERED_MAX) this.#remembered.shift();
    switch (this.#dice.first(PUSH_FAULTS)) {
      case 'dropped_socket':
        this.#client.write(raw.subarray(0, random.below(raw.length)), this.#end);
        return;
      case 'lost_push':
        return;
      case 'cut_push':
        this.#write(textFrame(payload.subarray(0, random.below(payload.length))));
        return;
      case 'delayed_push':
        setTimeout(() => this.#write(raw), random.below(PUSH_DELAY_MS_MAX));
        return;
      case 'duplicated_push':
        this.#write(raw);
        break;
      case 'reordered_push':
        this.#release();
        this.#held = raw;
        setTimeout(() => this.#held === raw && this.#release(), HELD_MS_MAX);
        return;
      case 'old_push_again':
        this.#write(random.pick(this.#remembered));
        break;
      case undefined:
        break;
    }
    this.#write(raw);
    this.#release();
  }

  #release(): void {
    if (this.#held !== undefined) this.#write(this.#held);
    this.#held = undefined;
  }

  #write(bytes: Buffer): void {
    if (this.#client.writable) this.#client.write(bytes);
  }
}
