/** Messages between the backend `encoder` and its process. Plain data. */
import type { LlamaPooling } from "../../device/llama/llama-context.ts";
import type { EncoderPooling } from "../../engine/encoder/read-head.ts";

/** Start data. */
export interface EncoderData {
  /** A GGUF file, which libllama computes, or a Hugging Face folder, which our engine does. */
  readonly path: string;
  /** Undefined: as the files say. */
  readonly pooling: Exclude<LlamaPooling, "unspecified"> | EncoderPooling | undefined;
  /** Tokens of one pass; longer texts are refused. 0: as many as the model was trained for. */
  readonly maxTokens: number;
  readonly numThreads: number;
}

export interface EncoderFacts {
  /** Numbers of a vector, or classes. */
  readonly width: number;
  readonly description: string;
  readonly engine: string;
  /** Rows are scores of a head, not vectors. */
  readonly isClassifier: boolean;
}

/** One row for each: a text, or a text and the one behind it. */
export interface EncoderJob {
  readonly texts: readonly (readonly [text: string, pair?: string])[];
}

export interface EncoderResult {
  /** [texts, width] */
  readonly values: Float32Array;
}
