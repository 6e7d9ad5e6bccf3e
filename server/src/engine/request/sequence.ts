/**
 * One sequence in the engine: its tokens so far, its cache blocks, and how far they are computed.
 * The planner moves it between waiting and running, the engine appends tokens; it decides nothing itself.
 */
import { randomBytes } from "node:crypto";
import type { ServerError } from "../../core/server-error.ts";
import type { HeldAdapter } from "../adapters/adapter-cache.ts";
import type { GuideSession } from "../guide/guides.ts";
import type { LogitsPostProcessor } from "../sample/logits-post-processor.ts";
import type { StopTexts } from "../sample/stop-texts.ts";
import { DraftPace } from "../speculation/draft-pace.ts";
import type { BeamResult, FinishReason, GeneratedExtras, GenerateRequest, Usage } from "./generate.ts";

/** Receives the results of a sequence. Called from the step loop: must not throw and must not wait. */
export interface SequenceSink {
  /** Its first step is about to run: from here on a crash costs this request. */
  started(): void;
  token(tokenId: number, logProb: number): void;
  /** More of a list that the request asked for; the array is the sink's from here on. */
  extra<K extends keyof GeneratedExtras>(kind: K, values: GeneratedExtras[K]): void;
  /** The results of a beam search, before its end. */
  beams(results: readonly BeamResult[]): void;
  finished(reason: FinishReason, usage: Usage): void;
  failed(error: ServerError): void;
}

export interface SequenceLimits {
  readonly blockSize: number;
  readonly vocabSize: number;
  /** Prompt and output together. */
  readonly maxSequenceLength: number;
}

/** Forks and removes sequences with their cache blocks; the planner does. */
export interface SequenceForks {
  fork(parent: Sequence, child: Sequence): void;
  remove(sequence: Sequence): void;
}

/** Scores of a row of logits, [vocab], after the sequence's logits processors; valid until the next call. */
export interface ScoreSource {
  ruledScores(row: Float32Array, sequence: Sequence): Float32Array;
}

/** The sequences of one request that advance together: a beam search. */
export interface SequenceGroup {
  readonly width: number;
  /** Carries the request's clock. */
  readonly leader: Sequence;
  /** It has become several sequences. */
  readonly isForked: boolean;
  /** Removed: rows that still arrive for it are ignored. */
  readonly isOver: boolean;
  /** Takes the row of one sequence; true when it was the last one missing. */
  offer(sequence: Sequence, row: Float32Array, scores: ScoreSource): boolean;
  /** Moves every sequence one token on; true when the search is over. */
  advance(forks: SequenceForks, nowNs: number): boolean;
  /** Removes its sequences and reports the beams. */
  finish(forks: SequenceForks): { readonly reason: FinishReason; readonly usage: Usage };
  cancelledUsage(): Usage;
  remove(forks: SequenceForks): void;
}

/** Rows of a runner's rule tables that a sequence holds; -1 for none. @see RuleRows */
export interface HeldRules {
  readonly countRow: number;
  readonly biasRow: number;
  /** Tokens of the sequence that its row of counts knows; undefined: the row was not written yet. */
  numCounted: number | undefined;
  isBiasWritten: boolean;
}

export class Sequence {
  /** Becomes another before the planner sees it, when an adapter changes what its cache blocks hold. */
  request: GenerateRequest;
  readonly sink: SequenceSink;
  readonly promptLength: number;
  /**
   * Offset from a token's index after the prompt to its position; negative when images take fewer positions than
   * tokens.
   */
  readonly positionShift: number;
  /** The length at which it ends at the latest. */
  readonly maxLength: number;
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Occurrences that presence and frequency count; a token seen only in the ignored prompt stands at 0. */
  readonly occurrences: Map<number, number> | undefined;
  tokens: Int32Array;
  numTokens: number;
  numComputed = 0;
  /** Tokens that steps in flight will append: the next step may compute the last of them. */
  numPending = 0;
  /** Index of the last of them among the rows of logits of its step. */
  pendingRow = 0;
  /** A step in flight gives its next token, and the step after needs to know it: until then there is nothing to compute. */
  isAwaited = false;
  /** How often it has given up its blocks: what a step wrote counts only while this is what it was. */
  numReleases = 0;
  isOver = false;
  /** Draft tokens after its own: the next step may verify them. */
  numDrafts = 0;
  readonly pace: DraftPace = new DraftPace();
  /** Draft tokens verified, and accepted. */
  numDrafted = 0;
  numAccepted = 0;
  readonly blockTable: Int32Array;
  /** Blocks before this one were given back: no layer sees them any more. */
  firstBlock = 0;
  /** Entries of the table, those given back included. */
  numBlocks = 0;
  /** Slot of its state on runners that have them; -1: none. The planner sets it. */
  state = -1;
  /** Its encoder is to run before its next step: its slot is new. */
  needsEncoding = false;
  /** Tokens at its start that the prefix cache knew when it was admitted, on runners that have states. */
  numShared = 0;
  /** Scheduling order: lower keys first. The planner sets it. */
  orderKey = 0;
  /** Keys that distinguish equal token ids, two numbers for each token from the first on. */
  tokenKeys: Int32Array | undefined;
  /** Steps that it has waited for others to compute what it begins with. */
  numPrefixWaits = 0;
  reusedBlocks = 0;
  newBlocks = 0;
  cancelled = false;
  /** Top-p for the next token: it moves when the request lets it decay. */
  topP: number;
  /** Prompt tokens whose rows were handed out; they are computed once even if the sequence is preempted. */
  numPromptRows = 0;
  /** The beam search that it is a beam of. */
  group: SequenceGroup | undefined;
  /** Ids that end it: those of the request, or of the tokenizer where a guide needs one. */
  endIds: Int32Array;
  guide: GuideSession | undefined;
  /** The runner takes masks, and rules that need its last token. @see StepRunner.chooseLate */
  choosesLate = false;
  adapter: HeldAdapter | undefined;
  /** Undefined: none of its rules are on the device. */
  rules: HeldRules | undefined;
  stopTexts: StopTexts | undefined;
  postProcess: LogitsPostProcessor | undefined;
  arrivalNs = 0;
  firstScheduledNs = 0;
  firstTokenNs = 0;
  lastTokenNs = 0;

  constructor(request: GenerateRequest, sink: SequenceSink, limits: SequenceLimits) {
    this.request = request;
    this.sink = sink;
    this.promptLength = request.promptTokens.length;
    this.positionShift = positionShift(request);
    this.maxLength = Math.min(this.promptLength + request.maxTokens, limits.maxSequenceLength);
    this.tokens = new Int32Array(Math.min(this.maxLength, this.promptLength + 64));
    this.tokens.set(request.promptTokens);
    this.numTokens = this.promptLength;
    this.blockTable = new Int32Array(Math.ceil(this.maxLength / limits.blockSize));
    const seed = request.seed ?? randomBytes(8).readBigUInt64LE();
    this.seedLow = Number(BigInt.asIntN(32, seed));
    this.seedHigh = Number(BigInt.asIntN(32, seed >> 32n));
    this.topP = request.topP;
    this.endIds = request.endIds;
    this.occurrences = hasPenalty(request) ? new Map() : undefined;
    for (let i = 0; i < this.promptLength; i++) {
      this.#count(request.promptTokens[i] ?? 0, i >= request.promptIgnoreLength ? 1 : 0);
    }
  }

  get numOutput(): number {
    return this.numTokens - this.promptLength;
  }

  /**
   * Tokens that are not in the cache yet, a pending one included: 1 when it decodes, more when it prefills, 0 at its end and
   * while its next token is awaited.
   */
  get numToCompute(): number {
    if (this.isAwaited) return 0;
    const length = this.numTokens + this.numPending;
    return this.numPending > 0 && length >= this.maxLength ? 0 : length - this.numComputed;
  }

  /** Makes room for that many tokens behind those it has. */
  reserve(count: number): void {
    const needed = this.numTokens + count;
    if (needed > this.tokens.length) this.#reserve(Math.min(this.maxLength, Math.max(needed, this.tokens.length * 2)));
  }

  /** Verifies the draft of its next token; a wrong one discards the drafts after it. */
  settleDraft(token: number): void {
    if (this.numDrafts === 0) return;
    const isRight = this.tokens[this.numTokens] === token;
    this.numAccepted += isRight ? 1 : 0;
    this.numDrafted += isRight ? 1 : this.numDrafts;
    this.numDrafts = isRight ? this.numDrafts - 1 : 0;
  }

  append(token: number): void {
    this.reserve(1);
    this.tokens[this.numTokens] = token;
    this.numTokens += 1;
    this.#count(token, 1);
    if (this.request.topPDecay !== 1) this.#decayTopP(token);
  }

  /** Copies the tokens of another sequence of the same request. The planner accounts for the computed ones. */
  becomeCopyOf(other: Sequence): void {
    if (this.tokens.length < other.numTokens) this.#reserve(other.tokens.length);
    this.tokens.set(other.tokens.subarray(0, other.numTokens));
    this.numTokens = other.numTokens;
    this.numPromptRows = other.numPromptRows;
    this.firstScheduledNs = other.firstScheduledNs;
    if (this.occurrences === undefined || other.occurrences === undefined) return;
    this.occurrences.clear();
    for (const [token, count] of other.occurrences) this.occurrences.set(token, count);
  }

  /** Whether rows of logits for its prompt are wanted that were not handed out yet. */
  get wantsPromptRows(): boolean {
    const { contextLogits, promptLogProbs } = this.request;
    return (contextLogits || promptLogProbs) && this.numPromptRows < this.promptLength;
  }

  usage(): Usage {
    return {
      promptTokens: this.promptLength,
      outputTokens: this.numOutput,
      reusedBlocks: this.reusedBlocks,
      newBlocks: this.newBlocks,
      draftTokens: this.numDrafted,
      acceptedDraftTokens: this.numAccepted,
      arrivalNs: this.arrivalNs,
      firstScheduledNs: this.firstScheduledNs,
      firstTokenNs: this.firstTokenNs,
      lastTokenNs: this.lastTokenNs,
    };
  }

  #reserve(capacity: number): void {
    const larger = new Int32Array(capacity);
    larger.set(this.tokens);
    this.tokens = larger;
  }

  #decayTopP(token: number): void {
    const { topP, topPDecay, topPMin, topPResetId } = this.request;
    this.topP = token === topPResetId ? topP : Math.max(topPMin, this.topP * topPDecay);
  }

  #count(token: number, weight: number): void {
    this.occurrences?.set(token, (this.occurrences.get(token) ?? 0) + weight);
  }
}

function positionShift({ promptPositions, promptTokens }: GenerateRequest): number {
  if (promptPositions === undefined) return 0;
  return promptPositions.reduce((most, position) => Math.max(most, position), -1) + 1 - promptTokens.length;
}

function hasPenalty(request: GenerateRequest): boolean {
  return request.repetitionPenalty !== 1 || request.presencePenalty !== 0 || request.frequencyPenalty !== 0;
}
