/** The sound of the tape: one short tone for each batch of matches, higher for purchases, louder for larger ones. */
import type { Row } from './tape-store.ts';

const SECONDS = 0.07;
const HERTZ = { BUY: 880, SELL: 587 } as const;
/** From 1 USDC to 10,000. */
const LOUDNESS = { least: 0.02, most: 0.2, decades: 4 } as const;

export class TapeSound {
  // Browsers allow sound only after a user action, so it is created then.
  readonly #context = new AudioContext();

  /** Plays a tone for the largest of the rows. */
  play(rows: readonly Row[]): void {
    const largest = rows.reduce<Row | undefined>(
      (most, row) =>
        most === undefined || Number(row.shown.usdc) > Number(most.shown.usdc) ? row : most,
      undefined,
    );
    if (largest === undefined) return;
    const { side, usdc } = largest.shown;
    const share = Math.min(1, Math.max(0, Math.log10(Number(usdc) / 1e6) / LOUDNESS.decades));
    const [tone, gain] = [this.#context.createOscillator(), this.#context.createGain()];
    const start = this.#context.currentTime;
    tone.frequency.value = HERTZ[side];
    gain.gain.setValueAtTime(LOUDNESS.least + share * (LOUDNESS.most - LOUDNESS.least), start);
    gain.gain.exponentialRampToValueAtTime(0.0001, start + SECONDS);
    tone.connect(gain).connect(this.#context.destination);
    tone.start(start);
    tone.stop(start + SECONDS);
  }

  close(): void {
    void this.#context.close();
  }
}
