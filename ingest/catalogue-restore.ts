/**
 * Reads back what LEDGER says of markets, traders and resolutions, so that a restart neither asks for
 * it nor publishes it again. Bounded: only the newest SPAN_MESSAGES of the stream are looked through;
 * what is older is asked for when it is used, and may be published once more, which changes nothing.
 */
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats/connection.ts';
import { lastMessage, readRange } from '../infra/nats/read.ts';
import { decodeLedgerEvent, LEDGER_STREAM, type LedgerEvent } from './contract.ts';

/** A day of Polygon: about 50 messages a second. */
const SPAN_MESSAGES = 5_000_000;
const READ_MESSAGES = 10_000;
const PROGRESS_MS = 2_000;
const SUBJECTS = ['ledger.*.listing', 'ledger.*.profile', 'ledger.*.resolution'];

/** Calls `onEvent` with every listing, profile and resolution, the older before the newer ones. */
export async function restoreEvents(
  nats: Nats,
  logger: Logger,
  onEvent: (event: LedgerEvent) => void,
): Promise<void> {
  const begunAt = performance.now();
  let toldAt = begunAt;
  let events = 0;
  const seconds = () => Math.round((performance.now() - begunAt) / 100) / 10;
  const newest = await lastMessage(nats, LEDGER_STREAM, '>');
  const first = Math.max(1, (newest?.sequence ?? 0) - SPAN_MESSAGES);
  for (const subject of SUBJECTS) {
    for (let next = first; ; ) {
      const messages = await readRange(nats, LEDGER_STREAM, next, READ_MESSAGES, subject);
      const last = messages.at(-1);
      if (last === undefined) break;
      for (const message of messages) onEvent(decodeLedgerEvent(message.data));
      events += messages.length;
      next = last.sequence + 1;
      if (performance.now() - toldAt < PROGRESS_MS) continue;
      toldAt = performance.now();
      const percent = Math.round(
        ((next - first) * 100) / Math.max(1, (newest?.sequence ?? 0) - first),
      );
      logger.info({ subject, percent, events, seconds: seconds() }, 'reading the metadata back');
    }
  }
  if (events > 0) logger.info({ events, seconds: seconds() }, 'metadata read back');
}
