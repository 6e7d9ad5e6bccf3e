/** Messages between the backend `encoder` and its process. Plain data. */
import type { LlamaPooling } from "../../device/llama/llama-context.ts";

/** Start data. */
export interface EncoderData {
  /** A GGUF file. */
  readonly path: string;
  /** Undefined: as the file says. */
  readonly pooling: LlamaPooling | undefined;
  /** Tokens of one call of the library; longer texts are refused. 0: as many as the model was trained for. */
  readonly maxTokens: number;
  readonly numThreads: number;
}

export interface EncoderFacts {
  /** Numbers of a vector, or classes. */
  readonly width: number;
  readonly description: string;
}

/** One row for each: a text, or a text and the one behind it. */
export interface EncoderJob {
  readonly texts: readonly (readonly [text: string, pair?: string])[];
}

export interface EncoderResult {
  /** [texts, width] */
  readonly values: Float32Array;
}
