/**
 * Inputs of models with an encoder, by the names of TensorRT-LLM: what the encoder reads, and the prompt of the decoder. Pure.
 * Source: TensorRT-LLM's `inflight_batcher_llm/tensorrt_llm` and `all_models/whisper`.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { EngineInfo } from "../../engine/engine-spec.ts";
import { type EncoderInput, encoderRows } from "../../engine/request/encoder-input.ts";
import type { GenerateRequest } from "../../engine/request/generate.ts";
import type { RowInputs } from "./row-inputs.ts";

/** How the encoder of a model takes its input; without `encoder` the model has none. */
export type EncoderFacts = Pick<EngineInfo, "encoder" | "startTokenIds" | "padTokenId">;

export type EncodedPrompt = Pick<GenerateRequest, "promptTokens" | "encoderInput">;

/** `readPrompt` gives the ids of `input_ids`. @throws ServerError naming the input that is wrong or missing */
export function readEncoded(inputs: RowInputs, facts: EncoderFacts, readPrompt: () => Int32Array): EncodedPrompt {
  const { encoder } = facts;
  if (encoder === undefined) {
    refuseEncoderInputs(inputs);
    return { promptTokens: readPrompt() };
  }
  const promptTokens = readDecoderPrompt(inputs, facts);
  if (encoder.kind === "frames") return { promptTokens, encoderInput: readFrames(inputs) };
  if (inputs.has("encoder_input_features"))
    throw invalidArgument("input 'encoder_input_features': the encoder of this model reads 'input_ids'");
  return { promptTokens, encoderInput: { kind: "tokens", tokens: readPrompt() } };
}

/** Ids of a text for the encoder or, without one, for the decoder. @throws ServerError for an encoder of sound */
export function placePrompt(tokens: Int32Array, facts: EncoderFacts): EncodedPrompt {
  const { encoder } = facts;
  if (encoder === undefined) return { promptTokens: tokens };
  if (encoder.kind === "frames")
    throw new ServerError("unsupported", "the model reads sound: send it to /v1/audio/transcriptions");
  return { promptTokens: startOf(facts), encoderInput: { kind: "tokens", tokens } };
}

/** Tokens of the prompt, as usage counts them. */
export function numInputTokens({ promptTokens, encoderInput }: EncodedPrompt): number {
  return encoderInput?.kind === "tokens" ? encoderInput.tokens.length : promptTokens.length;
}

function readDecoderPrompt(inputs: RowInputs, facts: EncoderFacts): Int32Array {
  const given = inputs.ints("decoder_input_ids");
  const length = inputs.int("decoder_input_lengths") ?? given?.length ?? 0;
  if (length < 0 || length > (given?.length ?? 0)) {
    throw invalidArgument(
      `input 'decoder_input_lengths' is ${length}, expected 0 to ${given?.length ?? 0}, the length of 'decoder_input_ids'`,
    );
  }
  const ids = given?.subarray(0, length);
  // Pipelines send a padding token when nobody asked for a prompt.
  const isGiven = ids !== undefined && length > 0 && !(length === 1 && ids[0] === facts.padTokenId);
  return isGiven ? ids : startOf(facts);
}

function startOf({ startTokenIds = [] }: EncoderFacts): Int32Array {
  if (startTokenIds.length > 0) return Int32Array.from(startTokenIds);
  throw invalidArgument(
    "input 'decoder_input_ids' is missing, and the model's files name no decoder_start_token_id to begin with",
  );
}

function readFrames(inputs: RowInputs): EncoderInput {
  const values = inputs.floats("encoder_input_features");
  const numFrames = inputs.matrixRows("encoder_input_features");
  if (values === undefined || values.length === 0 || numFrames === 0)
    throw invalidArgument("input 'encoder_input_features' is missing: the encoder of this model reads sound");
  const input: EncoderInput = { kind: "frames", values, width: values.length / numFrames };
  const declared = inputs.int("encoder_output_lengths");
  const rows = encoderRows(input);
  if (declared === undefined || declared === rows) return input;
  throw invalidArgument(
    `input 'encoder_output_lengths' is ${declared}, expected ${rows}, half of ${numFrames} frames: send frames without padding`,
  );
}

/** A pipeline always sends a decoder's prompt, of one padding token when nobody asked for any. */
function refuseEncoderInputs(inputs: RowInputs): void {
  if (inputs.has("encoder_input_features"))
    throw new ServerError(
      "unsupported",
      "input 'encoder_input_features' is not supported by this engine: this model has no encoder",
    );
  const length = inputs.int("decoder_input_lengths") ?? inputs.ints("decoder_input_ids")?.length ?? 0;
  if (length <= 1) return;
  throw new ServerError(
    "unsupported",
    `input 'decoder_input_ids' has ${length} tokens: this model has no encoder, its prompt is 'input_ids'`,
  );
}
