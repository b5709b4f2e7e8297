/** Reports when an insert into `bookings` begins between the projector and ClickHouse, so that a kill can hit it. */
import type { Socket } from 'node:net';
import { Front } from '../../support/front.ts';

/** Matches the head of the request, which comes first. */
const INSERT = /^POST \S*INSERT(?:\+|%20)INTO(?:\+|%20)bookings/;

export class InsertWatch extends Front {
  #began = Promise.withResolvers<void>();

  /** Resolves when the next insert begins. */
  next(): Promise<void> {
    return this.#began.promise;
  }

  protected override join(client: Socket, behind: Socket): void {
    client.on('data', (chunk) => {
      if (!INSERT.test(chunk.toString('latin1', 0, 4_096))) return;
      this.#began.resolve();
      this.#began = Promise.withResolvers();
    });
    super.join(client, behind);
  }
}
