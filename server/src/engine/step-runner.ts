/**
 * The contract between the engine, which decides what a step computes, and a device, which computes it.
 * It knows no device, no model architecture and no request: only token ids, cache slots and logits.
 */
import type { LoraAdapter, LoraTargets } from "../formats/lora/lora-adapter.ts";
import type { ObservedRows } from "../models/config/draft-head.ts";
import type { EncoderInput, EncoderLimits } from "./request/encoder-input.ts";

/** One sequence's share of a step. Its tokens lie side by side in the arrays of the step. */
export interface StepSequence {
  /** Index of its first token in `tokenIds`. */
  readonly queryStart: number;
  /** Tokens it computes in this step: 1 when decoding, a chunk of the prompt when prefilling. */
  readonly queryLength: number;
  /** Tokens in its cache once this step is done, those of this step included. */
  readonly contextLength: number;
  /**
   * Its cache blocks in order; at least ceil(contextLength / blockSize) entries, more are ignored. Entries of blocks that
   * lie wholly before the runner's window, as its first query of this step sees it, are -1.
   */
  readonly blockTable: Int32Array;
  /** Number of the adapter that its rows carry; undefined for none. */
  readonly adapter?: number | undefined;
  /** Slot of its state, on runners with `numStates`: another one for each sequence. It begins anew at position 0. */
  readonly state?: number | undefined;
}

/** Rows that enter the model as embeddings, without the look-up of a token id (images, prompt tables). */
export interface StepEmbeddings {
  /** Indices into `tokenIds`, each at most once; the ids there are ignored. */
  readonly rows: Int32Array;
  /** [rows.length, hiddenSize] */
  readonly values: Float32Array;
}

/** One forward pass over a ragged batch: chunked prefills and decodes side by side. */
export interface StepInput {
  /** [numTokens] */
  readonly tokenIds: Int32Array;
  /** [numTokens] index of each token in its sequence, from 0. */
  readonly positions: Int32Array;
  /** [3, numTokens] time, row and column by which each token turns; absent: its position, three times. */
  readonly axes?: Int32Array;
  /** [numTokens] cache slot that each token writes: block * blockSize + offset. No slot twice in one step. */
  readonly slots: Int32Array;
  /** They cover all tokens without overlap, in order of `queryStart`. */
  readonly sequences: readonly StepSequence[];
  /** Indices into `tokenIds` whose logits are wanted, in the order wanted; may be empty. */
  readonly logitRows: Int32Array;
  /**
   * [numTokens] Of tokens that the step before chooses: its row there, and the id in `tokenIds` is ignored; -1 for others.
   * Absent: there are none.
   */
  readonly carried?: Int32Array;
  readonly embeddings?: StepEmbeddings;
  /**
   * Block pairs [from, to, from, to, ...] to copy before anything is computed, in order: a later pair may read or
   * overwrite the blocks of an earlier one. Numbers from `numBlocks` on are host blocks.
   */
  readonly blockCopies?: Int32Array;
  /** Pairs of slots of states [from, to, ...] to copy before anything is computed, in order. */
  readonly stateCopies?: Int32Array;
  /** Encoders to run before anything else is computed, behind the copies; each fills the slot of a sequence. */
  readonly encoderInputs?: readonly StepEncoderInput[];
  /** Rows of the runner's tables to write before the tokens of this step are chosen. Absent: none. */
  readonly ruleRows?: StepRuleRows;
}

export interface StepEncoderInput {
  readonly state: number;
  readonly input: EncoderInput;
}

/** Rows of tables that choices name. @see ChoiceRules */
export interface StepRuleRows {
  /** Tokens that were seen, and how often presence and frequency count each so far: the runner counts on from there. */
  readonly counts: readonly { readonly row: number; readonly occurrences: ReadonlyMap<number, number> }[];
  /** [vocabSize] each. */
  readonly biases: readonly { readonly row: number; readonly values: Float32Array }[];
}

/** Folders of adapters in a format of the device's own. */
export interface AdapterFormat {
  /** @throws Error naming the file and what is wrong with it */
  inspect(path: string): Promise<{ readonly maxRank: number }>;
  read(path: string): Promise<LoraAdapter>;
}

/** Low-rank adapters beside the weights, each known by the number it was given. */
export interface AdapterMemory {
  /** Matrices of this model that an adapter may change. */
  readonly targets: LoraTargets;
  /** Absent: PEFT folders. */
  readonly format?: AdapterFormat;
  /** Bytes that it would take; absent: its numbers as f32. @throws Error when it does not fit the model */
  bytesOf?(adapter: LoraAdapter): number;
  /** May be called while a step runs. @throws when there is no memory */
  load(adapter: LoraAdapter): Promise<number>;
  /** No step, running or to come, may name it. */
  unload(id: number): void;
}

/** How the token after a row of logits is chosen where nothing but these numbers decides. */
export interface TokenChoice {
  /** 0 = greedy. */
  readonly temperature: number;
  /** 0 = all, 1 = greedy. */
  readonly topK: number;
  /** 0 or 1 = all. */
  readonly topP: number;
  readonly minP: number;
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Index of the token in the output. */
  readonly index: number;
  /** Tokens that must not come, at most MAX_BANNED_TOKENS. */
  readonly banned: readonly number[];
  /** Most likely tokens to tell of beside it, at most MAX_TOP_LOG_PROBS. */
  readonly numTop: number;
  readonly rules?: ChoiceRules | undefined;
  /** [ceil(vocabSize / 32)] A bit a token, 1 = may come; absent: all may. */
  readonly mask?: Int32Array | undefined;
}

/** Rules that read a table of the runner. */
export interface ChoiceRules {
  /** The chosen token is counted in this row; -1 for none. */
  readonly countRow: number;
  /** -1 for none. */
  readonly biasRow: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
}

export interface RuleTableSizes {
  readonly numCountRows: number;
  readonly numBiasRows: number;
}

/** A choice bans at most this many; more forbidden tokens are left to the engine. */
export const MAX_BANNED_TOKENS = 8;

/** A choice tells of at most this many likely tokens; more are left to the engine. */
export const MAX_TOP_LOG_PROBS = 20;

/** [rows, MAX_TOP_LOG_PROBS] each, best first, equal ones by id; a row holds as many as its choice wants. */
export interface TopLogProbs {
  /** -1: the row holds no more numbers. */
  readonly ids: Int32Array;
  readonly logProbs: Float32Array;
}

/** Valid until the next step; where a step may be begun behind another, until the one after that. */
export interface ChosenTokens {
  /** -1: the row holds no number to choose by, or had no choice. */
  readonly tokens: Int32Array;
  /** Log-probability of each token under the model's own distribution. */
  readonly logProbs: Float32Array;
  /** The most likely tokens; absent when no choice wants any. */
  readonly top?: TopLogProbs | undefined;
  /** [rows without a choice, vocabSize], in their order. */
  readonly logits: Float32Array;
}

/** A step whose tokens are chosen later than it is begun: rules of a choice may depend on tokens of the step before. */
export interface LateChoice {
  readonly chosen: Promise<ChosenTokens>;
  /** Called once, before the next step is begun, with a choice for the same rows. Masks are free again when it returns. */
  give(choices: readonly (TokenChoice | undefined)[]): void;
}

/** Takes the rows that a draft head reads of the step that has just run; the next one waits for it. */
export type RowObserver = (input: StepInput, rows: Float32Array) => Promise<void> | void;

/** A model on a device. One step at a time: `run` may be called again once its promise has settled. */
export interface StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Tokens of a cache block. */
  readonly blockSize: number;
  readonly numBlocks: number;
  /**
   * Number of host blocks, which can only be copied to and from. Their numbers follow those of the device. Absent =
   * none.
   */
  readonly numHostBlocks?: number;
  /** Keys that a query sees at most, its own included, in every layer; absent when a layer sees them all. */
  readonly window?: number | undefined;
  /** Memory of GPUs that it holds; absent: none. */
  readonly gpuBytes?: number;
  /** Image tokens have a time, a row and a column; absent: one position. */
  readonly hasAxes?: boolean;
  /** Positions lie below this. */
  readonly maxPositions: number;
  /** Ids after which the model has nothing to say; undefined when it does not tell. */
  readonly eosTokenIds?: readonly number[] | undefined;
  /** Prompt of a decoder behind an encoder, where a request brings none, and the id of padding. */
  readonly startTokenIds?: readonly number[] | undefined;
  readonly padTokenId?: number | undefined;
  /** False: a sequence cannot take up what another computed, as with recurrent states. Absent: it can. */
  readonly reusesPrefixes?: boolean;
  /** Present if the model has an encoder: its slots of states then hold what the encoders left. */
  readonly encoder?: EncoderLimits | undefined;
  /** Slots for the states of sequences in recurrent layers, or for their encoders; absent: the model has neither. */
  readonly numStates?: number | undefined;
  /** How many of them, the last ones, keep states at ends of blocks for others to take up. */
  readonly numSnapshots?: number | undefined;
  /** False: rows cannot enter as embeddings. Absent: they can. */
  readonly takesEmbeddings?: boolean;
  /** Undefined: this runner has no adapters. */
  readonly adapters?: AdapterMemory | undefined;
  /**
   * Gives the logits [logitRows.length, vocabSize], valid until the next run. The arrays of the input belong to the
   * runner until the promise settles. An input that breaks the contract rejects and leaves the cache as it was.
   */
  run(input: StepInput): Promise<Float32Array>;
  /**
   * The same step, with a token chosen for each row of `logitRows` where the logits are. Absent: the runner gives logits
   * only. The choice is that of the engine's own sampler but for the rounding of the logits. Rows without a choice give
   * their logits: a request that wants them costs the others no copy of theirs.
   */
  readonly choose?:
    | ((input: StepInput, choices: readonly (TokenChoice | undefined)[]) => Promise<ChosenTokens>)
    | undefined;
  /**
   * As `choose`, but tokens are chosen only when the choices are given again; those of now tell which rows will have one.
   * Absent: choices have no masks.
   */
  readonly chooseLate?: ((input: StepInput, choices: readonly (TokenChoice | undefined)[]) => LateChoice) | undefined;
  /** Rows of the tables of token counts and biases that choices may name; absent: none. */
  readonly ruleTables?: RuleTableSizes | undefined;
  /** Rows of logits that a step with choices may want; absent: any number. */
  readonly maxChoices?: number | undefined;
  /**
   * `choose` may be called once more before its promise has settled: that step runs behind the first and may compute tokens
   * which that one chooses. The arrays of its input are free again when `choose` returns.
   */
  readonly stepsAhead?: boolean;
  /** From now on `observer` gets [numTokens, number of observed rows * hiddenSize] of each step. Absent: it cannot. */
  observe?(observed: ObservedRows, observer: RowObserver): void;
  /** Waits for the step in flight, then frees everything. A second call does nothing. */
  close(): Promise<void>;
}
