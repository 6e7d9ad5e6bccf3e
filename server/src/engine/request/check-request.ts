/** Refuses a request that no engine of these limits could ever serve. Pure; the texts reach the client. */
import {
  MAX_LLM_BEAMS,
  MAX_LLM_GUIDE_CHARS,
  MAX_LLM_LOGITS_BYTES,
  MAX_LLM_RETENTION_PRIORITY,
  MAX_LLM_RETENTION_RANGES,
  MAX_LLM_SALT_CHARS,
  MAX_LLM_TOP_LOG_PROBS,
  MAX_LLM_WORD_TOKENS,
  MAX_LLM_WORDS,
} from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Retention } from "../kv/retention.ts";
import { type EncoderLimits, encoderRefusal } from "./encoder-input.ts";
import type { GenerateRequest } from "./generate.ts";

export interface RequestLimits {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly maxSequenceLength: number;
  /** Undefined: all of that but one. */
  readonly maxPromptLength?: number;
  /** The model rotates image tokens by time, row and column (M-RoPE). */
  readonly hasAxes?: boolean;
  /** False: prompts have no rows of embeddings. Absent: they may. */
  readonly takesEmbeddings?: boolean;
  /** Absent: the model has no encoder. */
  readonly encoder?: EncoderLimits | undefined;
}

/** @throws ServerError invalid_argument */
export function checkRequest(request: GenerateRequest, limits: RequestLimits): void {
  const length = request.promptTokens.length;
  if (length === 0) refuse("the prompt has no tokens: at least one is needed");
  const longest = Math.min(limits.maxSequenceLength - 1, limits.maxPromptLength ?? Number.POSITIVE_INFINITY);
  if (length > longest) {
    refuse(
      `Prompt length (${length}) exceeds maximum input length (${longest}): shorten the prompt, ` +
        "or give the model more context (max_tokens_in_paged_kv_cache bounds it too)",
    );
  }
  const refusal = encoderRefusal(request.encoderInput, limits.encoder);
  if (refusal !== undefined) refuse(refusal);
  checkNumbers(request);
  checkBeams(request);
  checkGuide(request);
  checkLogits(request, limits);
  checkTable(request, limits);
  checkPositions(request, limits);
  checkTokens(request, limits);
  checkWords("stop words", request.stopWords);
  checkWords("bad words", request.badWords);
  checkDrafts(request, limits);
  checkCacheHints(request);
  const bias = request.logitBias;
  if (bias !== undefined && bias.length !== limits.vocabSize) {
    refuse(
      `the embedding bias has ${bias.length} values, expected one per token of the vocabulary (${limits.vocabSize})`,
    );
  }
}

function checkNumbers(request: GenerateRequest): void {
  atLeast("the number of new tokens", request.maxTokens, 1);
  atLeast("the minimum number of new tokens", request.minTokens, 0);
  atLeast("temperature", request.temperature, 0);
  atLeast("top_k", request.topK, 0);
  atLeast("top_p", request.topP, 0);
  if (request.topP > 1) refuse(`top_p is ${request.topP}, expected at most 1`);
  within("top_p_decay", request.topPDecay, 0, 1);
  within("top_p_min", request.topPMin, 0, 1);
  within("min_p", request.minP, 0, 1);
  atLeast("no_repeat_ngram_size", request.noRepeatNgramSize, 0);
  if (!(request.repetitionPenalty > 0 && Number.isFinite(request.repetitionPenalty))) {
    refuse(`repetition_penalty is ${request.repetitionPenalty}, expected a number above 0`);
  }
  if (!Number.isFinite(request.presencePenalty)) refuse("presence_penalty is not a number");
  if (!Number.isFinite(request.frequencyPenalty)) refuse("frequency_penalty is not a number");
}

function checkBeams(request: GenerateRequest): void {
  within("beam_width", request.beamWidth, 1, MAX_LLM_BEAMS);
  within("the number of beams returned", request.numReturnBeams, 1, request.beamWidth);
  if (!Number.isFinite(request.lengthPenalty)) refuse("len_penalty is not a number");
  if (!Number.isFinite(request.beamDiversityRate)) refuse("beam_search_diversity_rate is not a number");
  if (![0, 1, 2].includes(request.earlyStopping)) {
    refuse(`early_stopping is ${request.earlyStopping}, expected 0, 1 or 2`);
  }
  if (request.beamWidth > 1 && request.guide !== undefined) {
    throw new ServerError("unsupported", "guided decoding is not supported together with beam search");
  }
}

function checkGuide({ guide }: GenerateRequest): void {
  if (guide !== undefined && guide.text.length > MAX_LLM_GUIDE_CHARS) {
    refuse(`the guide has ${guide.text.length} characters, expected at most ${MAX_LLM_GUIDE_CHARS}`);
  }
}

/** Rows of logits are kept until they are sent. */
function checkLogits(request: GenerateRequest, limits: RequestLimits): void {
  const mostTop = Math.min(MAX_LLM_TOP_LOG_PROBS, limits.vocabSize);
  within("the number of top log-probabilities", request.topLogProbs, 0, mostTop);
  const bytes = logitsBytes(request, limits);
  if (bytes > MAX_LLM_LOGITS_BYTES) {
    const numRows = bytes / limits.vocabSize / Float32Array.BYTES_PER_ELEMENT;
    refuse(
      `the logits asked for take ${bytes} bytes (${numRows} rows of ${limits.vocabSize}), expected at most ` +
        `${MAX_LLM_LOGITS_BYTES}: ask for fewer tokens`,
    );
  }
}

/** Bytes of all rows of logits that a request may get back. */
export function logitsBytes(request: GenerateRequest, limits: RequestLimits): number {
  const numPrompt = request.promptTokens.length;
  const numNew = Math.min(request.maxTokens, limits.maxSequenceLength - numPrompt) * request.beamWidth;
  const numRows = (request.contextLogits ? numPrompt : 0) + (request.generationLogits ? numNew : 0);
  return numRows * limits.vocabSize * Float32Array.BYTES_PER_ELEMENT;
}

function checkTokens(request: GenerateRequest, limits: RequestLimits): void {
  const end = limits.vocabSize + (request.promptTable?.numRows ?? 0);
  const tokens = request.promptTokens;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] ?? 0;
    if (token < 0 || token >= end) {
      refuse(`input id ${token} at position ${i} is outside the vocabulary, expected 0 to ${end - 1}`);
    }
  }
}

function checkDrafts(
  { draftTokens, draftAcceptanceThreshold, beamWidth, guide }: GenerateRequest,
  limits: RequestLimits,
) {
  within("draft_acceptance_threshold", draftAcceptanceThreshold, 0, 1);
  if (draftTokens.length === 0) return;
  if (beamWidth > 1) refuse("draft tokens are not supported together with beam search");
  if (guide !== undefined) refuse("draft tokens are not supported together with guided decoding");
  const wrong = draftTokens.findIndex((token) => token < 0 || token >= limits.vocabSize);
  if (wrong < 0) return;
  refuse(
    `draft id ${draftTokens[wrong]} at position ${wrong} is outside the vocabulary, expected 0 to ${limits.vocabSize - 1}`,
  );
}

function checkCacheHints({ priority, cacheSalt, retention, tokenSalts, promptTokens }: GenerateRequest): void {
  within("priority", priority, 0, 1);
  if (cacheSalt.length > MAX_LLM_SALT_CHARS) {
    refuse(`the cache salt has ${cacheSalt.length} characters, expected at most ${MAX_LLM_SALT_CHARS}`);
  }
  if (tokenSalts !== undefined && tokenSalts.length < promptTokens.length) {
    refuse(`prompt_table_extra_ids has ${tokenSalts.length} numbers for ${promptTokens.length} prompt tokens`);
  }
  if (retention !== undefined) checkRetention(retention);
}

function checkRetention({ ranges, decode }: Retention): void {
  within("the number of retention ranges", ranges.length, 0, MAX_LLM_RETENTION_RANGES);
  for (const each of [...ranges, decode]) {
    within("a retention priority", each.priority, 0, MAX_LLM_RETENTION_PRIORITY);
    if (!(each.durationMs >= 0))
      refuse(`a retention duration is ${each.durationMs} ms, expected at least 0, or -1 for ever`);
  }
  const sorted = [...ranges].sort((a, b) => a.start - b.start);
  for (const [i, { start, end }] of sorted.entries()) {
    if (!(start >= 0 && start < end))
      refuse(`a retention range is ${start} to ${end}, expected an end after its start`);
    const next = sorted[i + 1];
    if (next !== undefined && next.start < end) {
      refuse(`retention ranges ${start} to ${end} and ${next.start} to ${next.end} overlap`);
    }
  }
}

function checkTable(request: GenerateRequest, limits: RequestLimits): void {
  const table = request.promptTable;
  if (table !== undefined && limits.takesEmbeddings === false) {
    refuse("the prompt has an embedding table, which the llama.cpp engine does not take: use engine nereid");
  }
  if (table !== undefined && table.values.length !== table.numRows * limits.hiddenSize) {
    refuse(
      `the prompt embedding table has ${table.values.length} values, expected ${table.numRows} rows of ` +
        `${limits.hiddenSize} (the model's hidden size)`,
    );
  }
}

/** Beyond the prompt's length there is no position: output goes on behind the largest, and ends where the model does. */
function checkPositions({ promptTokens, promptPositions, promptTable }: GenerateRequest, limits: RequestLimits): void {
  const { length } = promptTokens;
  if (promptPositions === undefined) {
    if (limits.hasAxes !== true || promptTable === undefined) return;
    refuse("this model rotates images by rows and columns (M-RoPE): a prompt table needs mrope_position_ids");
  }
  if (limits.hasAxes !== true) refuse("mrope_position_ids: this model has one position for each token");
  if (promptPositions.length !== 3 * length) {
    refuse(`mrope_position_ids has ${promptPositions.length} numbers, expected 3 for each of ${length} prompt tokens`);
  }
  const wrong = promptPositions.findIndex((position) => position < 0 || position >= length);
  if (wrong < 0) return;
  refuse(
    `mrope_position_ids: ${promptPositions[wrong]} at ${wrong}, expected 0 to ${length - 1}, the prompt's length less 1`,
  );
}

function checkWords(what: string, words: readonly Int32Array[]): void {
  if (words.length > MAX_LLM_WORDS) refuse(`${words.length} ${what}, expected at most ${MAX_LLM_WORDS}`);
  let total = 0;
  for (const word of words) {
    if (word.length === 0) refuse(`an empty entry among the ${what}`);
    total += word.length;
  }
  if (total > MAX_LLM_WORD_TOKENS) refuse(`${total} token ids of ${what}, expected at most ${MAX_LLM_WORD_TOKENS}`);
}

function atLeast(what: string, value: number, least: number): void {
  if (!(value >= least && Number.isFinite(value))) refuse(`${what} is ${value}, expected at least ${least}`);
}

function within(what: string, value: number, least: number, most: number): void {
  if (!(value >= least && value <= most)) refuse(`${what} is ${value}, expected ${least} to ${most}`);
}

function refuse(message: string): never {
  throw invalidArgument(message);
}
