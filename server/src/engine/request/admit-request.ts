/** Turns a request into a sequence with what its rules need, or refuses it. It starts nothing and waits for nothing. */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { EngineServices } from "../engine-services.ts";
import { tokenKeys } from "../kv/token-keys.ts";
import { BeamGroup } from "../sample/beam-group.ts";
import type { LogitsPostProcessor } from "../sample/logits-post-processor.ts";
import { StopTexts } from "../sample/stop-texts.ts";
import { encoderKey } from "./encoder-input.ts";
import type { GenerateRequest } from "./generate.ts";
import { Sequence, type SequenceLimits, type SequenceSink } from "./sequence.ts";

export interface AdmissionLimits extends SequenceLimits {
  readonly numBlocks: number;
  readonly maxSequences: number;
}

/** @throws ServerError when this engine lacks what the request needs */
export function admitRequest(
  request: GenerateRequest,
  sink: SequenceSink,
  limits: AdmissionLimits,
  services: EngineServices,
): Sequence {
  const sequence = new Sequence(withEncoderKey(request), sink, limits);
  sequence.tokenKeys = tokenKeys(request, limits.vocabSize);
  sequence.postProcess = postProcessorOf(request, services);
  if (request.beamWidth > 1) {
    checkBeams(sequence, limits);
    sequence.group = new BeamGroup(sequence, limits);
  } else if (services.tokenizer !== undefined && request.stopWords.length > 0) {
    sequence.stopTexts = StopTexts.tryCreate(services.tokenizer, request.stopWords);
  }
  addCallerDrafts(sequence);
  if (request.guide !== undefined) sequence.endIds = guidedEndIds(request, services);
  return sequence;
}

/** Keys and values of a prompt depend on the encoder's input. */
function withEncoderKey(request: GenerateRequest): GenerateRequest {
  const { encoderInput, cacheSalt } = request;
  return encoderInput === undefined
    ? request
    : { ...request, cacheSalt: `${cacheSalt}#encoder:${encoderKey(encoderInput)}` };
}

/** The caller's drafts follow the prompt. The last token of a sequence is never computed, so it is not drafted. */
function addCallerDrafts(sequence: Sequence): void {
  const { draftTokens } = sequence.request;
  const count = Math.min(draftTokens.length, sequence.maxLength - 1 - sequence.numTokens);
  if (count <= 0) return;
  sequence.reserve(count);
  sequence.tokens.set(draftTokens.subarray(0, count), sequence.numTokens);
  sequence.numDrafts = count;
}

/** @throws ServerError when as many wait as may; 0 = any number */
export function checkQueue(numWaiting: number, maxWaiting: number): void {
  if (maxWaiting === 0 || numWaiting < maxWaiting) return;
  const message = `Maximum queue size of ${maxWaiting} has been reached, please try again later`;
  throw new ServerError("unavailable", message, { reason: "REJECTED" });
}

/** All beams must fit at once, or they would wait for each other for ever. */
function checkBeams({ request, maxLength }: Sequence, limits: AdmissionLimits): void {
  const { beamWidth } = request;
  const numBlocks = beamWidth * Math.ceil(maxLength / limits.blockSize);
  if (beamWidth <= limits.maxSequences && numBlocks <= limits.numBlocks) return;
  throw invalidArgument(
    `beam_width ${beamWidth} with up to ${maxLength} tokens needs ${beamWidth} sequences and ${numBlocks} cache blocks, ` +
      `the engine has ${limits.maxSequences} and ${limits.numBlocks}: ask for fewer beams or tokens`,
  );
}

/** A guided text must have a way to end. */
function guidedEndIds(request: GenerateRequest, { guides, tokenizer }: EngineServices): Int32Array {
  if (guides === undefined) {
    throw new ServerError("unsupported", "guided decoding needs the model's tokenizer.json, which was not found");
  }
  if (request.endIds.length > 0) return request.endIds;
  const eosId = tokenizer?.eosId;
  if (eosId !== undefined) return Int32Array.of(eosId);
  throw invalidArgument("guided decoding needs an end id: the request and the tokenizer have none");
}

function postProcessorOf(
  { logitsPostProcessor: name }: GenerateRequest,
  { postProcessors }: EngineServices,
): LogitsPostProcessor | undefined {
  const found = postProcessors?.get(name === "" ? "*" : name);
  if (found !== undefined) return namingItself(found, name === "" ? "*" : name);
  if (name === "") return undefined;
  const known = [...(postProcessors?.keys() ?? [])].map((each) => `'${each}'`).join(", ") || "none";
  throw invalidArgument(`no logits post-processor is named '${name}', known are: ${known}`);
}

function namingItself(run: LogitsPostProcessor, name: string): LogitsPostProcessor {
  return (logits, tokens, promptLength) => {
    try {
      run(logits, tokens, promptLength);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new ServerError("internal", `logits post-processor '${name}' failed: ${message}`, { cause });
    }
  };
}
