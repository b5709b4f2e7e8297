/** One address for several api processes, as a load balancer gives them, for tests of clients. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Forwards connections to the present target. */
export class Front {
  target = '';
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => {
      this.connections += 1;
      const behind = connect(Number(new URL(this.target).port), '127.0.0.1');
      for (const [one, other] of [
        [socket, behind],
        [behind, socket],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on('error', () => other.destroy());
        one.on('close', () => this.#sockets.delete(one));
      }
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

  close(): void {
    this.#server.close();
    this.cut();
  }
}
