/**
 * Description of `GET /v1/stream/orders` (specification 4.2, part 6) for the OpenAPI document. The
 * feed parses its parameters itself (feed/query.ts); a test holds these names against it.
 */
import type { Operation, Parameter } from './openapi.ts';

export const STREAM_PATH = '/v1/stream/orders';

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

export const STREAM_OPERATION: Operation = {
  operationId: 'v1_stream_orders',
  tags: ['v1'],
  summary: 'Every match when it is first seen, as Server-Sent Events',
  description: `An open event stream: \`event: order\` with one match in \`data:\`, seconds before its
block is final. Compact form: \`[tx_hash, timestamp, market, taker order, maker orders]\`; with
\`format=json\` an object with labels. Lists are joined with OR inside one list and AND between them;
bounds are inclusive. \`: heartbeat\` comes every 30 s. Every event has an \`id\`; a client that sends the
last one as \`Last-Event-ID\` gets everything after it, or \`event: gap\` where that is no longer kept.`,
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
    parameter('lastEventId', 'as Last-Event-ID, which goes before it', { type: 'string' }),
    {
      ...parameter('Last-Event-ID', 'position to resume after', { type: 'string' }),
      in: 'header',
    },
  ],
  responses: {
    200: {
      description: 'the open stream',
      content: { 'text/event-stream': { schema: { type: 'string' } } },
    },
  },
};

function parameter(name: string, description: string, schema: Parameter['schema']): Parameter {
  return { name, in: 'query', required: false, description, schema };
}
