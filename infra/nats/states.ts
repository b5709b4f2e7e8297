/**
 * What ingest and the projectors publish about themselves, every REPORT_MS over plain NATS: whether they are ready,
 * and how far they are. A process that is stopped or cut off publishes nothing, which shows too.
 */
import { z } from 'zod';
import type { Reasons } from '../metrics.ts';
import type { Nats } from './connection.ts';

const SUBJECT = 'fillstream.state.';
const REPORT_MS = 2_000;
/** A process that was silent for so long is stalled, dead or cut off. */
const SILENT_MS_MAX = 10_000;

const State = z.object({
  /** This is instance `index` of `count`. */
  index: z.int().min(0),
  count: z.int().min(1),
  reasons: z.record(z.string(), z.string()),
  /** Time of the newest block that is stored, seconds since the epoch; 0 where the process does not say. */
  reached: z.number().min(0),
});
type State = z.output<typeof State>;

export type StateOf = () => { readonly reasons: Reasons; readonly reached?: number };

export type ProcessName = 'ingest' | 'projector';

/** Publishes the state until the returned function is called, which publishes why the process ends. */
export function reportState(
  nats: Pick<Nats, 'connection' | 'connected'>,
  { name, index = 0, count = 1 }: { name: ProcessName; index?: number; count?: number },
  stateOf: StateOf,
): (why?: string) => void {
  const publish = ({ reasons, reached = 0 }: ReturnType<StateOf>) => {
    if (!nats.connected) return;
    const state: State = { index, count, reasons, reached };
    nats.connection.publish(SUBJECT + name, JSON.stringify(state));
  };
  const timer = setInterval(() => publish(stateOf()), REPORT_MS);
  timer.unref();
  publish(stateOf());
  return (why = 'stopped') => {
    clearInterval(timer);
    publish({ reasons: { process: why } });
  };
}

export type ProcessState = {
  /** `projector 0/2` where there are several instances. */
  readonly name: string;
  /** Empty when it is ready. */
  readonly reasons: Reasons;
  /** 0 where it is not known. */
  readonly reached: number;
};

export type ProcessStates = ReturnType<typeof watchStates>;

/** Listens to the states of all processes. */
export function watchStates({ connection }: Pick<Nats, 'connection'>) {
  const reported = new Map<string, readonly (State & { readonly atMs: number })[]>();
  const subscription = connection.subscribe(`${SUBJECT}*`, {
    callback: (error, message) => {
      if (error !== null) return;
      const { data: state } = State.safeParse(message.json());
      if (state === undefined) return;
      const name = message.subject.slice(SUBJECT.length);
      // After a change of the number of instances, the old ones are no longer expected.
      const others = reported.get(name) ?? [];
      const kept = others.filter(
        ({ index, count }) => count === state.count && index !== state.index,
      );
      reported.set(name, [...kept, { ...state, atMs: performance.now() }]);
    },
  });
  return {
    /** The state of every instance that should be there. */
    of(name: ProcessName): readonly ProcessState[] {
      const states = reported.get(name) ?? [];
      const count = states[0]?.count ?? 1;
      return Array.from({ length: count }, (_, index) => {
        const state = states.find((one) => one.index === index);
        const shown = count === 1 ? name : `${name} ${index}/${count}`;
        if (state === undefined) return missing(shown, 'has not reported');
        const silentMs = performance.now() - state.atMs;
        if (silentMs > SILENT_MS_MAX) {
          return missing(shown, `silent for ${Math.round(silentMs / 1_000)} s`);
        }
        return { name: shown, reasons: state.reasons, reached: state.reached };
      });
    },
    close: () => subscription.unsubscribe(),
  };
}

function missing(name: string, reason: string): ProcessState {
  return { name, reasons: { process: reason }, reached: 0 };
}
