/** Time stamps of one execution, in ms of `performance.now()`. */
export interface ExecutionTiming {
  readonly startMs: number;
  readonly computeStartMs: number;
  readonly computeEndMs: number;
  readonly endMs: number;
  /** The instance went on computing after its execution: until a request's end. */
  readonly goesOn?: boolean;
}
