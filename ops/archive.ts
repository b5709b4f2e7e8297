/** `npm run export` and `npm run import`: copy LEDGER to the archive and back, and trim what is archived. */
import { z } from 'zod';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { runCommand } from '../infra/command.ts';
import { NatsConfig, readConfig } from '../infra/config.ts';
import { ExpectedError, UsageError } from '../infra/expected.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import { type Kv, openKv } from '../infra/nats/kv.ts';
import { removeUpTo } from '../infra/nats/streams.ts';
import { count, createProgress, report } from '../infra/progress.ts';
import { Archive, type ArchivedMessage, ArchiveError, monthOf } from '../ingest/ledger/archive.ts';
import {
  type Block,
  encodeJson,
  LEDGER_STREAM,
  lastBlock,
  messageAt,
  newestMessage,
  oldestBlocks,
  storedMessages,
} from '../ingest/ledger/ledger.ts';
import { LedgerWriter, refuseHalfRewound } from '../ingest/ledger/ledger-writer.ts';
import { rememberTrim, wasTrimmed } from '../ingest/ledger/whole-ledger.ts';
import { createStreams, FEED_START_KEY, INGEST_BUCKET } from '../ingest/streams.ts';

const HELP = `The archive of LEDGER: a Parquet file for each calendar month (UTC), with counts and hashes in manifest.json.

  npm run export -- --to DIR [--all] [--trim MONTHS]
      Adds the months that are complete and not in DIR yet. You can interrupt it and run it again at any time.
      --all     also writes the current month so far; a later export writes it again
      --trim    then verifies the archive and removes the archived messages from LEDGER, except those of the
                newest MONTHS months (2 or more, including the current one). From then on, the projector and
                npm run rebuild need LEDGER_ARCHIVE=DIR to read from the beginning.

  npm run export -- --to DIR --verify
      Only reads the archive again: hashes, links between blocks, counts.

  npm run import -- --from DIR
      Checks the archive and appends the messages that LEDGER lacks. LEDGER must be empty, or end within
      the archive, and ingest must not run. You can interrupt it and run it again.

Example: npm run export -- --to /archive/ledger --trim 6

Both use NATS_URL and NATS_REPLICAS like the processes (npm start shows the URL of its own server).
Exit codes: 0 done, 1 failed or refused, 2 wrong command line.`;

type Parts = {
  readonly nats: Nats;
  readonly kv: Kv;
  readonly archive: Archive;
  readonly signal: AbortSignal;
};

const Months = z
  .string()
  .regex(/^\d{1,4}$/)
  .transform(Number)
  .pipe(z.int().min(2));

const stop = new AbortController();
process.once('SIGINT', () => stop.abort());
process.once('SIGTERM', () => stop.abort());
await runCommand('archive', () => main(stop.signal));

async function main(signal: AbortSignal): Promise<undefined> {
  const given = readCommand();
  try {
    if (given === undefined) console.log(HELP);
    else await run(given, signal);
  } catch (error) {
    throw signal.aborted ? new ExpectedError('stopped; run it again to continue') : error;
  }
}

async function run(given: Given, signal: AbortSignal): Promise<void> {
  const { command, directory, all, verify, keepMonths } = given;
  if (verify) {
    const archive = await Archive.open(directory);
    await readAgain(archive, archive.end?.number ?? -1, signal);
    return;
  }
  const config = readConfig(NatsConfig);
  const nats = await connectNats({ ...natsOptions(config), name: command, isPatient: false });
  try {
    const kv = await openKv(nats, INGEST_BUCKET, { replicas: config.NATS_REPLICAS });
    await refuseHalfRewound(kv);
    if (command === 'import') {
      await createStreams(nats, config.NATS_REPLICAS);
      await importAll({ nats, kv, signal, archive: await Archive.open(directory) });
      return;
    }
    const parts = { nats, kv, signal, archive: await Archive.openToWrite(directory) };
    await exportNew(parts, all);
    if (keepMonths !== undefined) await trim(parts, keepMonths);
  } finally {
    await nats.close();
  }
}

/** Adds complete months, and with `all` the current one. */
async function exportNew(parts: Parts, all: boolean): Promise<void> {
  const { archive } = parts;
  const newest = await newestMessage(parts.nats);
  const last = newest?.range.kind === 'blocks' ? lastBlock(newest.range) : undefined;
  const isNew =
    (last?.number ?? -1) > (archive.completeTo?.number ?? -1) &&
    last?.number !== archive.end?.number;
  if (newest !== undefined && last !== undefined && isNew) {
    await exportUpTo(parts, { sequence: newest.sequence, last }, all);
  }
  const end = archive.end?.number;
  report(
    { event: 'done' },
    end === undefined ? 'no month is complete yet' : `the archive ends with block ${end}`,
  );
}

async function exportUpTo(
  parts: Parts,
  { sequence, last }: { readonly sequence: number; readonly last: Block },
  all: boolean,
): Promise<void> {
  const { nats, archive, signal } = parts;
  const current = monthOf(last);
  let month = archive.beginMonth();
  const add = async () => {
    const { file, messages, fills, bytes } = await archive.add(month, month.month !== current);
    const counts = `${count(messages)} messages, ${count(fills)} fills, ${count(bytes)} bytes`;
    report({ event: 'archived', file }, `${file}: ${counts}`);
    month = archive.beginMonth();
  };
  const start = await startAfterArchive(parts);
  const progress = createProgress(last.number - start.after);
  for await (const message of storedMessages(nats, start)) {
    signal.throwIfAborted();
    const { range } = message;
    const isCurrent = range.kind === 'blocks' && monthOf(lastBlock(range)) >= current;
    if (message.sequence > sequence || (isCurrent && !all)) break;
    if (!month.add(message)) {
      await add();
      month.add(message);
    }
    if (range.to > start.after) progress(range.to - start.after);
  }
  if (month.month !== undefined) await add();
}

/** Where LEDGER continues the complete months of the archive. Throws ArchiveError if it does not. */
async function startAfterArchive({
  nats,
  kv,
  archive,
}: Parts): Promise<{ readonly sequence: number; readonly after: number }> {
  const end = archive.completeTo;
  const oldest = await oldestBlocks(nats);
  if (end === undefined) {
    const first = oldest?.range.from ?? 0;
    if (!(await wasTrimmed(kv, first))) return { sequence: 1, after: first - 1 };
    throw new ArchiveError(
      `${archive.directory} is empty, but LEDGER begins with block ${first}, because the blocks before it are archived: continue that archive`,
    );
  }
  const after = end.number;
  const held = await messageAt(nats, after);
  const block = held?.range.blocks.at(-1);
  if (held !== undefined && block?.number === after && block.hash === end.hash) {
    return { sequence: held.sequence + 1, after };
  }
  if (held === undefined && oldest !== undefined && oldest.range.parentHash === end.hash) {
    return { sequence: oldest.sequence, after };
  }
  const file = archive.files.find(({ to }) => to === after);
  throw new ArchiveError(
    `${file === undefined ? archive.directory : archive.pathOf(file)} ends with block ${after}, ${end.hash}, and LEDGER does not continue there`,
  );
}

/** Reads the archive up to a block. Throws ArchiveError. */
async function readAgain(archive: Archive, to: number, signal: AbortSignal): Promise<void> {
  const from = (archive.files[0]?.from ?? 0) - 1;
  const progress = createProgress(to - from);
  for await (const { range } of archive.messages()) {
    signal.throwIfAborted();
    if (range.to > from) progress(range.to - from);
    if (range.to === to) break;
  }
  report({ event: 'verified' }, `the archive is intact up to block ${to}`);
}

/** Removes archived messages from LEDGER, except those of the newest months. */
async function trim({ nats, kv, archive, signal }: Parts, keepMonths: number): Promise<void> {
  const newest = (await newestMessage(nats))?.range;
  const oldest = await oldestBlocks(nats);
  if (newest?.kind !== 'blocks' || oldest === undefined) return;
  const kept = monthBefore(monthOf(lastBlock(newest)), keepMonths - 1);
  const file = archive.files.findLast((one) => one.complete && one.month < kept);
  if (file === undefined || file.to < oldest.range.from) {
    report(
      { event: 'trimmed' },
      `LEDGER begins with block ${oldest.range.from}: nothing to remove`,
    );
    return;
  }
  const message = await messageAt(nats, file.to);
  const block = message?.range.blocks.at(-1);
  if (message === undefined || block?.number !== file.to || block.hash !== file.lastHash) {
    throw new ArchiveError(`${archive.pathOf(file)} ends with a block that LEDGER does not hold`);
  }
  await readAgain(archive, file.to, signal);
  await rememberTrim(kv, file.to);
  await removeUpTo(nats, LEDGER_STREAM, message.sequence);
  report({ event: 'trimmed' }, `LEDGER begins after block ${file.to}`);
}

/** The calendar month `months` months earlier. */
function monthBefore(month: string, months: number): string {
  const date = new Date(`${month}-01T00:00:00Z`);
  date.setUTCMonth(date.getUTCMonth() - months);
  return date.toISOString().slice(0, 7);
}

/** Appends the messages that LEDGER lacks. */
async function importAll({ nats, kv, archive, signal }: Parts): Promise<void> {
  // Verifies the whole archive first, so that nothing is stored from a damaged one.
  await readAgain(archive, archive.end?.number ?? -1, signal);
  const writer = await LedgerWriter.open(nats);
  try {
    const after = await meetingPoint(nats, archive);
    if ((await newestMessage(nats)) === undefined) await kv.delete(FEED_START_KEY);
    const to = archive.end?.number ?? after;
    const from = Math.max(after, (archive.files[0]?.from ?? 0) - 1);
    const progress = createProgress(to - from);
    for await (const { range, json } of archive.messages(after)) {
      signal.throwIfAborted();
      await writer.store(range.to, encodeJson(json, range.blocks));
      if (range.to <= from) continue;
      if (process.connected) process.send?.({ event: 'imported', block: range.to });
      progress(range.to - from);
    }
    const begin = (await oldestBlocks(nats))?.range.from;
    const text = `LEDGER contains the archived blocks from ${begin} to ${to}`;
    report({ event: 'done' }, text);
  } finally {
    writer.close();
  }
}

/** The block up to which LEDGER holds the archive; −1 if it is empty. Throws ArchiveError if they differ. */
async function meetingPoint(nats: Nats, archive: Archive): Promise<number> {
  const newest = await newestMessage(nats);
  const end = archive.end?.number;
  if (newest === undefined || end === undefined) return -1;
  const held = newest.range.to <= end ? newest : await messageAt(nats, end);
  if (held === undefined) {
    throw new ArchiveError(
      `LEDGER begins after block ${end}, the end of the archive, and is in chain order: import into an empty LEDGER`,
    );
  }
  const { to } = held.range;
  const archived = await firstOf(archive.messages(to - 1));
  const begin = (await oldestBlocks(nats))?.range.from ?? 0;
  if (archived?.json === held.json && to >= end && begin > (archive.files[0]?.from ?? 0)) {
    throw new ArchiveError(
      `LEDGER holds the end of the archive, but begins with block ${begin} and is in chain order, so earlier blocks cannot be inserted: export the rest with --all, empty LEDGER (nats stream purge LEDGER) and import everything`,
    );
  }
  if (archived?.json === held.json) return to;
  const file = archive.files.find((one) => one.to >= to);
  throw new ArchiveError(
    `${file === undefined ? archive.directory : archive.pathOf(file)} and LEDGER have different messages up to block ${to}: the archive belongs to another LEDGER`,
  );
}

async function firstOf(
  messages: AsyncIterable<ArchivedMessage>,
): Promise<ArchivedMessage | undefined> {
  for await (const message of messages) return message;
  return undefined;
}

type Given = NonNullable<ReturnType<typeof readCommand>>;

/** Returns the command; undefined if the user requested the help. */
function readCommand() {
  const { positionals, values } = readArguments(
    {
      allowPositionals: true,
      options: { to: text, from: text, trim: text, all: flag, verify: flag, help: flag },
    },
    HELP,
  );
  if (values.help === true) return undefined;
  const [command, ...more] = positionals;
  const { all = false, verify = false, trim: months } = values;
  const isKnown = command === 'export' || command === 'import';
  const directory = command === 'export' ? values.to : values.from;
  if (!isKnown || directory === undefined || more.length > 0) {
    throw new UsageError('expected a command and its directory', HELP);
  }
  if (verify && (all || months !== undefined))
    throw new UsageError('--verify cannot be combined with --all or --trim');
  if (command === 'import' && (all || verify || months !== undefined || values.to !== undefined)) {
    throw new UsageError('import accepts only --from');
  }
  const keepMonths = Months.optional().safeParse(months);
  if (!keepMonths.success) throw new UsageError('--trim: a number of months, 2 or more');
  return { command, directory, all, verify, keepMonths: keepMonths.data };
}
