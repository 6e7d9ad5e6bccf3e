import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Tensor } from "../../core/tensor.ts";
import {
  asIs,
  bool,
  call,
  EXAMPLES,
  fp32,
  int32,
  notDecoupled,
  prompt,
  serve,
  text,
  values,
} from "./llm.test-support.ts";

test("execute() answers once with the output ids and zeros for what was not asked for", async (t) => {
  const { instance } = await serve(t, notDecoupled);
  const { responses, ended } = call(instance, prompt([1, 2, 3], 5));
  assert.equal(await ended, undefined);
  assert.equal(responses.length, 1);
  const ids = values(responses[0], "output_ids");
  assert.deepEqual(ids.shape, [1, 1, 5]);
  assert.deepEqual(values(responses[0], "sequence_length"), { shape: [1, 1], values: [5] });
  assert.deepEqual(values(responses[0], "cum_log_probs"), { shape: [1, 1], values: [0] });
  assert.deepEqual(values(responses[0], "output_log_probs"), { shape: [1, 1, 5], values: [0, 0, 0, 0, 0] });
  assert.deepEqual(values(responses[0], "batch_index"), { shape: [1, 1], values: [0] });
  assert.deepEqual(values(responses[0], "sequence_index"), { shape: [1, 1], values: [0] });
  const few = call(instance, prompt([1, 2, 3], 5, bool("return_log_probs", [1], true)), {
    outputNames: ["cum_log_probs"],
  });
  await few.ended;
  assert.deepEqual(
    few.responses[0]?.outputs.map((output) => output.name),
    ["cum_log_probs"],
  );
  assert.equal((values(few.responses[0], "cum_log_probs").values[0] ?? 0) < 0, true);
});

test("execute() puts the prompt in front unless told otherwise, by parameter or input, and never when streaming", async (t) => {
  const { instance } = await serve(t, (text) => text.replace('string_value: "true"', 'string_value: "false"'));
  const echoed = call(instance, prompt([1, 2, 3], 2));
  await echoed.ended;
  assert.deepEqual(values(echoed.responses[0], "output_ids").values.slice(0, 3), [1, 2, 3]);
  assert.deepEqual(values(echoed.responses[0], "sequence_length").values, [5]);
  assert.deepEqual(values(echoed.responses[0], "output_log_probs").shape, [1, 1, 2]);
  const excluded = call(instance, prompt([1, 2, 3], 2, bool("exclude_input_in_output", [1], true)));
  await excluded.ended;
  assert.deepEqual(values(excluded.responses[0], "sequence_length").values, [2]);
  const streamed = call(instance, prompt([1, 2, 3], 2, bool("streaming", [1], true)));
  await streamed.ended;
  assert.deepEqual(
    streamed.responses.map((response) => values(response, "sequence_length").values),
    [[1], [1]],
  );
});

test("execute() streams new ids only, one response a step, the last one final", async (t) => {
  const { instance } = await serve(t, asIs);
  const whole = call(instance, prompt([4, 5], 8));
  await whole.ended;
  const streamed = call(instance, prompt([4, 5], 8, bool("streaming", [1], true)));
  await streamed.ended;
  const ids = streamed.responses.flatMap((response) => values(response, "output_ids").values);
  assert.deepEqual(ids, values(whole.responses[0], "output_ids").values);
  assert.deepEqual(
    streamed.responses.map((response) => response.final),
    [false, false, false, false, false, false, false, true],
  );
});

test("execute() splits a batched request into rows that give what they give alone", async (t) => {
  const inputs = [
    int32("input_ids", [2, 3], 1, 2, 3, 9, 0, 0),
    int32("input_lengths", [2], 3, 1),
    int32("request_output_len", [2], 4, 6),
    int32("stop_words_list", [2, 2, 0]),
  ];
  const plain = await serve(t, notDecoupled);
  const first = call(plain.instance, prompt([1, 2, 3], 4));
  const second = call(plain.instance, prompt([9], 6));
  const both = call(plain.instance, inputs, { batchSize: 2 });
  await Promise.all([first.ended, second.ended, both.ended]);
  const one = values(first.responses[0], "output_ids").values;
  const two = values(second.responses[0], "output_ids").values;
  assert.deepEqual(values(both.responses[0], "output_ids"), { shape: [2, 1, 6], values: [...one, -1, -1, ...two] });
  assert.deepEqual(values(both.responses[0], "sequence_length"), { shape: [2, 1], values: [4, 6] });
  const decoupled = await serve(t, asIs);
  const split = call(decoupled.instance, inputs, { batchSize: 2 });
  await split.ended;
  const byIndex = new Map(
    split.responses.map((each) => [values(each, "batch_index").values[0], values(each, "output_ids").values]),
  );
  assert.deepEqual([byIndex.get(0), byIndex.get(1)], [one, two]);
  assert.deepEqual(
    split.responses.map((each) => each.final),
    [false, true],
  );
});

test("execute() obeys word lists, end id, scalar widths and sampling inputs", async (t) => {
  const { instance } = await serve(t, notDecoupled);
  const run = async (...more: Tensor[]): Promise<number[]> => {
    const { responses, ended } = call(instance, prompt([7, 8], 10, ...more));
    assert.equal(await ended, undefined);
    return values(responses[0], "output_ids").values;
  };
  const free = await run();
  const [a = 0, b = 0, c = 0] = free;
  assert.deepEqual(await run(int32("stop_words_list", [1, 2, 4], 63, b, c, 0, 1, 3, -1, -1)), [a, b, c]);
  assert.deepEqual(await run(int32("stop_words_list", [2, 2], b, c, 2, -1)), [a, b, c]);
  assert.deepEqual(await run(int32("end_id", [1], b)), [a]);
  assert.deepEqual(await run(int32("end_id", [1], -1)), free);
  const banned = await run(int32("bad_words_list", [1, 2, 1], a, 1));
  assert.equal(banned.includes(a), false);
  const sampling = [fp32("temperature", [1], 0.8), int32("runtime_top_k", [1], 30), fp32("runtime_top_p", [1], 0.95)];
  const zero: Tensor = { name: "random_seed", datatype: "UINT64", shape: [1], data: new Uint8Array(8) };
  const sampled = await run(...sampling, zero);
  assert.deepEqual(await run(...sampling, zero), sampled);
  const unseeded = new Set<string>();
  for (let i = 0; i < 5; i++) unseeded.add((await run(...sampling)).join());
  assert.equal(unseeded.size, 5);
  const seed: Tensor = {
    name: "random_seed",
    datatype: "UINT64",
    shape: [1],
    data: new Uint8Array(BigUint64Array.of(2n ** 64n - 1n).buffer),
  };
  assert.notDeepEqual(await run(...sampling, seed), sampled);
  const long: Tensor = { ...seed, name: "runtime_top_k", datatype: "INT64" };
  const topK = { ...long, data: new Uint8Array(BigInt64Array.of(1n).buffer) };
  assert.deepEqual(await run(fp32("temperature", [1], 0.8), topK), free);
});

test("execute() refuses what it cannot do, naming the input", async (t) => {
  const { instance } = await serve(t, notDecoupled);
  const cases: [Tensor[], RegExp][] = [
    [prompt([1], 1, bool("streaming", [1], true)), /^Streaming is only supported if model is deployed using decoupled/],
    [prompt([1], 1, int32("beam_width", [1], 5)), /'beam_width' is 5, expected at most 4/],
    [prompt([1], 1, int32("beam_width", [1], 2), int32("early_stopping", [1], 3)), /'early_stopping' is 3/],
    [
      prompt([1], 1, int32("beam_width", [1], 2), int32("num_return_sequences", [1], 3)),
      /number of beams returned is 3, expected 1 to 2/,
    ],
    [prompt([1], 1, int32("num_return_sequences", [1], 3)), /'num_return_sequences' is 3: .* decoupled mode/],
    [prompt([1], 1, text("guided_decoding_guide_type", "poem")), /'guided_decoding_guide_type' is 'poem'/],
    [prompt([1], 1, text("guided_decoding_guide_type", "regex")), /guide type 'regex' needs/],
    [prompt([1], 1, text("guided_decoding_guide", "a+")), /needs 'guided_decoding_guide_type'/],
    [
      prompt([1], 1, text("guided_decoding_guide_type", "regex"), text("guided_decoding_guide", "(")),
      /the guide cannot be compiled: Regex parsing error at position 2/,
    ],
    [prompt([1], 1, text("logits_post_processor_name", "x")), /no logits post-processor is named 'x'/],
    [prompt([1], 1, int32("draft_input_ids", [1, 1], 999)), /draft id 999 at position 0 is outside the vocabulary/],
    [prompt([1], 1, int32("decoder_input_ids", [1, 2], 4, 5)), /'decoder_input_ids' has 2 tokens: .* no encoder/],
    [
      prompt([1], 1, int32("stop_words_list", [1, 2, 2], 5, 6, 2, 1)),
      /word 1 ends at 1, expected an offset from 3 to 2/,
    ],
    [prompt([1], 1, int32("bad_words_list", [1, 2, 1], 5, 9)), /'bad_words_list': word 0 ends at 9/],
    [prompt([999], 1), /input id 999 at position 0 is outside the vocabulary/],
    [
      [int32("input_ids", [1, 1], 1), int32("input_lengths", [1], 2), int32("request_output_len", [1], 1)],
      /'input_lengths' is 2/,
    ],
    [[int32("input_ids", [1, 1], 1), int32("input_lengths", [1], 1)], /'request_output_len' is missing/],
    [prompt([1], 1, bool("stop", [1], true)), /Cannot send stop request without specifying a request_id/],
  ];
  for (const [inputs, message] of cases) assert.match((await call(instance, inputs).ended)?.message ?? "", message);
});

test("execute() ends a request when its client leaves or a stop request names its id", async (t) => {
  const { instance, metrics } = await serve(t, asIs);
  const controller = new AbortController();
  const left = call(instance, prompt([1], 200, bool("streaming", [1], true)), { signal: controller.signal });
  const stopped = call(instance, prompt([2], 200, bool("streaming", [1], true)), { id: "mine" });
  while (left.responses.length === 0 || stopped.responses.length === 0) await sleep(2);
  controller.abort();
  assert.equal((await left.ended)?.code, "cancelled");
  const stop = call(instance, [bool("stop", [1], true)], { id: "mine" });
  assert.equal(await stop.ended, undefined);
  assert.deepEqual(stop.responses, [{ outputs: [], final: true }]);
  assert.equal(await stopped.ended, undefined);
  assert.equal(stopped.responses.length < 200, true);
  const family = metrics.find(({ name }) => name === "nv_trt_llm_request_metrics");
  const active = (): number | undefined =>
    [...(family?.collect() ?? [])].find(({ labels }) => labels.request_type === "active")?.value;
  while (active() !== 0) await sleep(2);
});

test("load() names placeholders and parameters without effect once each, and a folder without a model", async (t) => {
  const parameter = (key: string, value: string): string =>
    `parameters { key: "${key}" value: { string_value: "${value}" } }\n`;
  const { warnings } = await serve(
    t,
    (text) =>
      text +
      parameter("engine_dir", `\${engine_dir}`) +
      parameter("cross_kv_cache_fraction", "0.5") +
      parameter("max_num_token", "64") +
      parameter("batch_scheduler_policy", "best"),
  );
  const unknown = "parameters unknown, ignored: max_num_token (did you mean max_num_tokens?)";
  assert.equal(warnings.includes(`model 'tensorrt_llm': ${unknown}`), true, warnings.join());
  assert.deepEqual(warnings.slice(0, 3), [
    "model 'tensorrt_llm': parameters left as placeholders count as not set: engine_dir",
    "model 'tensorrt_llm': batch_scheduler_policy is 'best', expected max_utilization or guaranteed_no_evict: taking the latter",
    "model 'tensorrt_llm': parameters not applicable on this device: cross_kv_cache_fraction",
  ]);
  const ofTemplate = await serve(
    t,
    (text) => text + parameter("num_draft_tokens", "4") + parameter("triton_backend", "python"),
  );
  assert.deepEqual(
    ofTemplate.warnings.filter((line) => line.includes("unknown")),
    [],
  );
  await assert.rejects(
    serve(t, (text) => text.replace("../../nereid-tiny/language_model", "nowhere")),
    /no config.json of a Hugging Face model and no GGUF file in .*tensorrt_llm\/nowhere or .*tensorrt_llm\/1\/nowhere; set the parameter/,
  );
  await assert.rejects(
    serve(t, (text) => text + parameter("enable_kv_cache_reuse", "maybe")),
    /parameter 'enable_kv_cache_reuse' is 'maybe', expected true or false/,
  );
  await assert.rejects(
    serve(t, (text) => text + parameter("weight_type", "int3")),
    /parameter 'weight_type' is 'int3', expected f32, f16, bf16, q8_0, q4_0, q4_1, stored, fp8, int4/,
  );
});

test("the example model on the real engine continues the recorded prompts greedily", async (t) => {
  const golden = JSON.parse(readFileSync(`${EXAMPLES}nereid-tiny/golden_text.json`, "utf8")) as {
    input_ids: number[];
    output_ids: number[];
  }[];
  const { instance } = await serve(t, asIs, {});
  const calls = golden.map(({ input_ids: ids, output_ids: expected }) =>
    call(instance, prompt(ids, expected.length, int32("end_id", [1], -1))),
  );
  await Promise.all(calls.map((each) => each.ended));
  for (const [i, { output_ids: expected }] of golden.entries()) {
    assert.deepEqual(values(calls[i]?.responses[0], "output_ids").values, expected, `prompt ${i}`);
  }
});

test("an FP8 model needs a GPU, and says so", async (t) => {
  await assert.rejects(
    serve(t, (text) => `${text}parameters { key: "weight_type" value: { string_value: "fp8" } }\n`),
    /parameter 'weight_type' is 'fp8', which needs an instance group of KIND_GPU/,
  );
});

test("an FP8 output matrix needs a GPU and matrices of fewer bits, and says so", async (t) => {
  const wanted = `parameters { key: "quantize_lm_head" value: { string_value: "true" } }\n`;
  await assert.rejects(
    serve(t, (text) => text + wanted),
    /parameter 'quantize_lm_head' is 'true', which needs an instance group of KIND_GPU/,
  );
  const bf16 = `parameters { key: "weight_type" value: { string_value: "bf16" } }\n`;
  await assert.rejects(
    serve(t, (text) => text + wanted + bf16),
    /quantize_lm_head.*expected false, or weight_type fp8, int4 or none/,
  );
});

test("the real engine keeps weights in the type that weight_type names", async (t) => {
  const parameter = `parameters { key: "weight_type" value: { string_value: "q8_0" } }\n`;
  const { instance } = await serve(t, (text) => text + parameter, {});
  const answered = call(instance, prompt([5, 6, 7], 4));
  await answered.ended;
  assert.equal(values(answered.responses[0], "output_ids").values.length, 4);
});

test("the metrics tell the size of the engine before it has run", async (t) => {
  const { metrics } = await serve(t, asIs);
  const value = (name: string, label: string): number | undefined =>
    [...(metrics.find((family) => family.name === name)?.collect() ?? [])].find(({ labels }) =>
      Object.values(labels).includes(label),
    )?.value;
  while (value("nv_trt_llm_kv_cache_block_metrics", "max") === 0) await sleep(2);
  assert.equal(value("nv_trt_llm_kv_cache_block_metrics", "max"), 128);
  assert.equal(value("nv_trt_llm_kv_cache_block_metrics", "free"), 128);
  assert.equal(value("nv_trt_llm_request_metrics", "max"), 64);
  assert.equal((value("nv_trt_llm_runtime_memory_metrics", "cpu") ?? 0) > 2 ** 20, true);
});
