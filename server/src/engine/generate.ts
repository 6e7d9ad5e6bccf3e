/**
 * What one asks of an engine and what it gives back: token ids in, token ids out. Shared by the engine in this process
 * and the one behind a socket. Knows no text, no tensors and no protocol.
 */

/** Why a sequence ended: `end` = an end id came, `stop` = a stop word, `length` = its token limit, `cancelled` = the caller. */
export type FinishReason = "end" | "stop" | "length" | "cancelled";

/** Rows that take the place of embedding look-ups: a prompt id `vocabSize + n` means row n. */
export interface PromptTable {
  /** [numRows, hiddenSize] */
  readonly values: Float32Array;
  readonly numRows: number;
}

export interface GenerateRequest {
  readonly promptTokens: Int32Array;
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
  /** Equal seeds give equal outputs, whatever else is in the batch. Absent = a random one. */
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
  /** Requests with different salts share no cache blocks. */
  readonly cacheSalt: string;
  readonly promptTable?: PromptTable | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Times are those of the system's monotonic clock in nanoseconds, 0 = not reached. */
export interface Usage {
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Cache blocks taken from the prefix cache, and newly written ones. */
  readonly reusedBlocks: number;
  readonly newBlocks: number;
  readonly arrivalNs: number;
  readonly firstScheduledNs: number;
  readonly firstTokenNs: number;
  readonly lastTokenNs: number;
}

/** New tokens since the last chunk. A consumer that is late gets several steps in one chunk. */
export interface GeneratedChunk {
  readonly tokenIds: Int32Array;
  /** One per token id; empty when not asked for. */
  readonly logProbs: Float32Array;
  /** Sum over all output tokens so far; 0 when not asked for. */
  readonly cumLogProb: number;
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
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  promptIgnoreLength: 0,
  logProbs: false,
  cacheSalt: "",
});
