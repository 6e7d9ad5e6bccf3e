/** Tree models in memory, as the libraries of XGBoost, LightGBM and treelite compute them. Knows neither requests nor configurations. */

export interface ForestInfo {
  readonly numFeatures: number;
  /** Values of a row: one for regression, ranking and two classes, else one for each class or target. */
  readonly numOutputs: number;
}

/** `contributions`: SHAP values, for each output one of each feature and one of the bias. */
export type ForestOutput = "values" | "contributions";

export interface ForestRows {
  /** FP32, [numRows, numFeatures]; aligned to 4 bytes. NaN is a missing value. */
  readonly values: Float32Array;
  readonly numRows: number;
}

/** Makes one computation at a time. */
export interface Forest {
  /** [numRows, numOutputs], or [numRows, numOutputs * (numFeatures + 1)] of contributions. @throws ForestError */
  predict(rows: ForestRows, output: ForestOutput): Float32Array;
  /** The same on another thread. `rows` belongs to the run until it has settled. */
  predictAsync(rows: ForestRows, output: ForestOutput): Promise<Float32Array>;
  close(): void;
}

/** A model file that was read. */
export interface ForestModel {
  readonly info: ForestInfo;
  readonly outputs: readonly ForestOutput[];
  /** One for each instance. */
  createForest(): Promise<Forest>;
  /** After its forests. */
  close(): void;
}

export interface ForestOptions {
  /** Threads of one computation. */
  readonly numThreads: number;
}

/** Text of a failure that the library does not explain. */
export const NO_REASON = "failed without a reason";

/** In the words of the library. */
export class ForestError extends Error {
  constructor(library: string, message: string) {
    super(`${library}: ${firstLine(message)}`);
    this.name = "ForestError";
  }
}

/** Messages end with a stack of addresses, which is nobody's business. */
function firstLine(message: string): string {
  const [text = ""] = message.split(/\n\s*(?:Stack trace|\[bt\])/);
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ");
}

/** Length of a result. */
export function outputLength({ numFeatures, numOutputs }: ForestInfo, output: ForestOutput, numRows: number): number {
  return numRows * numOutputs * (output === "values" ? 1 : numFeatures + 1);
}
