/** One address for several api processes, as a load balancer gives them, for tests of clients. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Forwards connections to the present target. */
export class Front {
  target = '';
  /** Of the next connection. */
  route: () => string = () => this.target;
  connections = 0;
  /** Bytes of the target that reach the client of a connection before it is cut. */
  bytesMax: () => number = () => Number.POSITIVE_INFINITY;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => {
      this.connections += 1;
      const behind = connect(Number(new URL(this.route()).port), '127.0.0.1');
      for (const [one, other] of [
        [socket, behind],
        [behind, socket],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on('error', () => other.destroy());
        one.on('close', () => this.#sockets.delete(one));
      }
      let left = this.bytesMax();
      if (left === Number.POSITIVE_INFINITY) return;
      behind.unpipe(socket).resume();
      behind.on('data', (bytes: Buffer) => {
        const passed = bytes.subarray(0, left);
        left -= passed.length;
        if (left > 0) socket.write(passed);
        else socket.end(passed);
      });
    });
  }

  static async listen(): Promise<Front> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Front(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Keeps the connections of now open, and lets nothing through any more. */
  mute(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }
}
