import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { type EncoderFacts, numInputTokens, placePrompt, readEncoded } from "./encoder-inputs.ts";
import { RowInputs } from "./row-inputs.ts";

const TEXT: EncoderFacts = {
  encoder: { kind: "tokens", maxRows: 8, vocabSize: 50 },
  startTokenIds: [2, 7],
  padTokenId: 1,
};
const SOUND: EncoderFacts = { encoder: { kind: "frames", maxRows: 4, width: 3 }, startTokenIds: [5] };

function ints(name: string, ...values: readonly number[]): Tensor {
  return {
    name,
    datatype: "INT32",
    shape: [1, values.length],
    data: new Uint8Array(Int32Array.from(values).buffer),
  };
}

function frames(count: number): Tensor {
  const data = new Uint8Array(new Float32Array(3 * count).fill(0.5).buffer);
  return { name: "encoder_input_features", datatype: "FP32", shape: [1, count, 3], data };
}

const read = (facts: EncoderFacts, ...tensors: readonly Tensor[]) =>
  readEncoded(new RowInputs(tensors, 0, 1), facts, () => Int32Array.of(9, 8));

test("readEncoded() takes 'input_ids' for the encoder, and begins the decoder as the request or the model says", () => {
  const encoderInput = { kind: "tokens", tokens: Int32Array.of(9, 8) };
  const start = Int32Array.of(2, 7);
  assert.deepEqual(read(TEXT), { encoderInput, promptTokens: start });
  assert.deepEqual(read(TEXT, ints("decoder_input_ids", 1)), { encoderInput, promptTokens: start });
  const given = [ints("decoder_input_ids", 4, 6, 1, 1), ints("decoder_input_lengths", 2)];
  assert.deepEqual(read(TEXT, ...given), { encoderInput, promptTokens: Int32Array.of(4, 6) });
  assert.equal(numInputTokens(read(TEXT)), 2);
});

test("readEncoded() takes frames for an encoder of sound, and refuses rows that they do not become", () => {
  const { encoderInput, promptTokens } = read(SOUND, frames(5), ints("encoder_output_lengths", 3));
  assert.deepEqual([encoderInput?.kind, promptTokens], ["frames", Int32Array.of(5)]);
  assert.throws(() => read(SOUND, frames(5), ints("encoder_output_lengths", 2)), /is 2, expected 3, half of 5 frames/);
  assert.throws(() => read(SOUND), /'encoder_input_features' is missing: .* reads sound/);
  assert.throws(() => read(TEXT, frames(2)), /the encoder of this model reads 'input_ids'/);
});

test("readEncoded() refuses inputs of an encoder for a model without one, and a decoder without a beginning", () => {
  assert.deepEqual(read({}), { promptTokens: Int32Array.of(9, 8) });
  assert.throws(() => read({}, frames(2)), /this model has no encoder/);
  assert.throws(() => read({}, ints("decoder_input_ids", 3, 4)), /has 2 tokens: this model has no encoder/);
  assert.throws(() => read({ ...TEXT, startTokenIds: [] }), /name no decoder_start_token_id/);
  const long = [ints("decoder_input_ids", 3), ints("decoder_input_lengths", 2)];
  assert.throws(() => read(TEXT, ...long), /'decoder_input_lengths' is 2, expected 0 to 1/);
});

test("placePrompt() gives a text to the encoder, and refuses one for an encoder of sound", () => {
  const tokens = Int32Array.of(3);
  assert.deepEqual(placePrompt(tokens, {}), { promptTokens: tokens });
  const placed = { promptTokens: Int32Array.of(2, 7), encoderInput: { kind: "tokens", tokens } };
  assert.deepEqual(placePrompt(tokens, TEXT), placed);
  assert.throws(() => placePrompt(tokens, SOUND), /reads sound: send it to \/v1\/audio\/transcriptions/);
});
