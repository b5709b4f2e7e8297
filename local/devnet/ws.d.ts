/** Types of the parts of the package `ws` that we use; it has none of its own. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events';
  import type { IncomingMessage } from 'node:http';
  import type { Duplex } from 'node:stream';

  export class WebSocket extends EventEmitter {
    send(text: string): void;
    close(): void;
    terminate(): void;
  }

  export class WebSocketServer extends EventEmitter {
    readonly clients: ReadonlySet<WebSocket>;
    constructor(options: { readonly noServer: true; readonly maxPayload: number });
    handleUpgrade(
      request: IncomingMessage,
      stream: Duplex,
      head: Buffer,
      onOpen: (client: WebSocket) => void,
    ): void;
  }
}
