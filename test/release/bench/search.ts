/**
 * The part `search` of `npm run bench:api`: `GET /v2/search` without HTTP, one request at a time, on MARKETS (500,000)
 * generated listings and TRADERS (1,000,000) profiles. They are made once and kept in the system's temporary directory;
 * removing it is always safe. Words of questions and names follow a Zipf law; a third of the markets are of series
 * whose questions differ only in day and time. Views do not refresh meanwhile.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectClickHouse } from '../../../infra/clickhouse.ts';
import { serviceUrl } from '../../../local/secret.ts';
import { migrate } from '../../../sql/migrate.ts';
import { conditionId } from '../../support/ledger-generator.ts';
import { generator } from '../../support/seed.ts';
import { query, start } from '../../support/service.ts';
import type { Case } from './endpoint-calls.ts';
import { measureWork } from './endpoint-work.ts';
import { withoutRefreshes } from './views.ts';

const MARKETS = Number(process.env.MARKETS || 500_000);
const TRADERS = Number(process.env.TRADERS || 1_000_000);
const BATCH = 10_000;
const DATABASE = 'fillstream';
const FILLED = [
  ...['markets', 'traders', 'market_marks', 'trader_activity'],
  ...['search_words', 'search_variants'],
];

const SYLLABLES =
  'an be co da el fi ga hu in jo ka li mo ne or pa qui ra so ti un va we xi yo za'.split(' ');
const COMMON = 'will the in on by win at of to be or up down 2026 may june above points game'.split(
  ' ',
);
const VOCABULARY = 60_000;

/** The n-th most frequent word. */
function word(n: number): string {
  if (n < COMMON.length) return COMMON[n] ?? '';
  let letters = '';
  // Neighbours in frequency share no letters.
  for (let left = n * 7 + 31; left > 0; left = Math.floor(left / 26))
    letters += SYLLABLES[left % 26];
  return letters;
}

const dice = (seed: number) => {
  const next = generator(seed);
  return {
    below: (count: number) => Math.floor(next() * count),
    /** A word by Zipf's law: the n-th has a frequency of about 1/n. */
    word: () => word(Math.floor(VOCABULARY ** next()) - 1),
  };
};

function questionOf(market: number): { question: string; title: string; slug: string } {
  const at = dice(market);
  if (market % 3 === 0) {
    const series = word(40 + (market % 50));
    const minutes = Math.floor(market / 150);
    const time = `${1 + (minutes % 12)}:${String((minutes * 5) % 60).padStart(2, '0')}PM`;
    const title = `${series} Up or Down - May ${1 + (minutes % 31)}, ${time} ET`;
    return { question: title, title, slug: `${series}-updown-5m-${1_700_000_000 + market}` };
  }
  const words = Array.from({ length: 4 + at.below(8) }, at.word);
  const event = dice(-1 - Math.floor(market / 6));
  return {
    question: `Will ${words.join(' ')}?`,
    title: Array.from({ length: 4 }, event.word).join(' '),
    slug: `will-${words.slice(0, 6).join('-')}-${market % 997}`,
  };
}

const addressOf = (trader: number) => createHash('sha1').update(String(trader)).digest('hex');

function nameOf(trader: number): string {
  const at = dice(trader * 3 + 1);
  const kind = at.below(10);
  // Polymarket's names for traders without a chosen name.
  if (kind < 2) return `0x${addressOf(trader)}-17${at.below(100_000_000)}`;
  if (kind < 6) return `${word(100 + at.below(300))}-${word(400 + at.below(600))}`;
  if (kind < 8) return `${word(1_000 + at.below(VOCABULARY))}${at.below(1_000)}`;
  return `${at.word()} ${at.word()}`;
}

function listing(market: number) {
  const { question, title, slug } = questionOf(market);
  return {
    ...{ condition_id_hex: conditionId(market).slice(2), market_id: 1_000_000 + market, question },
    ...{ slug, event_title: title, event_slug: `event-${Math.floor(market / 6)}` },
    ...{ tags: ['sports'], outcomes: ['Yes', 'No'], token_ids: [market * 2 + 1, market * 2 + 2] },
    observed_at: '2026-01-01 00:00:00',
  };
}

function profile(trader: number) {
  const x_username = trader % 6 === 0 ? `${word(trader % VOCABULARY)}_${trader % 100}` : '';
  const observed_at = '2026-01-01 00:00:00';
  return { trader_hex: addressOf(trader), name: nameOf(trader), x_username, observed_at };
}

type Client = ReturnType<typeof connectClickHouse>;

async function fill(client: Client): Promise<void> {
  const sets = [
    { table: 'markets', count: MARKETS, row: listing },
    { table: 'traders', count: TRADERS, row: profile },
  ];
  for (const { table, count, row } of sets) {
    for (let from = 0; from < count; from += BATCH) {
      const size = Math.min(BATCH, count - from);
      const values = Array.from({ length: size }, (_, at) => row(from + at));
      const columns = Object.keys(row(0)) as [string, ...string[]];
      await client.insert({ table, values, columns, format: 'JSONEachRow' });
    }
  }
  // By power laws.
  await client.command({
    query: `INSERT INTO trader_activity
      SELECT trader, now(), now(), 1 + intDiv(10000, 1 + cityHash64(trader) % 1000003) FROM traders`,
  });
  await client.command({
    query: `INSERT INTO market_marks (condition_id, volume, matches)
      SELECT condition_id, intDiv(1000000000000, 1 + cityHash64(condition_id) % 1000003), 1 FROM markets`,
  });
}

async function openSearchData() {
  const directory = join(tmpdir(), `fillstream-bench-search-${MARKETS}-${TRADERS}`);
  const [data, filled] = [join(directory, 'clickhouse'), join(directory, 'filled')];
  if (!existsSync(filled)) rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const engine = start('local/clickhouse/main.ts', ['--data', data, '--port', '0']);
  const url = serviceUrl(String((await engine.event('listening')).url), data);
  await migrate({ url, database: DATABASE });
  const client = connectClickHouse({
    ...{ url, database: DATABASE, name: 'bench', requestTimeoutMs: 600_000 },
  });
  if (!existsSync(filled)) {
    await fill(client);
    writeFileSync(filled, '');
  }
  // The engine merges parts that are older than a day like this.
  for (const table of FILLED) {
    const query = `OPTIMIZE TABLE ${table} FINAL SETTINGS optimize_skip_merged_partitions = 1`;
    await client.command({ query });
  }
  await client.close();
  return { engine, url };
}

/** Different queries of each kind; the i-th of a market or trader of any rank. */
function kinds(): Readonly<Record<string, (i: number) => string>> {
  const market = (i: number) => {
    const found = (i * 104_729 + 1) % MARKETS;
    return found % 3 === 0 ? found + 1 : found;
  };
  const trader = (i: number) => (i * 70_921 + 5) % TRADERS;
  const slug = (i: number) => questionOf(market(i)).slug;
  const words = (i: number) => questionOf(market(i)).question.slice(0, -1).split(' ').slice(1);
  const rarest = (i: number) =>
    words(i)
      .toSorted((a, b) => b.length - a.length)
      .slice(0, 2 + (i % 2));
  const typo = (text: string, i: number) => {
    const at = 1 + (i % Math.max(1, text.length - 2));
    return text.slice(0, at) + text.slice(at + 1);
  };
  const named = (i: number) => {
    let at = trader(i);
    while (nameOf(at).startsWith('0x')) at += 1;
    return nameOf(at).replace('-', ' ');
  };
  return {
    'URL of a market': (i) => `https://polymarket.com/event/e/${slug(i)}`,
    slug,
    id: (i) => String(1_000_000 + market(i)),
    'condition id': (i) => conditionId(market(i)),
    address: (i) => `0x${addressOf(trader(i))}`,
    'beginning of an address': (i) => `0x${addressOf(trader(i)).slice(0, 3 + (i % 5))}`,
    'two or three words': (i) => rarest(i).join(' '),
    'the same, the last one begun': (i) => rarest(i).join(' ').slice(0, -2),
    'the same, with a typo': (i) => rarest(i).map(typo).join(' '),
    'a rare and frequent words': (i) => `will the ${rarest(i)[0]} in`,
    'frequent words': (i) => `${word(i % 12)} ${word(12 + (i % 30))}`,
    'words of a series': (i) => `${word(40 + (i % 50))} up or down may ${1 + (i % 31)}`,
    'a whole question': (i) => questionOf(market(i)).question,
    'one frequent word': (i) => word(i % 40),
    'the first two letters of a word': (i) => word(60 + i).slice(0, 2),
    name: named,
    'name, begun': (i) => named(i).slice(0, -2),
    'name, with a typo': (i) => typo(named(i), i),
    '@account': (i) => `@${word((i * 6) % VOCABULARY)}_${(i * 6) % 100}`,
  };
}

/** Rows of a table: a kind of query each. */
export async function measureSearch() {
  const { engine, url } = await openSearchData();
  const cases = Object.entries(kinds()).map(
    ([name, text]): Case => ({ name, ask: (i) => `/v2/search?q=${encodeURIComponent(text(i))}` }),
  );
  try {
    return await withoutRefreshes(
      (sql) => query(url, sql),
      () => measureWork(cases, { url, pid: engine.pid }, Date.now),
    );
  } finally {
    await engine.stop();
  }
}
