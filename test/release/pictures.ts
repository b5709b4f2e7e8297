/**
 * `npm run pictures`: records six seconds of the tape of a devnet, for the README, in `.cache/screenshots/tape.png`.
 * The tests of the page save all other pictures there.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { launch, open, SCREENSHOTS } from '../page/browser.ts';
import { startService, temporaryDirectory } from '../support/service.ts';
import { animated } from './animation.ts';

const ARGS = ['--history-days', '4', '--demo-rate', '8'];
const VIEWPORT = { width: 1_100, height: 700 };
const ROWS_PIXELS = 330;
const FRAMES = 12;
const FRAME_MS = 500;

const directory = temporaryDirectory();
const { up, ready } = await startService(`${directory.path}/data`, { args: ARGS });
const browser = await launch();
const { page } = await open(browser, ready.url, {
  key: ready.key,
  path: '/tape?min_usdc=1000',
  viewport: VIEWPORT,
  reducedMotion: 'no-preference',
});
await page.locator('tr[data-cursor]').nth(12).waitFor();
const box = await page.locator('.tape').boundingBox();
if (box === null) throw new Error('the tape is not shown');
const frames: Buffer[] = [];
for (let n = 0; n < FRAMES; n++) {
  frames.push(await page.screenshot({ clip: { ...box, height: ROWS_PIXELS } }));
  await delay(FRAME_MS);
}
const picture = animated(frames, FRAME_MS);
// A browser must be able to play the published file.
const played = await page.evaluate(`(async () => {
  const decoder = new ImageDecoder({
    data: Uint8Array.fromBase64('${picture.toString('base64')}'),
    type: 'image/png',
  });
  await Promise.all([decoder.completed, decoder.tracks.ready]);
  const count = decoder.tracks.selectedTrack.frameCount;
  for (let frameIndex = 0; frameIndex < count; frameIndex++) await decoder.decode({ frameIndex });
  return count;
})()`);
if (played !== FRAMES) throw new Error(`${played} of ${FRAMES} pictures can be played`);
mkdirSync(SCREENSHOTS, { recursive: true });
writeFileSync(join(SCREENSHOTS, 'tape.png'), picture);
await browser.close();
await up.stop();
directory.remove();
