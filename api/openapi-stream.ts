/**
 * Description of the two event streams (specification 4.1, 4.2, part 6) for the OpenAPI document. The
 * feed parses their parameters itself (feed/route.ts); a test holds these names against it.
 */

import type { ProblemCode } from './errors.ts';
import type { Operation, Parameter } from './openapi.ts';
import type { EVENT_SCHEMAS } from './openapi-events.ts';

const DELIVERY = `\`: heartbeat\` comes every 30 s. Every event has an \`id\`, an integer that grows; a
client that sends the last one as \`Last-Event-ID\` gets everything after it, from any process of the
service, and then goes on live. \`event: gap\` says that events between the two positions in its data
are not kept any more, or that the position is of another feed. A match is delivered before it is
final; \`event: void\` says that it did not happen, \`event: restored\` that it happened after all.
They come to whom the match came, by the same filter; a client that knows only matches may ignore
them. A connection that reads too slowly is ended; it resumes by its position. 401, 403 and 404 are
final: do not connect again with the same request. \`void\`, \`restored\` and \`gap\` have the same data in
both event streams. Lines end with LF and an event has one \`data:\` line. It exceeds 64 KiB, at which Go's
\`bufio.Scanner\` stops unless its buffer is larger, only for a match of more than about 100 orders.`;

const LISTS = {
  traders: 'wallet addresses, by comma; only matches that involve one of them',
  tags: 'tags of markets, by comma',
  series: 'series slugs, by comma',
};

const BOUNDS = {
  min_usdc: 'least value of the taker order, USDC',
  max_usdc: 'greatest value of the taker order, USDC',
  min_shares: 'fewest shares of the taker order',
  max_shares: 'most shares of the taker order',
  min_price: 'least execution price of the taker, 0 to 100',
  max_price: 'greatest execution price of the taker, 0 to 100',
};

const POSITION: readonly Parameter[] = [
  parameter('lastEventId', 'as Last-Event-ID, which goes before it', { type: 'string' }),
  {
    ...parameter('Last-Event-ID', 'position to resume after', { type: 'string' }),
    in: 'header',
  },
];

const ORDERS: Operation = {
  operationId: 'v1_stream_orders',
  tags: ['v1'],
  summary: 'Every match when it is first seen, as Server-Sent Events',
  description: `An open event stream: \`event: order\` with one match in \`data:\`, seconds before its
block is final. Compact form: \`[tx_hash, timestamp, market, taker order, maker orders]\`; with
\`format=json\` an object with labels. Lists are joined with OR inside one list and AND between them;
bounds are inclusive. The tag \`sports\` is traditional sports only: markets that carry \`esports\` need
that tag; \`all\` is no filter.

${DELIVERY}`,
  parameters: [
    ...Object.entries(LISTS).map(([name, description]) =>
      parameter(name, description, { type: 'string' }),
    ),
    ...Object.entries(BOUNDS).map(([name, description]) =>
      parameter(name, description, {
        type: 'number',
        minimum: 0,
        ...(name.endsWith('price') && { maximum: 100 }),
      }),
    ),
    parameter('format', 'json: objects with labels; absent: the compact form', {
      type: 'string',
      enum: ['json'],
    }),
    ...POSITION,
  ],
  responses: opened({
    order: 'LabelledMatch',
    gap: 'Gap',
    void: 'Void',
    restored: 'Restored',
  }),
};

const LISTEN: Operation = {
  operationId: 'streams_id',
  tags: ['streams'],
  summary: 'Listen to a stream, as Server-Sent Events',
  description: `An open event stream: \`event: tx\` with one live transaction in \`data:\`, seconds before
its block is final. What is delivered is decided by the filters in force when it is sent. The
response ends when the stream is deleted or disabled.

${DELIVERY}`,
  parameters: [
    {
      ...parameter('id', 'stream id', {
        type: 'string',
        format: 'uuid',
        examples: ['0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a'],
      }),
      in: 'path',
      required: true,
    },
    ...POSITION,
  ],
  responses: opened({ tx: 'LiveTransaction', gap: 'Gap', void: 'Void', restored: 'Restored' }),
};

/** By path, each with its problems besides those of every endpoint. */
export const STREAM_OPERATIONS: Readonly<
  Record<string, { readonly operation: Operation; readonly problems: readonly ProblemCode[] }>
> = {
  '/v1/stream/orders': { operation: ORDERS, problems: ['quota_exceeded'] },
  '/streams/{id}': {
    operation: LISTEN,
    problems: ['quota_exceeded', 'stream_disabled', 'not_found'],
  },
};

function opened(events: Readonly<Record<string, keyof typeof EVENT_SCHEMAS>>) {
  const data = Object.entries(events).map(([event, schema]) => [
    event,
    { $ref: `#/components/schemas/${schema}` },
  ]);
  return {
    200: {
      description: 'the open stream',
      content: {
        'text/event-stream': {
          schema: { type: 'string' as const, 'x-event-data': Object.fromEntries(data) },
        },
      },
    },
  };
}

function parameter(name: string, description: string, schema: Parameter['schema']): Parameter {
  return { name, in: 'query', required: false, description, schema };
}
