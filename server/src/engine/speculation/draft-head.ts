/** The contract between a drafter and a draft head on a device, whose cache has the blocks of the model's and some more. */
import type { ObservedRows } from "../../models/config/draft-head.ts";
import type { StepSequence } from "../step-runner.ts";

/** Rows of sequences side by side, each with the token behind it: one pass of the head. */
export interface HeadStep {
  readonly tokenIds: Int32Array; // [numTokens]
  readonly positions: Int32Array; // [numTokens]
  readonly slots: Int32Array; // [numTokens]
  readonly sequences: readonly StepSequence[];
  /** [numTokens, width] Rows of the model, or hidden states that the head gave before. */
  readonly rows: Float32Array;
  readonly areObserved: boolean;
  /** Tokens whose logits and hidden states are wanted. */
  readonly logitRows: Int32Array;
}

/** Valid until the next pass. */
export interface HeadResult {
  readonly logits: Float32Array; // [logitRows, draftVocabSize]
  readonly hidden: Float32Array; // [logitRows, hiddenSize]
}

export interface DraftHead {
  readonly observed: ObservedRows;
  /** Numbers of an observed row. */
  readonly observedSize: number;
  readonly hiddenSize: number;
  readonly draftVocabSize: number;
  /** [draftVocabSize] The token of each output row; absent: row and token are the same. */
  readonly tokens?: Int32Array | undefined;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly maxPositions: number;
  /** Blocks behind those of the model, which have the numbers from here on. */
  readonly firstSpareBlock: number;
  readonly numSpareBlocks: number;
  run(step: HeadStep): Promise<HeadResult>;
  /** Pairs [from, to, ...] of the model's blocks. */
  copyBlocks(pairs: Int32Array): void;
  close(): void;
}
