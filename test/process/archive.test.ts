/** The archive of LEDGER on a real server: export, import, kills, damage, and a LEDGER that was trimmed. */
import { copyFile, cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import {
  type Block,
  decodeRange,
  emptyBlock,
  encodeRange,
  eventsOf,
  LEDGER_STREAM,
  messageAt,
  VERSION_HEADER,
} from '../../ingest/ledger/ledger.ts';
import { LedgerWriter } from '../../ingest/ledger/ledger-writer.ts';
import { rememberTrim, WholeLedger } from '../../ingest/ledger/whole-ledger.ts';
import { ensureStreams, INGEST_BUCKET } from '../../ingest/streams.ts';
import { Engine } from '../../local/clickhouse/engine.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import {
  blockHash,
  blocksOf,
  ledgerEvents,
  MATCHES_PER_BLOCK,
  withMovements,
} from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { start, temporaryDirectory } from '../support/service.ts';

const seconds = (time: string) => Date.parse(time) / 1_000;
const FIRST_BLOCK = 1_001;
const BLOCKS: readonly Block[] = [
  ...blocksOf(
    withMovements(
      ledgerEvents({
        seed: 7,
        traders: 300,
        markets: 40,
        from: seconds('2026-07-20T00:00:00Z'),
        to: seconds('2026-12-03T00:00:00Z'),
        firstMatch: (FIRST_BLOCK - 1) * MATCHES_PER_BLOCK,
        matches: 8_000,
        matchesPerMarket: 900,
      }),
    ),
    { coversMovements: true },
  ),
];
const monthOf = ({ time }: Block) => new Date(time * 1_000).toISOString().slice(0, 7);
const untilMonth = (month: string) => BLOCKS.filter((block) => monthOf(block) <= month);
const fillsOf = (blocks: readonly Block[]) =>
  eventsOf('matches', blocks).reduce((sum, { fills }) => sum + fills.length, 0);
const lastOf = (blocks: readonly Block[]) => blocks.at(-1)?.number ?? 0;

const directory = temporaryDirectory();
let server: Awaited<ReturnType<typeof startNatsServer>>;
let nats: Nats;
let archives = 0;

beforeAll(async () => {
  server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  nats = await connectNats({ url: server.url, name: 'test' });
  await ensureStreams(nats, 1);
});

afterAll(async () => {
  await nats?.close();
  await server?.stop();
  directory.remove();
});

beforeEach(empty);

/** Resets LEDGER to a state in which nothing was stored or trimmed. */
async function empty(): Promise<void> {
  await nats.jsm.streams.purge(LEDGER_STREAM);
  await (await openKv(nats, INGEST_BUCKET)).delete('trimmed_to');
}

/** Earlier resolutions, then blocks. */
async function fill(blocks: readonly Block[], blocksPerMessage = 4): Promise<void> {
  const writer = await LedgerWriter.open(nats);
  const resolutions = eventsOf('resolutions', BLOCKS);
  for (const [i, to] of [100, FIRST_BLOCK - 1].entries()) {
    const block = { ...emptyBlock({ number: to, hash: blockHash(to), time: 1_700_000_000 }) };
    const blocks = [{ ...block, events: resolutions.slice(i, i + 1) }];
    await writer.store(to, encodeRange({ kind: 'earlier-resolutions', from: to, to, blocks }));
  }
  writer.close();
  await publish(blocks, blocksPerMessage);
}

async function publish(blocks: readonly Block[], blocksPerMessage = 4): Promise<void> {
  const ledger = await TestLedger.open(nats);
  for (let i = 0; i < blocks.length; i += blocksPerMessage) {
    await ledger.publish(blocks.slice(i, i + blocksPerMessage));
  }
  ledger.close();
}

/** Every message of LEDGER as the server stores it, without the header that only the writer uses. */
async function stored() {
  const messages: unknown[] = [];
  for await (const one of storedSince(nats, LEDGER_STREAM, { sequence: 1 })) {
    const { subject, data } = one;
    const version = one.header(VERSION_HEADER);
    messages.push({ subject, version, data: Buffer.from(data).toString('base64') });
  }
  return messages;
}

function newDirectory(): string {
  archives += 1;
  return join(directory.path, `archive-${archives}`);
}

function begin(command: 'export' | 'import', to: string, ...args: string[]) {
  const option = command === 'export' ? '--to' : '--from';
  const all = [command, option, to, ...args];
  return start('ops/archive.ts', all, { NATS_URL: server.url });
}

async function run(command: 'export' | 'import', to: string, ...args: string[]) {
  const child = begin(command, to, ...args);
  expect(await child.exit, child.errors()).toBe(0);
  return child.lines;
}

/** The output of a command that is rejected. */
async function refused(command: 'export' | 'import', to: string, ...args: string[]) {
  const child = begin(command, to, ...args);
  expect(await child.exit, child.errors()).toBe(1);
  return child.errors();
}

type Listed = Readonly<Record<string, string | number | boolean>>;

async function filesOf(archive: string): Promise<readonly Listed[]> {
  return JSON.parse(await readFile(join(archive, 'manifest.json'), 'utf8')).files;
}

/** The last blocks of all messages that a reader from the beginning gets. */
async function readAll(archive?: string): Promise<readonly number[]> {
  const ledger = await WholeLedger.open(nats, { LEDGER_ARCHIVE: archive, NATS_REPLICAS: 1 });
  const { archived, fromSequence } = await ledger.from();
  const ends: number[] = [];
  for await (const range of archived) ends.push(range.to);
  for await (const one of storedSince(nats, LEDGER_STREAM, { sequence: fromSequence })) {
    ends.push(decodeRange(one).to);
  }
  return ends;
}

describe('npm run export', () => {
  test('writes each complete month once, and later adds the new ones', async () => {
    const archive = newDirectory();
    await fill(untilMonth('2026-10').slice(0, -40));
    await run('export', archive);
    const first = await filesOf(archive);
    expect(first.map(({ month }) => month)).toEqual(['2026-07', '2026-08', '2026-09']);
    expect(await run('export', archive)).toEqual([expect.objectContaining({ event: 'done' })]);
    expect(await filesOf(archive)).toEqual(first);

    await publish(
      untilMonth('2026-11').filter(
        ({ number }) => number > lastOf(untilMonth('2026-10').slice(0, -40)),
      ),
    );
    await run('export', archive);
    const second = await filesOf(archive);
    expect(second.slice(0, 3)).toEqual(first);
    expect(second.map(({ month }) => month)).toEqual([
      ...first.map(({ month }) => month),
      '2026-10',
    ]);
    expect(second.reduce((sum, { fills }) => sum + Number(fills), 0)).toBe(
      fillsOf(BLOCKS.filter(({ number }) => number <= Number(second.at(-1)?.to))),
    );
    expect((await readdir(archive)).sort()).toEqual(
      ['manifest.json', ...second.map(({ file }) => String(file))].sort(),
    );
  });

  test('--all also writes the current month, and rewrites it when it has grown', async () => {
    const archive = newDirectory();
    const some = untilMonth('2026-09').slice(0, -20);
    await fill(some);
    await run('export', archive, '--all');
    const before = await filesOf(archive);
    expect(before.at(-1)).toMatchObject({ month: '2026-09', complete: false, to: lastOf(some) });
    await publish(untilMonth('2026-10').filter(({ number }) => number > lastOf(some)));
    await run('export', archive, '--all');
    const after = await filesOf(archive);
    expect(after.map(({ month, complete }) => [month, complete])).toEqual([
      ['2026-07', true],
      ['2026-08', true],
      ['2026-09', true],
      ['2026-10', false],
    ]);
    expect(await readdir(archive)).not.toContain(before.at(-1)?.file);
    await run('export', archive, '--verify');
  });

  test('ClickHouse reads the files', async () => {
    const archive = newDirectory();
    await fill(untilMonth('2026-09'));
    await run('export', archive, '--all');
    const engine = await Engine.open(join(directory.path, 'engine'));
    const { body } = await engine.run({
      statement: `SELECT sum(fills), sum(resolutions), min(from_block), max(to_block),
          arraySum(arrayMap(match -> length(JSONExtractArrayRaw(match, 'fills')),
            arrayFlatten(groupArray(arrayFlatten(arrayMap(block -> JSONExtractArrayRaw(block, 'matches'),
              JSONExtractArrayRaw(body, 'blocks')))))))
        FROM file('${archive}/*.parquet', Parquet)`,
      settings: new Map(),
      database: undefined,
      format: 'CSV',
      mark: 'test',
    });
    expect(await engine.close(10_000)).toBe('closed');
    const blocks = untilMonth('2026-09');
    const resolutions = eventsOf('resolutions', blocks).length + 2;
    const fills = fillsOf(blocks);
    expect(body.toString().trim()).toBe(`${fills},${resolutions},100,${lastOf(blocks)},${fills}`);
  });

  test('continues after a kill and makes the same archive', async () => {
    const [whole, archive] = [newDirectory(), newDirectory()];
    // Enough messages that the kill comes before the last month.
    await fill(BLOCKS, 1);
    await run('export', whole, '--all');
    const killed = begin('export', archive, '--all');
    await killed.event('archived');
    killed.kill('SIGKILL');
    await killed.exit;
    expect((await filesOf(archive)).length).toBeLessThan((await filesOf(whole)).length);
    await run('export', archive, '--all');
    expect(await filesOf(archive)).toEqual(await filesOf(whole));
    expect((await readdir(archive)).sort()).toEqual((await readdir(whole)).sort());
  });

  test('refuses an archive of another LEDGER', async () => {
    const archive = newDirectory();
    await fill(untilMonth('2026-08'));
    await run('export', archive);
    const [file] = await filesOf(archive);
    await nats.jsm.streams.purge(LEDGER_STREAM);
    await publish(
      BLOCKS.slice(3).map((block) => ({ ...block, hash: blockHash(block.number * 2) })),
    );
    expect(await refused('export', archive)).toContain(
      `${file?.file} ends with block ${file?.to}, ${file?.lastHash}, and LEDGER does not continue there`,
    );
  });
});

describe('npm run import', () => {
  test('restores LEDGER byte for byte, and appends what a shorter one lacks', async () => {
    const archive = newDirectory();
    await fill(BLOCKS);
    const before = await stored();
    await run('export', archive, '--all');
    await nats.jsm.streams.purge(LEDGER_STREAM);
    await run('import', archive);
    expect(await stored()).toEqual(before);
    await run('import', archive);
    expect(await stored()).toEqual(before);

    await nats.jsm.streams.purge(LEDGER_STREAM);
    await fill(BLOCKS.slice(0, 400));
    await run('import', archive);
    expect(await stored()).toEqual(before);
  });

  test('continues after a kill', async () => {
    const archive = newDirectory();
    // More messages than can be imported before the kill arrives.
    await fill(BLOCKS, 1);
    const before = await stored();
    await run('export', archive, '--all');
    await nats.jsm.streams.purge(LEDGER_STREAM);
    const killed = begin('import', archive);
    await killed.event('imported');
    killed.kill('SIGKILL');
    await killed.exit;
    const held = await stored();
    expect(held.length).toBeGreaterThan(0);
    expect(held.length).toBeLessThan(before.length);
    await run('import', archive);
    expect(await stored()).toEqual(before);
  });

  test('refuses an archive that LEDGER does not continue, and changes nothing', async () => {
    const archive = newDirectory();
    await fill(untilMonth('2026-09'));
    await run('export', archive, '--all');
    await nats.jsm.streams.purge(LEDGER_STREAM);
    const others = BLOCKS.slice(0, 40).map((block) => ({
      ...block,
      hash: blockHash(block.number * 2),
    }));
    await fill(others);
    const before = await stored();
    const [file] = await filesOf(archive);
    expect(await refused('import', archive)).toContain(
      `${file?.file} and LEDGER have different messages up to block ${lastOf(others)}`,
    );
    expect(await stored()).toEqual(before);
  });
});

describe('a damaged archive', () => {
  const intact = newDirectory();
  let files: readonly Listed[];

  beforeAll(async () => {
    // An earlier test has left its LEDGER.
    await empty();
    await fill(untilMonth('2026-09'));
    await run('export', intact, '--all');
    files = await filesOf(intact);
  });

  async function expectRefused(damage: (copy: string) => Promise<void>, reason: string) {
    const copy = newDirectory();
    await cp(intact, copy, { recursive: true });
    await damage(copy);
    expect(await refused('import', copy)).toContain(reason);
    await expect(readAll(copy)).rejects.toThrow(reason);
    expect(await stored()).toEqual([]);
  }

  test('is not replaced by an export if its manifest is missing', async () => {
    const copy = newDirectory();
    await cp(intact, copy, { recursive: true });
    await rm(join(copy, 'manifest.json'));
    const before = await readdir(copy);
    expect(await refused('export', copy, '--all')).toContain('but no manifest.json: restore it');
    expect(await readdir(copy)).toEqual(before);
  });

  test('keeps its months if an older manifest does not list them', async () => {
    const copy = newDirectory();
    await cp(intact, copy, { recursive: true });
    await list(copy, files.slice(0, 1));
    const before = await readdir(copy);
    await run('export', copy);
    expect(await readdir(copy)).toEqual(before);
  });

  test('is refused with the name of the file: altered byte, missing file, missing month', async () => {
    const name = String(files[1]?.file);
    await expectRefused(async (copy) => {
      const bytes = await readFile(join(copy, name));
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      await writeFile(join(copy, name), bytes);
    }, `${name} was altered`);
    await expectRefused((copy) => rm(join(copy, name)), `${name} cannot be read`);
    await expectRefused(
      (copy) =>
        list(
          copy,
          files.filter(({ file }) => file !== name),
        ),
      `${files[2]?.file} begins with block ${files[2]?.from}`,
    );
    await expectRefused((copy) => rm(join(copy, 'manifest.json')), 'manifest.json cannot be read');
  });

  test('is refused if the blocks of a file differ from the manifest', async () => {
    const [first, second] = files;
    const wrongHash = blockHash(1);
    await expectRefused(
      (copy) => list(copy, [{ ...first, parentHash: wrongHash }, ...files.slice(1)]),
      `${first?.file} begins with block ${first?.from}`,
    );
    await expectRefused(
      (copy) => list(copy, [{ ...first, fills: 1 }, ...files.slice(1)]),
      `${first?.file} holds other blocks or counts`,
    );
    await expectRefused(async (copy) => {
      await copyFile(join(copy, String(second?.file)), join(copy, String(first?.file)));
      const { sha256 = '' } = second ?? {};
      await list(copy, [{ ...first, sha256 }, ...files.slice(1)]);
    }, `${first?.file} begins with block ${second?.from}`);
  });

  async function list(copy: string, listed: readonly (Listed | undefined)[]): Promise<void> {
    await writeFile(join(copy, 'manifest.json'), JSON.stringify({ version: 1, files: listed }));
  }
});

describe('npm run export -- --trim', () => {
  test('removes the archived months from LEDGER, and readers still get everything', async () => {
    const archive = newDirectory();
    const first = untilMonth('2026-11');
    await fill(first);
    const before = await readAll();
    await run('export', archive, '--trim', '2');
    const files = await filesOf(archive);
    const kept = files.find(({ month }) => month === '2026-10');
    const begin = Number(kept?.from);
    expect((await messageAt(nats, begin))?.range.from).toBe(begin);
    for (const block of [0, FIRST_BLOCK, begin - 1]) {
      expect(await messageAt(nats, block)).toBeUndefined();
    }
    expect(await readAll(archive)).toEqual(before);
    const ledger = await WholeLedger.open(nats, { LEDGER_ARCHIVE: archive, NATS_REPLICAS: 1 });
    expect(await ledger.firstBlock()).toBe(FIRST_BLOCK);
    for (const block of first.filter((_, i) => i % 97 === 0)) {
      expect((await ledger.messageAt(block.number))?.blocks).toContainEqual(block);
    }

    const alone = await WholeLedger.open(nats, { NATS_REPLICAS: 1 });
    const reason = `LEDGER begins with block ${begin}, because the blocks before it are archived: set LEDGER_ARCHIVE`;
    await expect(alone.from()).rejects.toThrow(reason);
    await expect(alone.firstBlock()).rejects.toThrow(reason);
    await expect(alone.messageAt(FIRST_BLOCK)).rejects.toThrow(reason);
    expect(await refused('export', newDirectory())).toContain('continue that archive');

    await publish(BLOCKS.slice(first.length));
    await run('export', archive, '--trim', '2');
    expect((await filesOf(archive)).slice(0, files.length)).toEqual(files);
    expect((await readAll(archive)).at(-1)).toBe(lastOf(BLOCKS));
    expect(await refused('import', archive)).toContain('export the rest with --all, empty LEDGER');

    // As after another trim that was killed before it removed anything.
    await rememberTrim(await openKv(nats, INGEST_BUCKET), lastOf(BLOCKS));
    await expect(alone.from()).rejects.toThrow('set LEDGER_ARCHIVE');
    expect(await refused('export', newDirectory())).toContain('continue that archive');
  });

  test('a LEDGER that begins after the end of the archive is refused', async () => {
    const [archive, short] = [newDirectory(), newDirectory()];
    await fill(untilMonth('2026-08'));
    await run('export', short);
    await publish(BLOCKS.filter(({ number }) => number > lastOf(untilMonth('2026-08'))));
    await run('export', archive, '--trim', '2');
    await expect(readAll(short)).rejects.toThrow(`${short} holds the blocks ${FIRST_BLOCK} to `);
    expect(await refused('export', short)).toContain('LEDGER does not continue there');
    expect(await refused('import', short)).toContain('import into an empty LEDGER');
  });
});
