/**
 * `npm audit` of what runs in production, as a part of `npm run check`: a known vulnerability of high
 * or critical severity fails it. A registry that offers no audit, or cannot be reached, does not: it is
 * said in one line.
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
  process.stdout.write('no audit of the dependencies: the registry offers none or is not there\n');
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
