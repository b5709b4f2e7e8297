/**
 * Which api processes are alive: each writes its key every second, and one that was not heard for
 * some seconds is gone. The time is that of hearing, so clocks need not agree; while the bucket
 * cannot be reached nobody is heard, so everyone counts as heard again when it is back.
 */
const BEAT_MS = 1_000;
/** A process that is busy or starved for less than this keeps its sessions. */
const SILENT_MS_MAX = 6_000;

export class Presence {
  readonly #self: string;
  readonly #beat: () => Promise<void>;
  readonly #onLost: (process: string) => void;
  readonly #heardAtMs = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #beating = false;
  #connectedBefore = true;
  #tickedAtMs = performance.now();

  constructor(options: {
    readonly self: string;
    /** Writes the key of this process; whatever it rejects with is tried again. */
    readonly beat: () => Promise<void>;
    readonly connected: () => boolean;
    /** Called every second for a process that is gone, until `forget`. */
    readonly onLost: (process: string) => void;
  }) {
    this.#self = options.self;
    this.#beat = options.beat;
    this.#onLost = options.onLost;
    this.#timer = setInterval(() => this.#tick(options.connected()), BEAT_MS);
    this.#timer.unref();
  }

  /** Of one that was never heard the first question counts as hearing it. */
  isAlive(process: string): boolean {
    if (process === this.#self) return true;
    const heardAtMs = this.#heardAtMs.get(process);
    if (heardAtMs !== undefined) return performance.now() - heardAtMs < SILENT_MS_MAX;
    this.heard(process);
    return true;
  }

  heard(process: string): void {
    this.#heardAtMs.set(process, performance.now());
  }

  /** It ended, or somebody else found it gone; being heard again brings it back. */
  gone(process: string): void {
    this.#heardAtMs.set(process, Number.NEGATIVE_INFINITY);
  }

  /** Nothing of it is left. */
  forget(process: string): void {
    this.#heardAtMs.delete(process);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(connected: boolean): void {
    const stoppedMs = performance.now() - this.#tickedAtMs;
    this.#tickedAtMs = performance.now();
    // Whoever was deaf itself, without the server or stopped, knows nothing of the others.
    if (!connected || !this.#connectedBefore || stoppedMs > 3 * BEAT_MS) {
      for (const process of this.#heardAtMs.keys()) this.heard(process);
    }
    this.#connectedBefore = connected;
    if (!connected) return;
    for (const process of [...this.#heardAtMs.keys()]) {
      if (process !== this.#self && !this.isAlive(process)) this.#onLost(process);
    }
    if (this.#beating) return;
    this.#beating = true;
    void this.#beat().finally(() => {
      this.#beating = false;
    });
  }
}
