/**
 * What an alert sends: one JSON object, the same in webhooks, in the event stream and in what messengers show. Its id is derived
 * from the alert and from what happened, so an event that is sent twice has the same id.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { text } from '../../api/analytics/schemas.ts';

/** `test` is sent on request. */
const EVENT_TYPES = [
  'match',
  'group',
  'position',
  'price',
  'move',
  'resolution',
  'pnl',
  'test',
] as const;

export const EVENT_STATES = ['pending', 'final', 'confirmed', 'retracted', 'restored'] as const;
export type EventState = (typeof EVENT_STATES)[number];

const ID_EXAMPLE = 'evt_5f0c6a2be9d34c1187a0f5b2c4d6e8fa';

export const AlertEvent = z
  .object({
    id: text('id of the event: whoever gets it twice gets the same id twice', ID_EXAMPLE),
    type: z.enum(EVENT_TYPES).meta({ description: 'kind of the event', examples: ['match'] }),
    state: z.enum(EVENT_STATES).meta({
      description:
        'pending: seen in the mempool; final: in a final block when first seen; confirmed: a pending one became final; retracted: a pending one never happened; restored: a retracted one did happen',
      examples: ['pending'],
    }),
    refers_to: z
      .string()
      .nullable()
      .meta({
        description: 'id of the event that this one confirms, retracts or restores; null otherwise',
        examples: [null],
      }),
    timestamp: text('when it was detected, UTC with milliseconds', '2026-05-01T12:00:00.000Z').meta(
      {
        format: 'date-time',
      },
    ),
    alert: z.object({
      id: text('id of the alert', '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a'),
      name: text('its name', 'whales'),
    }),
    text: text(
      'what happened, in one line',
      'deepwater-20 bought Yes of "Bitcoin above 100k?": 27,714.00 USDC at 85.0¢',
    ),
    data: z.record(z.string(), z.unknown()).meta({
      description: 'what happened, by the type of the event',
      examples: [{ tx_hash: `0x${'ab'.repeat(32)}` }],
    }),
  })
  .meta({ id: 'AlertEvent' });
export type AlertEvent = z.infer<typeof AlertEvent>;

/** The id of what an alert sends about a thing, for example a match. */
export function eventId(alertId: string, about: string): string {
  return `evt_${hash('sha256', `${alertId} ${about}`).slice(0, 32)}`;
}

/** The id of what confirms, retracts or restores an event, because of what became of a match. */
export function followUpId(id: string, state: EventState, matchId: string): string {
  return `evt_${hash('sha256', `${id} ${state} ${matchId}`).slice(0, 32)}`;
}
