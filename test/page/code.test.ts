/** "Use in code" and CSV: the programs that the page shows run as they are, and its files have what the page shows. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import type { Leaderboard, Market, Markets } from '../../apps/client/index.ts';
import { hasCurl } from '../support/runtimes.ts';
import { useStage } from './stage.ts';

const ROOT = join(import.meta.dirname, '../..');
const stage = useStage();
const HAS_CURL = hasCurl();

/** The program in each language, as the dialog shows it. */
async function programs(page: Page): Promise<Record<string, string>> {
  await page.getByRole('button', { name: 'Use in code' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'Use in code' });
  const found: Record<string, string> = {};
  for (const language of ['curl', 'TypeScript', 'Python']) {
    await dialog.getByRole('radio', { name: language }).check();
    found[language] = await dialog.locator('pre').innerText();
  }
  return found;
}

/** The first line that a program prints, or all of it if it ends before. */
async function output(program: string, args: readonly string[]): Promise<string> {
  const env = {
    ...process.env,
    FILLSTREAM_KEY: stage.key,
    PYTHONPATH: join(ROOT, 'examples/python'),
    PYTHONUNBUFFERED: '1',
  };
  const child = spawn(program, args, { env, cwd: ROOT });
  onTestFinished(() => void child.kill('SIGKILL'));
  let [text, errors] = ['', ''];
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  expect(text, errors).not.toBe('');
  return text;
}

test.each([
  ['a trader', async () => `/trader/${await stage.leader()}`, 'profile'],
  ['a market', async () => `/market/${(await openMarket()).id}`, 'market'],
  ['the leaderboard', async () => '/leaderboard?time_frame=7D', 'traders'],
  ['the tape with filters', async () => '/tape?tags=sports,crypto&min_usdc=0.5', ''],
])('the programs for %s run and get the same', async (_, pathOf, member) => {
  const { page } = await stage.at(await pathOf());
  const { curl = '', TypeScript = '', Python = '' } = await programs(page);
  if (HAS_CURL) expect(await output('bash', ['-c', curl])).toContain(member || 'retry:');
  expect(await output('python3', ['-c', Python])).toContain(member || 'order');
  const typescript = ['--input-type=module-typescript', '-e', TypeScript];
  expect(await output(process.execPath, typescript)).toContain(member || 'order');
});

async function openMarket(): Promise<Market['market']> {
  const { markets } = await stage.get<Markets>('/v2/markets?limit=1');
  return (markets[0] as Markets['markets'][number]).market;
}

test('a list is downloaded as CSV, with the entries that are shown', async () => {
  const watched = await stage.at('/leaderboard?time_frame=30D');
  const { page } = watched;
  await page.locator('tbody tr').first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'CSV' }).click(),
  ]);
  expect(download.suggestedFilename()).toBe('leaderboard.csv');
  const lines = readFileSync(await download.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
  const { traders } = watched.answer<Leaderboard>('/v2/analytics/leaderboard');
  expect(lines).toHaveLength(traders.length + 1);
  expect(lines[1]).toContain(traders[0]?.profile.address);
});
