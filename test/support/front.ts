/** A TCP proxy in front of one server, or of several as a load balancer: tests cut, mute and shut it. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Forwards connections to the present target. */
export class Front {
  /** A URL; only its host and port are used. */
  target: string;
  /** Returns the target of the next connection. */
  route: () => string = () => this.target;
  connections = 0;
  /** Bytes of the target that reach the client of a connection before it is cut. */
  bytesMax: () => number = () => Number.POSITIVE_INFINITY;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isDown = false;

  constructor(server: Server, target: string) {
    this.#server = server;
    this.target = target;
    server.on('connection', (socket) => this.#accept(socket));
  }

  static async listen<F extends Front>(
    this: new (
      server: Server,
      target: string,
    ) => F,
    target = '',
  ): Promise<F> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new this(server, target);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Behaves as if the server was killed: closes all connections and refuses new ones until `up`. */
  down(): void {
    this.#isDown = true;
    this.cut();
  }

  up(): void {
    this.#isDown = false;
  }

  /** Keeps the current connections open, but forwards nothing more. */
  mute(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }

  #accept(client: Socket): void {
    if (this.#isDown) {
      client.destroy();
      return;
    }
    this.connections += 1;
    const { hostname, port } = new URL(this.route());
    const behind = connect(Number(port), hostname);
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      this.#sockets.add(one);
      one.on('error', () => undefined);
      one.on('close', () => {
        this.#sockets.delete(one);
        other.resume().end();
      });
    }
    this.join(client, behind);
  }

  /** Forwards what either side of a new connection sends. */
  protected join(client: Socket, behind: Socket): void {
    client.pipe(behind);
    let left = this.bytesMax();
    if (left === Number.POSITIVE_INFINITY) {
      behind.pipe(client);
      return;
    }
    behind.on('data', (bytes: Buffer) => {
      const passed = bytes.subarray(0, left);
      left -= passed.length;
      if (left > 0) client.write(passed);
      else client.end(passed);
    });
  }
}
