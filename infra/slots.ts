/**
 * Runs the task when a slot is free. Rejects with the signal's reason if it aborts before that; later, the signal has
 * no effect. `null` never aborts.
 */
export type Slots = <T>(signal: AbortSignal | null, task: () => Promise<T>) => Promise<T>;

/** Limits how many tasks run at once; first come, first served. */
export function createSlots(max: number): Slots {
  let free = max;
  const waiting = new Set<() => void>();

  function turn(signal: AbortSignal | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        if (waiting.delete(resolve)) reject(signal?.reason);
      };
      waiting.add(resolve);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  return async (signal, task) => {
    signal?.throwIfAborted();
    if (free > 0) free -= 1;
    else await turn(signal);
    try {
      return await task();
    } finally {
      // Hand the slot to the next in line, so that no other call can take it in between.
      const [next] = waiting;
      if (next === undefined) free += 1;
      else {
        waiting.delete(next);
        next();
      }
    }
  };
}

/** Too many tasks of the caller wait already. */
export class TooManyWaitingError extends Error {}

/**
 * Limits how many tasks of each caller run at once, so that no caller can block the others. Rejects with
 * TooManyWaitingError if `waitingMax` of the caller's tasks wait already.
 */
export function createCallerSlots(max: number, waitingMax: number) {
  const callers = new Map<string, { readonly slots: Slots; tasks: number }>();
  return async <T>(
    name: string,
    signal: AbortSignal | null,
    task: () => Promise<T>,
  ): Promise<T> => {
    const caller = callers.get(name) ?? { slots: createSlots(max), tasks: 0 };
    if (caller.tasks >= max + waitingMax) throw new TooManyWaitingError();
    callers.set(name, caller);
    caller.tasks += 1;
    try {
      return await caller.slots(signal, task);
    } finally {
      caller.tasks -= 1;
      if (caller.tasks === 0) callers.delete(name);
    }
  };
}
