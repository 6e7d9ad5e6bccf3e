import assert from "node:assert/strict";
import { test } from "node:test";
import { readVllmSampling } from "./vllm-sampling.ts";

test("readVllmSampling() has vLLM's defaults", () => {
  const { n, temperature, topP, topK, maxTokens, stop, logProbs, seed } = readVllmSampling({});
  assert.deepEqual(
    [n, temperature, topP, topK, maxTokens, stop, logProbs, seed],
    [1, 1, 1, 0, 16, [], undefined, undefined],
  );
});

test("readVllmSampling() takes numbers and flags as texts, and null as nothing", () => {
  const read = readVllmSampling({
    temperature: "0.25",
    top_k: -1,
    max_tokens: "7",
    ignore_eos: "true",
    stop: "END",
    bad_words: ["a", ""],
    logprobs: 2,
    logit_bias: { "5": -3 },
    seed: null,
    prompt_logprobs: 3,
    structured_outputs: '{"choice": ["yes", "no"]}',
    lora_name: "x",
  });
  assert.deepEqual([read.temperature, read.topK, read.maxTokens, read.ignoresEos], [0.25, 0, 7, true]);
  assert.deepEqual([read.stop, read.badWords, read.logProbs, [...read.logitBias]], [["END"], ["a"], 2, [[5, -3]]]);
  assert.deepEqual([read.guide, read.loraName], [{ type: "choice", text: '["yes","no"]' }, "x"]);
});

test("a temperature of 0 is greedy whatever else is asked for", () => {
  const { topK, topP, minP } = readVllmSampling({ temperature: 0, top_k: 40, top_p: 0.9, min_p: 0.1 });
  assert.deepEqual([topK, topP, minP], [1, 0, 0]);
});

for (const [values, message] of [
  [{ max_tokens: 0 }, /^max_tokens must be at least 1, got 0\.$/],
  [{ temperature: -1 }, /^temperature must be at least 0, got -1\.$/],
  [{ top_p: 2 }, /^top_p must be in \[0, 1\], got 2\.$/],
  [{ n: 1.5 }, /^n must be an integer, got 1\.5\.$/],
  [{ stop: [1] }, /^stop must be a string or a list of strings/],
  [{ best_of: 3 }, /^sampling parameter 'best_of' is not supported by this engine$/],
  [{ max_tokns: 3 }, /^Unexpected keyword argument 'max_tokns'$/],
  [{ structured_outputs: { json: {}, regex: "a" } }, /^structured_outputs must have one of json/],
  [{ structured_outputs: "{" }, /^structured_outputs must be a JSON object/],
] as const) {
  test(`readVllmSampling() refuses ${JSON.stringify(values)}`, () => {
    assert.throws(() => readVllmSampling(values), { message });
  });
}
