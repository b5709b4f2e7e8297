/**
 * `npm run bench:page`: the page in Debian's Chromium. Parts, all by default: `size` (bytes sent),
 * `tape` (CPU time of the browser at 50 matches a second of a devnet, and frames at 200), `open`
 * (first paint and rows, and the time from an input to the next frame and to new figures, with
 * FILLS (20,000,000) fills of 67,000 traders behind it). ROUNDS (7) and SECONDS (20) change the size.
 */
import { type Browser, chromium, type Page } from 'playwright-core';
import { documentOf, pageOnce } from '../../../apps/page.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import { openWriter } from '../../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  FEED_MATCH_SUBJECT,
  FEED_STREAM,
  feedMessageId,
} from '../../../ingest/contract.ts';
import { CHROMIUM, MISSING, SWITCHES } from '../../page/browser.ts';
import { type Service, start, startService, temporaryDirectory } from '../../support/service.ts';
import { timedMatch } from './feed-targets.ts';
import { openDataset } from './fills.ts';
import { paced } from './paced.ts';
import {
  type Frames,
  frames,
  type Opened,
  opened,
  processorSeconds,
  type Reaction,
  reaction,
  WATCH,
} from './page-measure.ts';
import { machine, median, percentile, printTable, readable } from './report.ts';
import { BOARDS, refresh } from './views.ts';

const FILLS = Number(process.env.FILLS || 20_000_000);
const ROUNDS = Number(process.env.ROUNDS || 7);
const SECONDS = Number(process.env.SECONDS || 20);
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ['size', 'tape', 'open'];
const FRAMES_RATE = 200;
const TAPE_RATE = 50;
const FRAME_MS = 1_000 / 60;

type Place = { readonly url: string; readonly key: string };

async function size(): Promise<void> {
  const page = await pageOnce();
  const document = await documentOf(page, {
    isPublic: true,
    pageKey: undefined,
    isSimulated: true,
    pictureOrigins: [],
  });
  const sent = [['document', document] as const, ...page.assets].map(
    ([name, { plain, coded }]) => ({
      file: name.replace(/-[A-Z0-9]{8}\./, '.'),
      'plain, bytes': readable(plain.length),
      'as sent, bytes': (coded.br ?? plain).length,
    }),
  );
  const total = sent.reduce((sum, one) => sum + one['as sent, bytes'], 0);
  printTable(`Size, ${readable(total)} bytes in all`, sent);
}

/** A tab of an empty profile. */
async function tab(browser: Browser, { url, key }: Place, path: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(WATCH);
  await page.goto(`${url}${path}#key=${key}`);
  return page;
}

const TABLE = `(document.querySelector('main [aria-busy=true]') ? '' :
  document.querySelector('main tbody')?.textContent ?? '')`;
const TITLE = `(document.querySelector('main tbody') ? document.querySelector('h1').textContent : '')`;

/** The steps of a user, in order. */
const STEPS: readonly {
  readonly name: string;
  readonly seen: string;
  readonly act: (page: Page) => Promise<void>;
}[] = [
  {
    name: 'sort by win rate',
    seen: TABLE,
    act: (page) => page.getByRole('button', { name: 'Win rate' }).click(),
  },
  {
    name: 'next page',
    seen: TABLE,
    act: (page) => page.getByRole('button', { name: 'Next' }).click(),
  },
  {
    name: 'another tag',
    seen: TABLE,
    act: async (page) => {
      await page.getByLabel('Tag').focus();
      await page.keyboard.type('crypto');
    },
  },
  {
    name: 'time frame 7D',
    seen: TABLE,
    act: (page) => page.getByRole('radio', { name: '7D' }).click(),
  },
  {
    name: 'filters open',
    seen: "String(document.querySelector('#filters').hidden)",
    act: (page) => page.getByRole('button', { name: /^Filters/ }).click(),
  },
  { name: 'open a trader', seen: TITLE, act: (page) => page.locator('tbody tr a').first().click() },
  {
    name: 'fills of a market',
    seen: "document.querySelector('.inner')?.textContent ?? ''",
    act: (page) => page.locator('.expand:enabled').first().click(),
  },
  {
    name: 'back',
    seen: TITLE,
    act: (page) => page.getByRole('link', { name: 'Leaderboard' }).click(),
  },
];

async function open(browser: Browser, place: Place): Promise<void> {
  const openings: Opened[] = [];
  const reactions = new Map<string, Reaction[]>(STEPS.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await tab(browser, place, '/?time_frame=30D');
    openings.push(await opened(page));
    await page.locator('svg.spark').first().waitFor();
    for (const { name, seen, act } of STEPS) {
      reactions.get(name)?.push(await reaction(page, seen, () => act(page)));
    }
    await page.context().close();
  }
  const row = (name: string, values: readonly number[]) => ({
    what: name,
    'median, ms': readable(median(values)),
    'most, ms': readable(Math.max(...values)),
  });
  printTable(`Opening the leaderboard, ${ROUNDS} empty profiles`, [
    row(
      'first contentful paint',
      openings.map(({ paintMs }) => paintMs),
    ),
    row(
      'first rows of the ranking',
      openings.map(({ rowsMs }) => rowsMs),
    ),
  ]);
  printTable(
    `From an input, ${ROUNDS} rounds`,
    [...reactions].map(([name, all]) => {
      const next = all.map(({ frameMs }) => frameMs);
      const figures = all.map(({ figuresMs }) => figuresMs);
      return {
        input: name,
        'next frame, median, ms': median(next) === 0 ? '< 16' : readable(median(next)),
        'most, ms': Math.max(...next) === 0 ? '< 16' : readable(Math.max(...next)),
        'new figures, median, ms': readable(median(figures)),
        'at most, ms': readable(Math.max(...figures)),
      };
    }),
  );
}

function framesRow(rate: number, { seconds, gapsMs, longTasks }: Frames) {
  const dropped = gapsMs.reduce((sum, gap) => sum + Math.max(0, Math.round(gap / FRAME_MS) - 1), 0);
  return {
    'events/s': rate,
    'frames/s': readable(gapsMs.length / seconds),
    'dropped of 60 Hz': `${dropped} of ${Math.round(seconds * 60)}`,
    'p50 between frames, ms': readable(percentile(gapsMs, 0.5)),
    p99: readable(percentile(gapsMs, 0.99)),
    most: readable(Math.max(...gapsMs)),
    'tasks over 50 ms': longTasks,
  };
}

/** Frames while only the devnet trades, and while enough more is published to reach FRAMES_RATE. */
async function measureFrames(page: Page, to: Service['nats']): Promise<void> {
  const nats = await connectNats({ ...to, name: 'bench' });
  const writer = await openWriter(nats, { stream: FEED_STREAM });
  const rows = [];
  for (const more of [0, FRAMES_RATE - TAPE_RATE]) {
    const publishing = paced(more, SECONDS + 4, async (n) => {
      const match = timedMatch(n);
      const id = feedMessageId(match.txHash, match.taker.orderHash, 0);
      await writer.append({ id, subject: FEED_MATCH_SUBJECT, data: encodeFeedEvent(match) });
    });
    await page.waitForTimeout(2_000);
    rows.push(framesRow(TAPE_RATE + more, await frames(page, SECONDS)));
    await publishing;
  }
  writer.close();
  await nats.close();
  printTable(`Frames of the tape, ${SECONDS} s`, rows);
}

async function onDataset(browser: Browser): Promise<void> {
  const { fills, traders, parts } = await openDataset(FILLS);
  try {
    for (const board of BOARDS) await refresh(parts.query, `${board}_mv`);
    const api = start('api/main.ts', [], { ...parts.env, LOG_LEVEL: 'warn' });
    const url = `http://127.0.0.1:${(await api.event('listening')).port}`;
    const place = { url, key: parts.key };
    const headers = { 'X-Service-Key': parts.key };
    const board = await fetch(`${url}/v1/analytics/leaderboard?limit=1`, { headers });
    const { total_count } = (await board.json()) as { total_count: number };
    console.log(
      `${readable(fills)} fills, ${readable(traders.length)} traders, ${readable(total_count)} of them in the ranking of 30 days`,
    );
    await open(browser, place);
    await api.stop();
  } finally {
    await parts.stop();
  }
}

async function onDevnet(browser: Browser): Promise<void> {
  const directory = temporaryDirectory();
  const args = ['--history-days', '1', '--demo-rate', String(TAPE_RATE)];
  const service = await startService(directory.path, { args });
  try {
    const page = await tab(browser, service.ready, '/tape');
    await page.locator('tr[data-cursor]').nth(20).waitFor();
    await page.waitForTimeout(10_000);
    const before = await processorSeconds(browser);
    const shownBefore = await rowsOf(page);
    await page.waitForTimeout(SECONDS * 1_000);
    const after = await processorSeconds(browser);
    const rate = ((await rowsOf(page)) - shownBefore) / SECONDS;
    const kinds = [...after].map(([kind, seconds]) => ({
      process: kind,
      cores: (seconds - (before.get(kind) ?? 0)) / SECONDS,
    }));
    const all = kinds.reduce((sum, { cores }) => sum + cores, 0);
    printTable(
      `Processor time of the tape at ${readable(rate)} matches a second, ${SECONDS} s`,
      [...kinds, { process: 'all', cores: all }].map(({ process, cores }) => ({
        process,
        'part of a core': `${(cores * 100).toFixed(1)} %`,
      })),
    );
    await measureFrames(page, service.nats);
    await page.context().close();
  } finally {
    await service.up.stop();
    directory.remove();
  }
}

async function rowsOf(page: Page): Promise<number> {
  const text = (await page.locator('[data-stream]').textContent()) ?? '';
  return Number(/([\d,]+) rows/.exec(text)?.[1]?.replaceAll(',', '') ?? 0);
}

async function main(): Promise<void> {
  if (CHROMIUM === undefined) throw new Error(MISSING);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: [...SWITCHES] });
  try {
    console.log(`${machine()}; Chromium ${browser.version()}, headless`);
    if (PARTS.includes('size')) await size();
    if (PARTS.includes('tape')) await onDevnet(browser);
    if (PARTS.includes('open')) await onDataset(browser);
  } finally {
    await browser.close();
  }
}

await main();
process.exit(0);
