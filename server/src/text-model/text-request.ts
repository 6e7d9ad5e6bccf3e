/**
 * Request and result of a text model, whatever stands behind it: an engine that takes token ids, or a model that takes
 * and gives text. Knows no protocol and no tensor names.
 */
import type { OutputGuide } from "../chat/chat-contract.ts";
import type { Cancellation } from "../core/cancellation.ts";
import type { InferRequest } from "../core/infer-request.ts";

export type Prompt = { readonly text: string } | { readonly tokens: Int32Array };

/** Undefined: the model's default sampling. Units and ranges are those of OpenAI's and vLLM's fields. */
export interface Sampling {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  /** 0 or -1: all. */
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly seed?: bigint | undefined;
}

export interface TextRequest {
  readonly prompt: Prompt;
  /** Adds the tokenizer's special tokens around a text. */
  readonly addSpecialTokens: boolean;
  /** Image files or URLs in the order in which the prompt names them. */
  readonly images: readonly (Uint8Array | string)[];
  /** Undefined: as many as the model's context leaves. */
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly sampling: Sampling;
  /** Texts that end the output. */
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  /** Leaves the stop text at the end of the output. */
  readonly includesStop: boolean;
  /** End tokens do not end the output. */
  readonly ignoresEos: boolean;
  readonly badWords: readonly string[];
  /** Added to the logits, by token id. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** Alternatives for each output token; undefined: no log-probabilities. */
  readonly logProbs: number | undefined;
  /** The same for prompt tokens. */
  readonly promptLogProbs: number | undefined;
  readonly guide: OutputGuide | { readonly type: "choice"; readonly text: string } | undefined;
  /** Name of a LoRA adapter. */
  readonly adapter: string | undefined;
  /** Folder of an adapter that was loaded while the server runs. */
  readonly adapterPath: string | undefined;
  /** "" = shared with all requests without one. */
  readonly cacheSalt: string;
  /** Level of the model's queue, 1 = highest, 0 = its default. */
  readonly priority: number;
  /** The caller reads chunks as they come; else one chunk with everything is enough. */
  readonly isStreaming: boolean;
  readonly skipsSpecialTokens: boolean;
  /** Special tokens that stay in the text all the same. */
  readonly keptTokens: readonly string[];
  /** JSON for models with an input of that name: `messages`, `tools`, `user`. */
  readonly extras: ReadonlyMap<string, string>;
}

export const PLAIN_REQUEST: Omit<TextRequest, "prompt"> = {
  addSpecialTokens: true,
  images: [],
  maxTokens: undefined,
  minTokens: 0,
  sampling: {},
  stop: [],
  stopTokenIds: [],
  includesStop: false,
  ignoresEos: false,
  badWords: [],
  logitBias: new Map(),
  logProbs: undefined,
  promptLogProbs: undefined,
  guide: undefined,
  adapter: undefined,
  adapterPath: undefined,
  cacheSalt: "",
  priority: 0,
  isStreaming: false,
  skipsSpecialTokens: true,
  keptTokens: [],
  extras: new Map(),
};

export interface TokenLogProb {
  readonly id: number;
  /** Text of the token alone; bytes that are no whole character come out as U+FFFD. */
  readonly text: string;
  readonly bytes: Uint8Array;
  /** NaN for the first token of a prompt, which follows nothing. */
  readonly logProb: number;
}

export interface TokenScore extends TokenLogProb {
  /** Most likely tokens, best first. */
  readonly top: readonly TokenLogProb[];
}

export type FinishReason = "stop" | "length";

/** Token counts of one generation. */
export interface TextUsage {
  /** Undefined: the model has no tokenizer that the server can read. */
  readonly promptTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Prompt tokens taken from the prefix cache. */
  readonly cachedTokens: number;
}

export interface TextChunk {
  readonly text: string;
  /** Empty unless log-probabilities were asked for. */
  readonly scores: readonly TokenScore[];
  /** Scores of the prompt, on the first chunk only. */
  readonly promptScores?: readonly TokenScore[] | undefined;
  /** So far, this chunk included. */
  readonly usage: TextUsage;
  /** Set on the last chunk. */
  readonly finish: FinishReason | undefined;
  /** The stop text that ended the output. */
  readonly stopText?: string | undefined;
}

/** A promise when the next chunk has to wait for it. */
export type TakeChunk = (chunk: TextChunk) => Promise<void> | undefined;

/** Chunks of one generation. `return` cancels it. */
export interface TextGeneration {
  /** Undefined behind the last. @throws ServerError */
  next(): Promise<TextChunk | undefined>;
  /** The chunks behind those that were read, each as it comes. @throws ServerError, and what `take` throws */
  deliver(take: TakeChunk): Promise<void>;
  return(): Promise<void>;
}

/** Counts the tokens of a call for whoever pays for them. */
export interface TokenMeter {
  /** Priority of the payer's requests, 1 = first; undefined: that of the request. */
  readonly priority: number | undefined;
  /** Before a generation, with the most that it may use. @throws when that is not granted */
  reserve(maxTokens: number): { settle(usage: TextUsage): void };
}

/** Facts of the call that asked, which reach scheduler, statistics and traces. */
export type CallFacts = Pick<InferRequest, "signal" | "arrivalMs"> & {
  readonly isCancelled: boolean;
  /** The same as `signal`, at less cost; absent: there is the signal alone. */
  readonly cancellation?: Pick<Cancellation, "lead"> | undefined;
  readonly trace?: InferRequest["trace"];
  /** Absent: nobody counts. */
  readonly meter?: TokenMeter | undefined;
  /** The client's id for the request, "" for none. */
  readonly id: string;
};
