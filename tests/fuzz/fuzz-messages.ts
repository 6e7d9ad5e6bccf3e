/** Messages of a process under fuzzing to the one that watches it. */

export interface FuzzProgress {
  readonly kind: "progress";
  /** Cases done so far; all up to here have ended well. */
  readonly cases: number;
  readonly refused: number;
  readonly slowestMs: number;
  /** After a garbage collection. */
  readonly heapBytes: number;
  /** Buffers outside of the heap, after a garbage collection. */
  readonly externalBytes: number;
  readonly descriptors: number;
}

export interface FuzzFound {
  readonly kind: "fault";
  readonly text: string;
}

export type FuzzMessage = FuzzProgress | FuzzFound;
