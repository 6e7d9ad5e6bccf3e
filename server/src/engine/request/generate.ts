/**
 * Request and result of an engine: token ids in, token ids out. Shared by the engine in this process and the one behind
 * a socket. It knows no text, no tensors and no protocol.
 */

import type { AdapterChoice } from "../adapters/adapter-choice.ts";
import type { Retention } from "../kv/retention.ts";
import type { EncoderInput } from "./encoder-input.ts";

/** Why a sequence ended: `end` = an end id came, `stop` = a stop word, `length` = its token limit, `cancelled` = the caller. */
export type FinishReason = "end" | "stop" | "length" | "cancelled";

/** Rows used in place of embedding look-ups: a prompt id `vocabSize + n` means row n. */
export interface PromptTable {
  /** [numRows, hiddenSize] */
  readonly values: Float32Array;
  readonly numRows: number;
}

/**
 * The required form of the output. `choice` is a JSON list of the allowed texts; `json` is any JSON and has no text.
 * `structural_tag` is JSON of xgrammar's structural tag: text that is free but for the parts that its tags begin.
 */
export interface Guide {
  readonly type: "json" | "json_schema" | "regex" | "ebnf_grammar" | "choice" | "structural_tag";
  readonly text: string;
}

/**
 * End of a beam search. 1: as many hypotheses ended as there are beams. 0: no running beam can win at its present
 * length. 2: none could at any length.
 */
export type EarlyStopping = 0 | 1 | 2;

export interface GenerateRequest {
  /** For a model with an encoder, the prompt of its decoder. */
  readonly promptTokens: Int32Array;
  /** Absent: for models without an encoder. */
  readonly encoderInput?: EncoderInput | undefined;
  /** New tokens at most; cut to what the model's context leaves. */
  readonly maxTokens: number;
  /** End ids cannot come before this many new tokens. */
  readonly minTokens: number;
  /** Ids that end the sequence; they are not part of the output. */
  readonly endIds: Int32Array;
  /** Token sequences that end the output, and are part of it. */
  readonly stopWords: readonly Int32Array[];
  /** Token sequences that never come out. */
  readonly badWords: readonly Int32Array[];
  /** 0 = greedy. */
  readonly temperature: number;
  /** Candidates kept, 0 = all, 1 = greedy. */
  readonly topK: number;
  /** Probability mass kept; 0 or 1 = all. */
  readonly topP: number;
  /** Factor on top-p after every token, down to `topPMin`; 1 = off. The token `topPResetId` (-1 = none) sets it back. */
  readonly topPDecay: number;
  readonly topPMin: number;
  readonly topPResetId: number;
  /** Tokens less likely than this share of the best one's probability never come; 0 = off. */
  readonly minP: number;
  /** No sequence of that many tokens, prompt included, comes twice; 0 = off. */
  readonly noRepeatNgramSize: number;
  /** Equal seeds give equal outputs in any batch. Absent = a random seed. */
  readonly seed?: bigint | undefined;
  /** Multiplicative, over prompt and output; 1 = off. */
  readonly repetitionPenalty: number;
  /** Additive, once per token seen; 0 = off. */
  readonly presencePenalty: number;
  /** Additive, times the number of times seen; 0 = off. */
  readonly frequencyPenalty: number;
  /** Leading prompt tokens that presence and frequency do not count. */
  readonly promptIgnoreLength: number;
  /** Added to the logits, one value per token of the vocabulary. */
  readonly logitBias?: Float32Array | undefined;
  /** Ask for the log-probability of each output token under the model's own distribution. */
  readonly logProbs: boolean;
  /** Number of most likely tokens to report for each output token, and for each prompt token if those are requested. */
  readonly topLogProbs: number;
  /** Ask for the log-probability of each prompt token but the first. */
  readonly promptLogProbs: boolean;
  /** Ask for the logits after each prompt token, and for those that each output token was chosen by. */
  readonly contextLogits: boolean;
  readonly generationLogits: boolean;
  /** 1 = no beam search. Beams rank by log-probability / length ^ lengthPenalty. */
  readonly beamWidth: number;
  /** Best beams given back, at most `beamWidth`. */
  readonly numReturnBeams: number;
  readonly lengthPenalty: number;
  readonly earlyStopping: EarlyStopping;
  /** Added to the score of a candidate, times the index of the beam that it continues: above 0 favours worse beams. */
  readonly beamDiversityRate: number;
  readonly guide?: Guide | undefined;
  /** Name of a function of the model's own that changes the logits first; "" = none. */
  readonly logitsPostProcessor: string;
  /** Requests with different salts share no cache blocks. */
  readonly cacheSalt: string;
  /** 0 to 1, the higher the sooner; lower ones are overtaken for a bounded time only. */
  readonly priority: number;
  /** How long the blocks of the request are worth keeping once it is over; absent = like any others. */
  readonly retention?: Retention | undefined;
  /** A number for each prompt token from the first on: tokens with different numbers share no cache blocks. */
  readonly tokenSalts?: BigUint64Array | undefined;
  readonly promptTable?: PromptTable | undefined;
  /**
   * [3, promptTokens] time, row and column of each prompt token, for M-RoPE models. Output continues after the largest.
   * Absent = the prompt index, three times.
   */
  readonly promptPositions?: Int32Array | undefined;
  /** Absent = the model as it is. */
  readonly adapter?: AdapterChoice | undefined;
  /** The caller's draft tokens for the start of the output; verified once. Not with beams or a guide. */
  readonly draftTokens: Int32Array;
  /**
   * A draft token of at least this probability is accepted even if another token would have been chosen; 0 = drafts
   * never change the output.
   */
  readonly draftAcceptanceThreshold: number;
  /** Most tokens that the engine drafts ahead, if it drafts at all; -1 = the engine's own limit. */
  readonly maxDraftTokens: number;
  readonly signal?: AbortSignal | undefined;
}

/** Times are those of the system's monotonic clock in nanoseconds, 0 = not reached. */
export interface Usage {
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Cache blocks taken from the prefix cache, and newly written ones. */
  readonly reusedBlocks: number;
  readonly newBlocks: number;
  /** Draft tokens verified, and accepted. */
  readonly draftTokens: number;
  readonly acceptedDraftTokens: number;
  readonly arrivalNs: number;
  readonly firstScheduledNs: number;
  readonly firstTokenNs: number;
  readonly lastTokenNs: number;
}

/** One finished beam. */
export interface BeamResult {
  readonly tokenIds: Int32Array;
  /** One per token id. */
  readonly logProbs: Float32Array;
  /** Sum of them, and of the end token's where one came. */
  readonly cumLogProb: number;
  /** [tokenIds.length, vocab]; empty when not asked for. */
  readonly logits: Float32Array;
}

/** Rarely requested extras. Like the tokens, each list holds the new entries since the last chunk. */
export interface GeneratedExtras {
  /** [prompt tokens, vocab] */
  contextLogits: Float32Array;
  /** [output tokens, vocab] */
  generationLogits: Float32Array;
  /** [output tokens, topLogProbs], best first. */
  topIds: Int32Array;
  topLogProbs: Float32Array;
  /** [prompt tokens - 1] and [prompt tokens - 1, topLogProbs]: the first token has no probability. */
  promptLogProbs: Float32Array;
  promptTopIds: Int32Array;
  promptTopLogProbs: Float32Array;
}

/** New tokens since the last chunk. A consumer that is late gets several steps in one chunk. */
export interface GeneratedChunk {
  readonly tokenIds: Int32Array;
  /** One per token id; empty when not asked for. */
  readonly logProbs: Float32Array;
  /** Sum over all output tokens so far; 0 when not asked for. */
  readonly cumLogProb: number;
  /** Present once there was any. */
  readonly extras?: Readonly<GeneratedExtras>;
  /** Present on the last chunk of a beam search, best first; its tokens are in here only. */
  readonly beams?: readonly BeamResult[];
  /** Present on the last chunk. */
  readonly finishReason?: FinishReason;
  readonly usage?: Usage;
}

/** Anything that generates: the engine itself or the process around one. */
export interface Generator {
  /**
   * Starts at once, without waiting for the first `next()`. Failures reject `next()` with a `ServerError`. Aborting the
   * signal or leaving the iteration early cancels; an aborted one ends with `finishReason: "cancelled"`.
   */
  generate(request: GenerateRequest): AsyncIterable<GeneratedChunk>;
}

export const EMPTY_TOKENS: Int32Array = new Int32Array(0);

/** The neutral request: greedy, nothing forbidden, nothing penalised. */
export const NEUTRAL_REQUEST: GenerateRequest = Object.freeze({
  promptTokens: EMPTY_TOKENS,
  maxTokens: 1,
  minTokens: 0,
  endIds: EMPTY_TOKENS,
  stopWords: [],
  badWords: [],
  temperature: 1,
  topK: 1,
  topP: 0,
  topPDecay: 1,
  topPMin: 1e-6,
  topPResetId: -1,
  minP: 0,
  noRepeatNgramSize: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  promptIgnoreLength: 0,
  logProbs: false,
  topLogProbs: 0,
  promptLogProbs: false,
  contextLogits: false,
  generationLogits: false,
  beamWidth: 1,
  numReturnBeams: 1,
  lengthPenalty: 0,
  earlyStopping: 1,
  beamDiversityRate: 0,
  logitsPostProcessor: "",
  cacheSalt: "",
  priority: 0.5,
  draftTokens: EMPTY_TOKENS,
  draftAcceptanceThreshold: 0,
  maxDraftTokens: -1,
});
