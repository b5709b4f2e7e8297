/**
 * `GET /v2/analytics/pnl_lines`: PnL over time of up to 100 traders, for the lines of a leaderboard. Points without
 * activity are 0, so all lines have the same length.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { addresses, integer } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { checksummed, hourText, safeInteger } from './format.ts';
import { read } from './query.ts';
import { count, hexText, int, rowOf } from './rows.ts';
import { checksummedAddress, hourStart } from './schemas.ts';

const TRADERS_MAX = 100;
const HOURS_MAX = 720;
const STEP_HOURS_MAX = 24;
const HOUR_SECONDS = 3_600;

/** Number of the point, from 0. */
const POINT = 'intDiv(toUnixTimestamp(hour) - {from:UInt32}, {step:UInt32})';
const Row = rowOf({
  address: hexText('trader'),
  point: count(POINT),
  pnl: int('sum(realised_pnl)'),
});

const SQL = `
SELECT ${Row.columns}
FROM trader_hours
WHERE trader IN {traders:Array(FixedString(20))}
  AND hour >= toDateTime({from:UInt32}, 'UTC') AND hour <= toDateTime({to:UInt32}, 'UTC')
GROUP BY trader, ${POINT}`;

export const pnlLines = endpoint({
  name: 'pnlLines',
  path: '/v2/analytics/pnl_lines',
  summary: 'PnL lines of several traders',
  description: `The PnL of several traders over time, for a chart: points up to the current hour, oldest first, of each trader in the
order of \`traders\`.`,
  parameters: z.object({
    traders: addresses(TRADERS_MAX)
      .optional()
      .describe('comma-separated wallets; letter case is ignored (default: none)'),
    hours: integer(1, HOURS_MAX).default(24).describe('number of hours, including the current one'),
    step_hours: integer(1, STEP_HOURS_MAX)
      .default(1)
      .describe('hours of one point; the last point may have fewer'),
  }),
  answer: z.object({
    first_hour: hourStart,
    lines: z.array(
      z.object({
        address: checksummedAddress,
        pnl: z.array(z.int()).meta({
          description:
            'realised PnL of each point, the first of which starts with first_hour; net of fees, micro-USD',
          examples: [[0, 12_500_000]],
        }),
      }),
    ),
  }),
  list: 'lines',
  problems: [],
  keep: SHARED,
  async run(call: Call, { traders = [], hours, step_hours }) {
    const to = Math.floor(call.now() / 1000 / HOUR_SECONDS) * HOUR_SECONDS;
    const from = to - (hours - 1) * HOUR_SECONDS;
    const rows = await read(call, {
      sql: SQL,
      parameters: { traders: new Bytes(traders), from, to, step: step_hours * HOUR_SECONDS },
      row: Row,
    });
    const known = new Map(rows.map(({ address, point, pnl }) => [`${address} ${point}`, pnl]));
    return {
      first_hour: hourText(from),
      lines: traders.map((address) => ({
        address: checksummed(address),
        pnl: Array.from({ length: Math.ceil(hours / step_hours) }, (_, point) =>
          safeInteger(known.get(`${address} ${point}`) ?? 0n),
        ),
      })),
    };
  },
});
