/**
 * Compiles the devnet's contracts to `artifacts.json`, which is committed so that no compiler is needed at startup. The
 * output is reproducible: no metadata hash, sorted keys, a pinned compiler. Update it with
 * `node local/devnet/compile.ts`; a unit test compares it.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

type Artifact = { readonly abi: readonly unknown[]; readonly bytecode: `0x${string}` };
type Artifacts = Readonly<Record<string, Artifact>>;

type SolcOutput = {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[];
  readonly contracts?: Readonly<
    Record<
      string,
      Record<string, { abi: readonly unknown[]; evm: { bytecode: { object: string } } }>
    >
  >;
};

/** Parts of other contracts, which are not deployed. */
const PARTS = new Set([
  ...['PositionIds', 'Token', 'Adapter', 'OutcomeTokenFactory'],
  ...['Ids', 'Module', 'ResultModule'],
]);
const CONTRACTS_DIRECTORY = new URL('./contracts/', import.meta.url);
const ARTIFACTS_FILE = new URL('./artifacts.json', import.meta.url);

/** Compiles every file of `contracts/`. Throws the compiler's messages if there are errors. */
export function compileContracts(): Artifacts {
  const files = readdirSync(CONTRACTS_DIRECTORY)
    .filter((name) => name.endsWith('.sol'))
    .sort();
  const sources = Object.fromEntries(
    files.map((name) => [
      name,
      { content: readFileSync(new URL(name, CONTRACTS_DIRECTORY), 'utf8') },
    ]),
  );
  const output = runSolc(sources);
  const failures = (output.errors ?? []).filter((error) => error.severity === 'error');
  if (failures.length > 0) {
    throw new Error(failures.map((error) => error.formattedMessage).join('\n'));
  }
  const artifacts: [string, Artifact][] = [];
  for (const file of files) {
    for (const [name, contract] of Object.entries(output.contracts?.[file] ?? {})) {
      if (PARTS.has(name)) continue;
      artifacts.push([name, { abi: contract.abi, bytecode: `0x${contract.evm.bytecode.object}` }]);
    }
  }
  return Object.fromEntries(artifacts.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The committed text of the artifacts: two spaces, keys sorted, one newline at the end. */
export function formatArtifacts(artifacts: Artifacts): string {
  return `${JSON.stringify(sortKeys(artifacts), null, 2)}\n`;
}

function runSolc(sources: Readonly<Record<string, { readonly content: string }>>): SolcOutput {
  const solc = createRequire(import.meta.url)('solc') as { compile(input: string): string };
  const input = {
    language: 'Solidity',
    sources,
    settings: {
      evmVersion: 'cancun',
      viaIR: true,
      optimizer: { enabled: true, runs: 10_000 },
      metadata: { appendCBOR: false, bytecodeHash: 'none' },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  return JSON.parse(solc.compile(JSON.stringify(input))) as SolcOutput;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sortKeys(inner)]),
  );
}

if (import.meta.main) writeFileSync(ARTIFACTS_FILE, formatArtifacts(compileContracts()));
