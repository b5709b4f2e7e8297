/**
 * `npm run dev`: `npm start`, restarted on the same data whenever a source file changes. On Linux, Node's --watch-path
 * loses track of files that an editor or git replaces, so this uses one watcher per directory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const SOURCES = ['ingest', 'projector', 'api', 'sql', 'infra', 'apps'];
/** Editors and git change several files at once. */
const SETTLE_MS = 200;

process.chdir(join(import.meta.dirname, '..'));
let service: ChildProcess | undefined;
let isStopping = false;
const isRunning = () => service?.exitCode === null && service.signalCode === null;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, async () => {
    await stop();
    process.exit();
  });
}

for (;;) {
  const changed = nextChange();
  // With IPC, so that the service also stops when this process is killed.
  service = spawn(process.execPath, ['local/up.mjs', ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  service.once('exit', (code) => {
    // It printed its help, or refused its arguments. After a crash, the next change starts it again.
    if (!isStopping && (code === 0 || code === 2)) process.exit(code);
  });
  const file = await changed;
  process.stderr.write(`${file} changed, restarting\n`);
  await stop();
}

async function stop(): Promise<void> {
  if (service === undefined || !isRunning()) return;
  isStopping = true;
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
  isStopping = false;
}

/** Resolves with the next source file that changes, once the change is complete. */
async function nextChange(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const watchers = SOURCES.flatMap(directories).map((directory) =>
    watch(directory, (_event, name) => {
      // Ignores hidden files and backups of editors.
      if (name !== null && /^\w.*\w$/.test(name)) resolve(join(directory, name));
    }),
  );
  const file = await promise;
  await delay(SETTLE_MS);
  for (const watcher of watchers) watcher.close();
  return file;
}

function directories(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  const inside = entries.filter((entry) => entry.isDirectory());
  return [root, ...inside.map(({ parentPath, name }) => join(parentPath, name))];
}
