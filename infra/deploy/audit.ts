/**
 * `npm audit` of the production dependencies, part of `npm run check`. Fails on a known vulnerability of high or
 * critical severity, and if the registry is unavailable; with AUDIT=optional, the latter is only a warning.
 */
import { spawnSync } from 'node:child_process';
import { z } from 'zod';

const Report = z.object({
  metadata: z.object({ vulnerabilities: z.object({ high: z.int(), critical: z.int() }) }),
});

const AUDIT_MS_MAX = 60_000;
const { stdout } = spawnSync('npm', ['audit', '--json', '--omit=dev'], {
  encoding: 'utf8',
  timeout: AUDIT_MS_MAX,
  stdio: ['ignore', 'pipe', 'ignore'],
});
const report = Report.safeParse(parsed(stdout));
if (!report.success) {
  process.stderr.write(
    'NOT AUDITED: the registry is unreachable or has no audit (AUDIT=optional accepts this)\n',
  );
  process.exitCode = process.env.AUDIT === 'optional' ? 0 : 1;
} else {
  const { high, critical } = report.data.metadata.vulnerabilities;
  process.stdout.write(`audit: ${critical} critical and ${high} high vulnerabilities\n`);
  process.exitCode = high + critical === 0 ? 0 : 1;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
