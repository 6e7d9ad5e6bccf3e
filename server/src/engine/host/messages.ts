/**
 * The kinds of frames between a server and an engine host, and how a request travels in one. Rare messages (load, ready,
 * failed) carry JSON; requests and steps are flat. Endianness is the machine's: both ends run on the same one.
 */

import type { Retention } from "../kv/retention.ts";
import type { EncoderInput } from "../request/encoder-input.ts";
import type { EarlyStopping, FinishReason, GenerateRequest, Guide } from "../request/generate.ts";
import { readAdapter, writeAdapter } from "./adapter-frames.ts";
import type { FrameReader, FrameWriter } from "./frame.ts";

/** From the server: load, submit, cancel, close. From the host: ready, load failed, step. */
export const LOAD = 1;
export const SUBMIT = 2;
export const CANCEL = 3;
export const CLOSE = 4;
export const READY = 5;
export const LOAD_FAILED = 6;
export const STEP = 7;

/** Finish reasons travel as indices into this list. */
export const FINISH_REASONS: readonly FinishReason[] = ["end", "stop", "length", "cancelled"];

const SEED = 1;
const LOG_PROBS = 2;
const LOGIT_BIAS = 4;
const PROMPT_TABLE = 8;
const PROMPT_LOG_PROBS = 16;
const CONTEXT_LOGITS = 32;
const GENERATION_LOGITS = 64;
const GUIDE = 128;
const ADAPTER = 1024;
const RETENTION = 256;
const TOKEN_SALTS = 512;
const PROMPT_POSITIONS = 2048;
const ENCODER_TOKENS = 4096;
const ENCODER_FRAMES = 8192;

export function writeRequest(writer: FrameWriter, request: GenerateRequest): void {
  const { seed, logitBias, promptTable, promptPositions, guide, retention, tokenSalts } = request;
  writer.int(flagsOf(request));
  writer.ints(request.promptTokens);
  writer.int(request.maxTokens);
  writer.int(request.minTokens);
  writer.ints(request.endIds);
  writeWords(writer, request.stopWords);
  writeWords(writer, request.badWords);
  writer.double(request.temperature);
  writer.int(request.topK);
  writer.double(request.topP);
  writer.double(request.topPDecay);
  writer.double(request.topPMin);
  writer.int(request.topPResetId);
  writer.double(request.minP);
  writer.int(request.noRepeatNgramSize);
  writer.double(request.repetitionPenalty);
  writer.double(request.presencePenalty);
  writer.double(request.frequencyPenalty);
  writer.int(request.promptIgnoreLength);
  writer.int(request.topLogProbs);
  writer.int(request.beamWidth);
  writer.int(request.numReturnBeams);
  writer.double(request.lengthPenalty);
  writer.int(request.earlyStopping);
  writer.double(request.beamDiversityRate);
  writer.text(request.logitsPostProcessor);
  writer.text(request.cacheSalt);
  writer.double(request.priority);
  writer.ints(request.draftTokens);
  writer.double(request.draftAcceptanceThreshold);
  writer.int(request.maxDraftTokens);
  if (seed !== undefined) {
    writer.int(Number(BigInt.asIntN(32, seed)));
    writer.int(Number(BigInt.asIntN(32, seed >> 32n)));
  }
  if (logitBias !== undefined) writer.floats(logitBias);
  if (promptTable !== undefined) {
    writer.int(promptTable.numRows);
    writer.floats(promptTable.values);
  }
  if (guide !== undefined) writer.text(JSON.stringify(guide));
  if (request.adapter !== undefined) writeAdapter(writer, request.adapter);
  if (retention !== undefined) writeRetention(writer, retention);
  if (tokenSalts !== undefined)
    writer.ints(new Int32Array(tokenSalts.buffer, tokenSalts.byteOffset, 2 * tokenSalts.length));
  if (promptPositions !== undefined) writer.ints(promptPositions);
  if (request.encoderInput !== undefined) writeEncoderInput(writer, request.encoderInput);
}

function writeEncoderInput(writer: FrameWriter, input: EncoderInput): void {
  if (input.kind === "tokens") {
    writer.ints(input.tokens);
    return;
  }
  writer.int(input.width);
  writer.floats(input.values);
}

function readEncoderInput(reader: FrameReader, flags: number): EncoderInput | undefined {
  if ((flags & ENCODER_TOKENS) !== 0) return { kind: "tokens", tokens: reader.ints() };
  return (flags & ENCODER_FRAMES) === 0 ? undefined : { kind: "frames", width: reader.int(), values: reader.floats() };
}

function flagsOf(request: GenerateRequest): number {
  let flags = request.logProbs ? LOG_PROBS : 0;
  if (request.promptLogProbs) flags |= PROMPT_LOG_PROBS;
  if (request.contextLogits) flags |= CONTEXT_LOGITS;
  if (request.generationLogits) flags |= GENERATION_LOGITS;
  if (request.seed !== undefined) flags |= SEED;
  if (request.logitBias !== undefined) flags |= LOGIT_BIAS;
  if (request.promptTable !== undefined) flags |= PROMPT_TABLE;
  if (request.guide !== undefined) flags |= GUIDE;
  if (request.adapter !== undefined) flags |= ADAPTER;
  if (request.retention !== undefined) flags |= RETENTION;
  if (request.tokenSalts !== undefined) flags |= TOKEN_SALTS;
  if (request.promptPositions !== undefined) flags |= PROMPT_POSITIONS;
  if (request.encoderInput?.kind === "tokens") flags |= ENCODER_TOKENS;
  if (request.encoderInput?.kind === "frames") flags |= ENCODER_FRAMES;
  return flags;
}

/** The arrays are views of the frame, which the request keeps alive. */
export function readRequest(reader: FrameReader): GenerateRequest {
  const flags = reader.int();
  const request = {
    promptTokens: reader.ints(),
    maxTokens: reader.int(),
    minTokens: reader.int(),
    endIds: reader.ints(),
    stopWords: readWords(reader),
    badWords: readWords(reader),
    temperature: reader.double(),
    topK: reader.int(),
    topP: reader.double(),
    topPDecay: reader.double(),
    topPMin: reader.double(),
    topPResetId: reader.int(),
    minP: reader.double(),
    noRepeatNgramSize: reader.int(),
    repetitionPenalty: reader.double(),
    presencePenalty: reader.double(),
    frequencyPenalty: reader.double(),
    promptIgnoreLength: reader.int(),
    topLogProbs: reader.int(),
    beamWidth: reader.int(),
    numReturnBeams: reader.int(),
    lengthPenalty: reader.double(),
    earlyStopping: reader.int() as EarlyStopping, // written by `writeRequest` from a request that was checked
    beamDiversityRate: reader.double(),
    logitsPostProcessor: reader.text(),
    cacheSalt: reader.text(),
    priority: reader.double(),
    draftTokens: reader.ints(),
    draftAcceptanceThreshold: reader.double(),
    maxDraftTokens: reader.int(),
    logProbs: (flags & LOG_PROBS) !== 0,
    promptLogProbs: (flags & PROMPT_LOG_PROBS) !== 0,
    contextLogits: (flags & CONTEXT_LOGITS) !== 0,
    generationLogits: (flags & GENERATION_LOGITS) !== 0,
  };
  const seed = (flags & SEED) === 0 ? undefined : readSeed(reader);
  const logitBias = (flags & LOGIT_BIAS) === 0 ? undefined : reader.floats();
  const promptTable = (flags & PROMPT_TABLE) === 0 ? undefined : { numRows: reader.int(), values: reader.floats() };
  const guide = (flags & GUIDE) === 0 ? undefined : (JSON.parse(reader.text()) as Guide);
  const adapter = (flags & ADAPTER) === 0 ? undefined : readAdapter(reader);
  const retention = (flags & RETENTION) === 0 ? undefined : readRetention(reader);
  const tokenSalts = (flags & TOKEN_SALTS) === 0 ? undefined : new BigUint64Array(reader.ints().slice().buffer);
  const promptPositions = (flags & PROMPT_POSITIONS) === 0 ? undefined : reader.ints();
  const encoderInput = readEncoderInput(reader, flags);
  const extras = { seed, logitBias, promptTable, promptPositions, guide, adapter, retention, tokenSalts, encoderInput };
  return { ...request, ...extras };
}

function readSeed(reader: FrameReader): bigint {
  const low = BigInt.asUintN(32, BigInt(reader.int()));
  return (BigInt.asUintN(32, BigInt(reader.int())) << 32n) | low;
}

function writeRetention(writer: FrameWriter, { ranges, decode }: Retention): void {
  writer.int(ranges.length);
  for (const range of ranges) {
    writer.double(range.start);
    writer.double(range.end);
    writer.double(range.priority);
    writer.double(range.durationMs);
  }
  writer.double(decode.priority);
  writer.double(decode.durationMs);
}

function readRetention(reader: FrameReader): Retention {
  const ranges = Array.from({ length: reader.int() }, () => ({
    start: reader.double(),
    end: reader.double(),
    priority: reader.double(),
    durationMs: reader.double(),
  }));
  return { ranges, decode: { priority: reader.double(), durationMs: reader.double() } };
}

function writeWords(writer: FrameWriter, words: readonly Int32Array[]): void {
  writer.int(words.length);
  for (const word of words) writer.ints(word);
}

function readWords(reader: FrameReader): Int32Array[] {
  const words: Int32Array[] = [];
  for (let left = reader.int(); left > 0; left--) words.push(reader.ints());
  return words;
}
