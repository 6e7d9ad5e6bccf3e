/** A request for text, as the instance runs it, whichever interface it came by. */
import type { InferRequest } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { EngineInfo } from "../../engine/engine-spec.ts";
import type { GenerateRequest } from "../../engine/request/generate.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import type { LlmSettings } from "../llm/llm-settings.ts";
import type { SequenceOptions, SequenceText } from "./sequence-text.ts";

/** The model that a request is for. */
export interface TextFacts {
  readonly modelName: string;
  readonly settings: LlmSettings;
  readonly info: EngineInfo;
  readonly tokenizer: Tokenizer;
  readonly isBatching: boolean;
}

/** Text before the output of an answer that is not streamed. `tokens`: the prompt as its tokens read. */
export type PromptEcho = "none" | "text" | "tokens";

/** One prompt of a request. */
export interface TextJob extends SequenceOptions {
  readonly prompt: string;
  readonly echo: PromptEcho;
  readonly isStreaming: boolean;
  /** Sequences that are generated, and those that are given back: the most likely. */
  readonly numSequences: number;
  readonly numReturned: number;
  readonly addsSpecialTokens: boolean;
  readonly generate: Omit<GenerateRequest, "promptTokens" | "signal">;
  /** Output tensors that the request asks for beside the text. */
  readonly wanted: ReadonlySet<string>;
  /** Likeliest tokens to report for each token; undefined: none were asked for. */
  readonly numLogProbs?: number | undefined;
}

/** A job whose prompt is tokens. */
export interface EncodedJob {
  readonly job: TextJob;
  readonly promptTokens: Int32Array;
}

/** One prompt's share of a response. */
export interface TextRow {
  readonly encoded: EncodedJob;
  readonly sequences: readonly SequenceText[];
}

/** How a kind of model names its tensors, and what they mean. */
export interface TextInterface {
  /** In front of every error of a request. */
  readonly errorPrefix: string;
  /** Log lines of a request whose client has cancelled it. */
  readonly cancelLines: readonly string[];
  /** `stop` cancels the requests of the same id. */
  readonly takesStop: boolean;
  /** @throws ServerError without the prefix */
  read(request: InferRequest, row: number, numRows: number, facts: TextFacts): TextJob;
  /** Tensors of one response. `isWhole`: the only response of its request. */
  outputs(rows: readonly TextRow[], facts: TextFacts, isWhole: boolean): Tensor[];
}
