/** Speculative decoding and the deterministic mode as a client sees them: parameters, inputs, outputs, metrics. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import type { MetricFamily } from "../../observe/metrics.ts";
import type { BackendResponse, ModelInstance } from "../backend.ts";
import { bool, call, EXAMPLES, FAKE, fp32, int32, notDecoupled, prompt, serve, values } from "./llm.test-support.ts";

const OUTPUTS = ["output_ids", "acceptance_rate", "total_accepted_draft_tokens", "total_draft_tokens"];
const DECLARED = OUTPUTS.slice(1)
  .map(
    (name) => `{ name: "${name}" data_type: ${name === "acceptance_rate" ? "TYPE_FP32" : "TYPE_INT32"} dims: [ 1 ] }`,
  )
  .join(",\n");

/** The configuration with these parameters, and outputs for the figures. */
function withParameters(given: Readonly<Record<string, string>>): (text: string) => string {
  const parameters = Object.entries(given).map(
    ([key, value]) => `parameters: { key: "${key}" value: { string_value: "${value}" } }`,
  );
  return (text) => `${notDecoupled(text)}\noutput [ ${DECLARED} ]\n${parameters.join("\n")}\n`;
}

async function ask(instance: ModelInstance, inputs: readonly Tensor[]): Promise<BackendResponse | undefined> {
  const { responses, ended } = call(instance, inputs, { outputNames: OUTPUTS });
  assert.equal(await ended, undefined);
  return responses[0];
}

const newOnly = bool("exclude_input_in_output", [1], true);
const figures = bool("return_perf_metrics", [1], true);

test("execute() tries draft_input_ids and tells how many came true", async (t) => {
  const { instance } = await serve(t, withParameters({}));
  const plain = await ask(instance, prompt([3, 4], 8, newOnly, figures));
  const { values: ids } = values(plain, "output_ids");
  assert.deepEqual(values(plain, "total_draft_tokens").values, [0]);
  assert.deepEqual(values(plain, "acceptance_rate").values, [0]);
  const drafts = [...ids.slice(0, 3), (ids[3] ?? 0) ^ 1, -1];
  const drafted = await ask(instance, prompt([3, 4], 8, newOnly, figures, int32("draft_input_ids", [1, 5], ...drafts)));
  assert.deepEqual(values(drafted, "output_ids").values, ids);
  assert.deepEqual(values(drafted, "total_draft_tokens").values, [4]);
  assert.deepEqual(values(drafted, "total_accepted_draft_tokens").values, [3]);
  assert.deepEqual(values(drafted, "acceptance_rate"), { shape: [1, 1], values: [0.75] });
  const threshold = fp32("draft_acceptance_threshold", [1], 1e-6);
  const likely = await ask(
    instance,
    prompt([3, 4], 8, newOnly, int32("draft_input_ids", [1, 4], ...drafts.slice(0, 4)), threshold),
  );
  assert.deepEqual(values(likely, "output_ids").values.slice(0, 4), drafts.slice(0, 4));
});

test("execute() refuses draft_logits that do not belong to the draft ids", async (t) => {
  const { instance } = await serve(t, withParameters({}));
  const logits: Tensor = { name: "draft_logits", datatype: "FP32", shape: [1, 2, 64], data: new Uint8Array(512) };
  const { ended } = call(instance, prompt([3], 4, int32("draft_input_ids", [1, 3], 5, 6, 7), logits));
  assert.match((await ended)?.message ?? "", /'draft_logits' has 2 rows, expected one per draft id \(3\)/);
});

test("load() refuses a draft model that is not there, naming the folder", async (t) => {
  const load = serve(t, withParameters({ speculative_model: "nowhere" }), FAKE);
  await assert.rejects(load, /parameter 'speculative_model': no config.json .* in .*\/tensorrt_llm\/nowhere/);
});

test("createInstance() refuses a draft model with another vocabulary", async (t) => {
  const modelDir = new URL("../../../../tests/parity/models/llama-2", import.meta.url).pathname;
  const load = serve(t, withParameters({ speculative_model: modelDir }), {});
  await assert.rejects(load, /the draft model in .*llama-2 has a vocabulary of \d+, expected 6144 as the model's/);
});

test("execute() gives with a draft model, deterministic, what it gives without, and counts on the metrics page", async (t) => {
  const speculative_model = `${EXAMPLES}nereid-tiny/language_model`;
  const plain = await serve(t, withParameters({ deterministic: "true" }), {});
  const given = { deterministic: "true", speculative_model, num_draft_tokens: "4" };
  const { instance, metrics } = await serve(t, withParameters(given), {});
  const inputs = prompt([1, 3, 4869, 264, 881, 544, 1627, 3054, 226, 4], 24, newOnly, figures);
  const drafted = await ask(instance, inputs);
  assert.deepEqual(values(drafted, "output_ids"), values(await ask(plain.instance, inputs), "output_ids"));
  const [accepted = 0] = values(drafted, "total_accepted_draft_tokens").values;
  assert.ok(accepted >= 15, `${accepted} drafts came true`);
  assert.deepEqual(drawn(metrics).accepted, accepted);
});

/** Recorded by record_draft_heads.py. */
const HEADS = new URL("../../../../tests/parity/draft-heads/", import.meta.url).pathname;
const HEAD_CASES = [
  { modelDir: `${HEADS}llama/model`, given: { speculative_model: `${HEADS}llama/eagle3`, decoding_mode: "eagle" } },
  { modelDir: `${HEADS}deepseek`, given: { speculative_mtp: "true" } },
];

for (const { modelDir, given } of HEAD_CASES) {
  test(`execute() gives with ${Object.keys(given).join(" and ")} what it gives without`, async (t) => {
    const plain = await serve(t, withParameters({ gpt_model_path: modelDir, weight_type: "f32" }), {});
    const parameters = { gpt_model_path: modelDir, weight_type: "f32", num_draft_tokens: "3", ...given };
    const { instance, metrics } = await serve(t, withParameters(parameters), {});
    const inputs = prompt([5, 9, 44, 78, 100, 31], 24, newOnly, figures);
    const drafted = await ask(instance, inputs);
    assert.deepEqual(values(drafted, "output_ids"), values(await ask(plain.instance, inputs), "output_ids"));
    const [tried = 0] = values(drafted, "total_draft_tokens").values;
    assert.ok(tried > 0, "no draft tokens");
    assert.equal(drawn(metrics).tried ?? tried, tried);
  });
}

test("createInstance() refuses draft heads of other models, and models without a layer of multi-token prediction", async (t) => {
  const other = { gpt_model_path: `${HEADS}deepseek`, speculative_model: `${HEADS}llama/eagle3` };
  await assert.rejects(
    serve(t, withParameters(other), {}),
    /an EAGLE-3 head reads hidden states of a model of 4 layers at least, got 2/,
  );
  const without = { gpt_model_path: `${HEADS}llama/model`, speculative_mtp: "true" };
  await assert.rejects(
    serve(t, withParameters(without), {}),
    /the model has no layer of multi-token prediction: expected a tensor model\.layers\.7\.eh_proj\.weight/,
  );
});

function drawn(metrics: readonly MetricFamily[]): Record<string, number> {
  const family = metrics.find(({ name }) => name === "nereid_llm_draft_tokens");
  assert.ok(family !== undefined, "a family of draft tokens");
  return Object.fromEntries([...family.collect()].map(({ labels, value }) => [labels.kind, value]));
}
