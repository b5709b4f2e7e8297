// The Python samples of the OpenAPI document run against the server.
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OpenApi } from '../../api/openapi.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';

const isHere = spawnSync('python3', ['--version']).status === 0;
if (!isHere) console.info('skipped: there is no python3 on PATH');

describe.skipIf(!isHere)('the document', () => {
  let seeded: Awaited<ReturnType<typeof startSeeded>>;
  let url: string;
  let document: OpenApi;

  beforeAll(async () => {
    seeded = await startSeeded();
    url = seeded.api.url;
    document = (await get(`${url}/openapi.json`, undefined)).body;
  });

  afterAll(() => seeded?.stop());

  test('shows Python that the server takes', async () => {
    const sources = Object.values(document.paths)
      .flatMap((item) => Object.values(item))
      .filter(({ responses }) => !responses[200]?.content?.['text/event-stream'])
      .map(({ operationId, 'x-codeSamples': samples = [] }) => {
        const python = samples.find(({ lang }) => lang === 'python')?.source ?? 'nothing is shown';
        const own = python.replaceAll('https://api.example.com', url);
        return [operationId, own.replaceAll('fs_pro_…', seeded.key)];
      });
    const program = `
import contextlib, io, json, sys, urllib.error
from fillstream import Problem
for name, source in json.load(sys.stdin):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(source, {})
    except (Problem, urllib.error.HTTPError) as error:
        # What it names does not exist here.
        if error.status != 404:
            print(name, error, source)`;
    const child = spawn('python3', ['-c', program], {
      cwd: join(import.meta.dirname, '../../examples/python'),
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    });
    child.stdin.end(JSON.stringify(sources));
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(output + errors).toBe('');
  });
});
