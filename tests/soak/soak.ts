/** A long run: the same hostile work as in the tests, for any time, with a seed and a result. */

export interface SoakOptions {
  readonly seed: number;
  /** On the clock of performance.now(). */
  readonly deadlineMs: number;
}

/** Numbers worth keeping. A run that finds a fault rejects instead. */
export type SoakResult = Readonly<Record<string, number>>;

export interface Soak {
  readonly name: string;
  run(options: SoakOptions): Promise<SoakResult>;
}
