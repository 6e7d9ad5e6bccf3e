/** What a long run is: the same hostile work as in the tests, for as long as one likes, with a seed and a result. */

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
