/**
 * Ingest and the projectors publish their state every REPORT_MS over plain NATS: whether they are ready, and how far
 * they are. If a process is stopped or cut off, its silence is detected.
 */
import { z } from 'zod';
import type { Reasons } from '../metrics-server.ts';
import type { Nats } from './connection.ts';
import { parseValue } from './kv.ts';

const SUBJECT = 'fillstream.state.';
const REPORT_MS = 2_000;
/** A process that was silent for this long is stalled, dead or cut off. */
const SILENT_MS_MAX = 10_000;

const State = z.object({
  /** This is instance `index` of `count`. */
  index: z.int().min(0),
  count: z.int().min(1),
  reasons: z.record(z.string(), z.string()),
  /** Time of the newest stored block, seconds since the epoch; 0 if not applicable. */
  reached: z.number().min(0),
  /** Its number: everything of this process up to it is stored. */
  block: z.int().min(0).optional(),
});
type State = z.output<typeof State>;

/** Undefined if another process does the work: then it alone reports. */
export type StateOf = () =>
  | (Pick<State, 'reasons' | 'block'> & Partial<Pick<State, 'reached'>>)
  | undefined;

export type ProcessName = 'ingest' | 'projector';

/**
 * Publishes the state periodically, and when `publish` is called. `stop` ends that; it publishes why the process ends.
 */
export function reportState(
  nats: Pick<Nats, 'connection' | 'connected'>,
  { name, index = 0, count = 1 }: { name: ProcessName; index?: number; count?: number },
  stateOf: StateOf,
) {
  const publish = (now: ReturnType<StateOf>) => {
    if (now === undefined || !nats.connected) return;
    const { reasons, reached = 0, block } = now;
    const state: State = { index, count, reasons, reached, block };
    nats.connection.publish(SUBJECT + name, JSON.stringify(state));
  };
  const timer = setInterval(() => publish(stateOf()), REPORT_MS);
  timer.unref();
  publish(stateOf());
  return {
    publish: () => publish(stateOf()),
    stop(why = 'stopped'): void {
      clearInterval(timer);
      if (stateOf() !== undefined) publish({ reasons: { process: why } });
    },
  };
}

export type ProcessState = {
  /** For example `ingest`, or `projector 0/2` if there are several instances. */
  readonly name: string;
  /** Why the process is not ready; empty if it is. */
  readonly reasons: Reasons;
  /** Time of the newest stored block, seconds since the epoch; 0 if unknown. */
  readonly reached: number;
  /** Its number, unless it is unknown: everything of the process up to it is stored. */
  readonly block?: number | undefined;
};

export type ProcessStates = ReturnType<typeof watchStates>;

/** Listens to the states of all processes. */
export function watchStates({ connection }: Pick<Nats, 'connection'>) {
  const reported = new Map<string, readonly (State & { readonly atMs: number })[]>();
  const subscription = connection.subscribe(`${SUBJECT}*`, {
    callback: (error, message) => {
      if (error !== null) return;
      const state = parseValue(State, message.data);
      if (state === undefined) return;
      const name = message.subject.slice(SUBJECT.length);
      // After the number of instances has changed, the old ones are no longer expected.
      const others = reported.get(name) ?? [];
      const kept = others.filter(
        ({ index, count }) => count === state.count && index !== state.index,
      );
      reported.set(name, [...kept, { ...state, atMs: performance.now() }]);
    },
  });
  return {
    /** The state of every expected instance. */
    of(name: ProcessName): readonly ProcessState[] {
      const states = reported.get(name) ?? [];
      const count = states[0]?.count ?? 1;
      return Array.from({ length: count }, (_, index) => {
        const state = states.find((known) => known.index === index);
        const shown = count === 1 ? name : `${name} ${index}/${count}`;
        if (state === undefined) return missing(shown, 'has not reported');
        const silentMs = performance.now() - state.atMs;
        if (silentMs > SILENT_MS_MAX) {
          return missing(shown, `silent for ${Math.round(silentMs / 1_000)} s`);
        }
        const { reasons, reached, block } = state;
        return { name: shown, reasons, reached, block };
      });
    },
    close: () => subscription.unsubscribe(),
  };
}

function missing(name: string, reason: string): ProcessState {
  return { name, reasons: { process: reason }, reached: 0 };
}
