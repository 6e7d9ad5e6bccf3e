/** The way of a batch through a native library: started, answered at once or later, or failed as a whole. */

export interface StartedRun<Output> {
  /** An array: the run is over. */
  readonly outputs: Output[] | Promise<Output[]>;
  readonly answer: (outputs: Output[]) => void;
}

/**
 * @param start checks and starts; what it throws fails the batch, like a failed run
 * @returns undefined when the batch was answered or failed at once
 */
export function runBatch<Output>(
  start: () => StartedRun<Output>,
  fail: (error: unknown) => void,
): Promise<void> | undefined {
  try {
    const { outputs, answer } = start();
    if (!Array.isArray(outputs)) return outputs.then(answer).catch(fail);
    answer(outputs);
  } catch (error) {
    fail(error);
  }
  return undefined;
}
