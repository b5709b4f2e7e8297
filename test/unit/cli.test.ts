/** The command line: amounts, tables, arguments, and lines of the feed. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { csvRow } from '../../api/http/csv-row.ts';
import { command, parseCommand, run, timeOf } from '../../apps/cli/command.ts';
import { exportFills } from '../../apps/cli/export.ts';
import {
  cents,
  cutTo,
  dollars,
  flat,
  percent,
  shares,
  table,
  widthOf,
} from '../../apps/cli/format.ts';
import { keys } from '../../apps/cli/keys.ts';
import { market, positions, search, top, trader } from '../../apps/cli/read.ts';
import { lineOf } from '../../apps/cli/tail.ts';
import { ENDPOINTS } from '../../apps/reference/document.ts';
import { UsageError } from '../../infra/expected.ts';
import { clean } from '../../infra/printed.ts';
import { serve } from '../support/http-server.ts';

const WIDE = { width: Number.POSITIVE_INFINITY, hasColors: false };

test.each([
  [0, '$0.00'],
  ['1234500000', '$1,234.50'],
  [-3_200_000, '-$3.20'],
  [48_210_400_000, '$48,210'],
  [4_200, '$0.0042'],
  [-1, '-$0.000001'],
])('%s micro-USDC are %s', (micro, text) => {
  expect(dollars(micro)).toBe(text);
});

test.each([
  [12_500_000, '12.5'],
  [1_234_567_890, '1,235'],
  [1, '0.000001'],
])('%s micro-shares are %s', (micro, text) => {
  expect(shares(micro)).toBe(text);
});

test('prices are in cents, ratios in percent', () => {
  expect([620_000, 4_000, 1_000_000, null].map(cents)).toEqual(['62¢', '0.4¢', '100¢', '']);
  expect([12.34, -5, 0].map(percent)).toEqual(['12.3%', '-5.0%', '0.0%']);
});

test('text from users cannot control the terminal', () => {
  expect(clean('\x1b[31mred\x1b[0m\r\n\u202eover\u0007 \x9b2J')).not.toMatch(/\p{C}/u);
  expect(clean('two\nlines')).toBe('two lines');
});

describe('no text of a response controls the terminal', () => {
  const HOSTILE = 'red\x1b[31m\x07 \x9b2J\x7f\u202e\r\nnext';
  const COMMANDS = { top, trader, market, positions, search, keys, export: exportFills };
  type Schema = z.core.JSONSchema.JSONSchema;
  const samples = new Map(
    ENDPOINTS.map(({ method = 'get', path, answer }) => {
      const { $defs = {}, ...schema } = z.toJSONSchema(answer);
      const sample = sampleOf(schema as Schema, $defs as Record<string, Schema>);
      return [`${method.toUpperCase()} ${path.replaceAll(/:\w+/g, 'x')}`, sample];
    }),
  );

  /** A value of this schema, in which every text is hostile. */
  function sampleOf(schema: Schema, named: Readonly<Record<string, Schema>>): unknown {
    const { $ref, type, properties = {}, items, anyOf: [first] = [], enum: [one] = [] } = schema;
    const found = named[$ref?.split('/').at(-1) ?? ''] ?? first;
    if (found !== undefined) return sampleOf(found as Schema, named);
    switch (type) {
      case 'object':
        return Object.fromEntries(
          Object.entries(properties).map(([name, one]) => [
            name,
            name === 'next_cursor' ? '' : sampleOf(one as Schema, named),
          ]),
        );
      case 'array':
        return [sampleOf(items as Schema, named)];
      case 'string':
        return one ?? HOSTILE;
      case 'boolean':
        return true;
      default:
        return 1;
    }
  }

  test.each([
    ...['top', 'top --format json', 'top --format csv'],
    ...['positions x', 'positions x --format json', 'positions x --format csv'],
    ...['trader x', 'trader x --format json', 'market x', 'market x --format json'],
    ...['search x', 'search x --format json', 'keys', 'keys --format json'],
    ...['export trader x', 'export trader x --format json'],
  ])('%s', async (line) => {
    const [name, ...args] = line.split(' ');
    using server = await serve(({ method, url }, response) => {
      const [path = ''] = url?.split('?') ?? [];
      const body = samples.get(`${method} ${path.replace(/traders\/(?!batch)[^/]+/, 'traders/x')}`);
      response.writeHead(body === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(body ?? {}));
    });
    const printed: string[] = [];
    await run(COMMANDS[name as keyof typeof COMMANDS], [...args, '--url', server.url], {
      ...{ env: {}, signal: new AbortController().signal, screen: WIDE, note: () => {} },
      write: async (text) => void printed.push(text.toString()),
    });
    expect(printed.join('')).toContain('red');
    expect(printed.join('')).not.toMatch(/[^\r\n\P{C}]/u);
  });
});

test.each([
  ['short', 10, 'end', 'short'],
  ['a long question', 8, 'end', 'a long …'],
  ['0x0123456789abcdef', 11, 'middle', '0x012…bcdef'],
  ['雨雨雨雨', 5, 'end', '雨雨…'],
] as const)('%s in %i columns is cut at the %s: %s', (text, width, where, cut) => {
  expect(cutTo(text, width, where)).toBe(cut);
});

describe('a table', () => {
  const rows = [
    { name: 'a question that is very long indeed', amount: '1' },
    { name: '雨', amount: '12345' },
  ];
  const columns = [
    { head: 'name', cut: 'end', cell: (row: (typeof rows)[number]) => row.name },
    { head: 'amount', isRight: true, cell: (row: (typeof rows)[number]) => row.amount },
  ] as const;

  test.each([40, 25, 20, 12])('fits %i columns', (width) => {
    const lines = table(columns, rows, { width, hasColors: false }).split('\n');
    expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(width);
  });

  test('is complete without a terminal, with numbers right-aligned', () => {
    expect(table(columns, rows, WIDE).split('\n')[1]).toBe(
      'a question that is very long indeed       1',
    );
  });

  test('has colours only where they are shown', () => {
    const colored = columns.map((column) => ({ ...column, color: () => 'red' as const }));
    expect(table(colored, rows, WIDE)).not.toContain('\x1b');
    expect(table(colored, rows, { ...WIDE, hasColors: true })).toContain('\x1b[31m');
  });
});

test('CSV quotes only where necessary, and names nested members like the API', () => {
  expect(csvRow(['a,b', 'say "x"', null, ['p', 'q'], 1])).toBe('"a,b","say ""x""",,p;q,1\r\n');
  expect(flat({ profile: { address: '0x1' }, tags: ['a'], price: null })).toEqual({
    ...{ 'profile.address': '0x1', tags: ['a'], price: null },
  });
});

describe('arguments', () => {
  const one = command({
    ...{ summary: '', usage: 'NAME', takes: [1, 1], examples: [] },
    options: {
      tag: { value: 'TAG', isList: true, text: '' },
      limit: { value: 'N', isNumber: true, text: '' },
      order: { value: 'ORDER', choices: ['asc', 'desc'], text: '' },
      all: { text: '' },
    },
    async run({ client }) {
      client();
    },
  });

  test('have the types that the command declares', () => {
    const { args, flags } = parseCommand(one, ['x', '--tag=a,b', '--tag', 'c', '--limit', '5']);
    expect(args).toEqual(['x']);
    expect(flags).toMatchObject({ tag: ['a', 'b', 'c'], limit: 5, order: undefined, all: false });
  });

  test.each([
    [[], 'missing argument: NAME'],
    [['x', 'y'], 'unexpected argument: y'],
    [['x', '--limit', 'many'], '--limit must be a number: many'],
    [['x', '--order', 'up'], '--order must be asc, desc: up'],
    [['x', '--key', 'fs_pro_1'], "Unknown option '--key'"],
    [['x', '--limit'], "Option '--limit <value>' argument missing"],
  ])('%j: %s', (argv, message) => {
    expect(() => parseCommand(one, argv)).toThrow(new UsageError(message));
  });

  test.each([[{ FILLSTREAM_KEY: 'ключ' }, 'the API key contains invalid characters']])(
    'environment %j: %s',
    async (env, message) => {
      const { signal } = new AbortController();
      const context = { env, signal, screen: WIDE, write: async () => {}, note: () => {} };
      await expect(run(one, ['x'], context)).rejects.toThrow(new UsageError(message));
    },
  );
});

describe('a URL', () => {
  const NO_SCHEME = '--url or FILLSTREAM_URL must begin with http:// or https://';
  const NO_USER = 'the URL has a user or password: the API needs only a key';

  test.each([
    ['nowhere', NO_SCHEME],
    ['localhost:8080', NO_SCHEME],
    ['127.0.0.1:8080', NO_SCHEME],
    ['user:pw@host', NO_SCHEME],
    ['ftp://host', NO_SCHEME],
    ['http://', '--url or FILLSTREAM_URL is not a URL'],
    ['http://user:pw@host', NO_USER],
    ['http://user@host', NO_USER],
    ['http://host/?key=1', 'the URL must end with its path: http://host/?key=1'],
    ['http://host/#top', 'the URL must end with its path: http://host/#top'],
  ])('%s: %s', async (url, message) => {
    const context = {
      ...{ env: {}, signal: new AbortController().signal, screen: WIDE },
      ...{ write: async () => {}, note: () => {} },
    };
    const asked = run(top, ['--url', url], context);
    await expect(asked).rejects.toThrow(new UsageError(message));
  });
});

test.each([
  ['2026-01-31', '2026-01-31T00:00:00Z'],
  ['2026-01-31 12:34', '2026-01-31T12:34:00Z'],
  ['2026-01-31T12:34:56.5+02:00', '2026-01-31T10:34:56.5Z'],
  ['1777593600', '2026-05-01T00:00:00Z'],
])('the time %s is %s, wherever the command runs', (text, utc) => {
  expect(timeOf('--from', text)).toBe(Date.parse(utc));
});

test.each(['2026-1-31', 'Jan 31 2026', '2026-13-01', 'now', ''])('%j is no time', (text) => {
  expect(() => timeOf('--from', text)).toThrow(UsageError);
});

describe('a line of the feed', () => {
  const match = { tx_hash: '0xab', match_id: '0xab:1', timestamp: '2026-01-31 12:34:56.789' };
  const final = { type: 'final', cursor: '71234', data: { ...match, block_number: 77 } } as const;
  const data = { requested: 5, first_available: 20_001 };
  const gap = { type: 'gap', cursor: '9', data } as const;

  test('includes its cursor in JSON and CSV', () => {
    expect(JSON.parse(lineOf(final, 'json', WIDE))).toEqual(final);
    expect(lineOf(final, 'csv', WIDE)).toBe(
      '71234,final,2026-01-31 12:34:56.789,0xab:1,0xab,,,,,,,,,,block 77\r\n',
    );
    expect(lineOf(gap, 'csv', WIDE)).toMatch(/^9,gap,.*,"lost after 5, continues at 20001"\r\n$/);
  });

  test('is short in text output', () => {
    expect(lineOf(final, 'pretty', WIDE)).toBe('12:34:56  final     match 0xab:1 block 77\n');
  });
});
