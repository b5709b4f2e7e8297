/** Exits with 0 if this container's process responds to /healthz on its metrics port. */
const { METRICS_PORT } = process.env;
try {
  const response = await fetch(`http://127.0.0.1:${METRICS_PORT}/healthz`, {
    signal: AbortSignal.timeout(2_000),
  });
  process.exit(response.ok ? 0 : 1);
} catch {
  process.exit(1);
}
