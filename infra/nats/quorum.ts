// Leaves a server that is cut off from its cluster. Such a server keeps its clients' connections and
// answers their pings, but JetStream on it has no leader and stores nothing: without this, a client
// would wait there until somebody mends the network. Where there is one server only, there is nowhere
// to go and nothing is asked.
import type { NatsConnection } from '@nats-io/transport-node';

const ASK_MS = 2_000;
const ANSWER_MS_MAX = 1_500;
/** More than a cluster takes for a new leader: an election is no reason to leave. */
const SILENT_ASKS_MAX = 4;

/** Asks JetStream whether it has a leader until the connection is closed. */
export function leaveLonelyServers(connection: NatsConnection, apiPrefix: string): void {
  let silent = 0;
  let asking = false;
  const timer = setInterval(async () => {
    if (connection.isClosed()) {
      clearInterval(timer);
      return;
    }
    if (asking) return;
    asking = true;
    silent = (await hasLeader(connection, apiPrefix)) ? 0 : silent + 1;
    asking = false;
    if (silent < SILENT_ASKS_MAX) return;
    silent = 0;
    // Refused only while it reconnects already.
    await connection.reconnect().catch(() => undefined);
  }, ASK_MS);
  timer.unref();
}

async function hasLeader(connection: NatsConnection, apiPrefix: string): Promise<boolean> {
  try {
    const answer = await connection.request(`${apiPrefix}.INFO`, '', { timeout: ANSWER_MS_MAX });
    return !answer.string().includes('"error"');
  } catch {
    // No answer, no responder, no connection: all the same here.
    return false;
  }
}
