/** The metrics page of a server with a language model: valid, complete, and right about what happened. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { eventually, readMetric } from "../support/probe-server.ts";
import { type Family, parseMetricsPage, sumOf } from "../support/prometheus-text.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

let server: ServerProcess;

before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
});
after(() => server.stop());

async function readPage(): Promise<Map<string, Family>> {
  return parseMetricsPage(await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text());
}

async function generate(body: object): Promise<number> {
  const url = `${server.baseUrl}/v2/models/ensemble/generate`;
  const reply = await fetch(url, { method: "POST", body: JSON.stringify({ text_input: "Once upon a time", ...body }) });
  await reply.arrayBuffer();
  return reply.status;
}

const ENGINE = { model: "tensorrt_llm", version: "1" };
const LABELLED: readonly (readonly [string, string, readonly string[]])[] = [
  ["nv_trt_llm_request_metrics", "request_type", ["active", "max", "scheduled", "context", "waiting"]],
  ["nv_trt_llm_runtime_memory_metrics", "memory_type", ["cpu", "gpu", "pinned"]],
  [
    "nv_trt_llm_kv_cache_block_metrics",
    "kv_cache_block_type",
    ["max", "free", "used", "tokens_per", "reused", "fraction"],
  ],
  [
    "nv_trt_llm_inflight_batcher_metrics",
    "inflight_batcher_specific_metric",
    ["total_context_tokens", "generation_requests", "micro_batch_id", "paused_requests"],
  ],
  [
    "nv_trt_llm_v1_metrics",
    "v1_specific_metric",
    ["total_context_tokens", "total_generation_tokens", "empty_generation_slots"],
  ],
  ["nv_trt_llm_general_metrics", "general_type", ["timestamp", "iteration_counter"]],
];

for (const [family, label, values] of LABELLED) {
  test(`the metrics page has ${family} with every ${label}`, async () => {
    const page = await readPage();
    assert.equal(page.get(family)?.type, "gauge");
    for (const value of values) sumOf(page, family, { ...ENGINE, [label]: value });
  });
}

test("the metrics page counts tokens, times and endings of requests by the names of all its readers", async () => {
  const before = await readPage();
  assert.equal(await generate({ max_tokens: 12, min_length: 12 }), 200);
  assert.equal(await generate({ max_tokens: 5, min_length: 5 }), 200);
  assert.equal(await generate({ max_tokens: 60, stop_words: ["a", "e", "."] }), 200);
  assert.equal(await generate({ max_tokens: 12, temperature: -1 }), 400);
  const page = await readPage();
  const vllm = { model_name: "tensorrt_llm" };
  const growth = (name: string, labels: Record<string, string>, suffix = ""): number =>
    sumOf(page, name, labels, suffix) - sumOf(before, name, labels, suffix);
  assert.equal(growth("vllm:request_success_total", { ...vllm, finished_reason: "length" }), 2);
  assert.equal(growth("vllm:request_success_total", { ...vllm, finished_reason: "stop" }), 1);
  assert.equal(growth("vllm:request_success_total", { ...vllm, finished_reason: "abort" }), 0);
  assert.equal(growth("vllm:time_to_first_token_seconds", vllm, "_count"), 3);
  assert.equal(growth("vllm:e2e_request_latency_seconds", vllm, "_count"), 3);
  assert.equal(growth("vllm:request_queue_time_seconds", vllm, "_count"), 3);
  const generated = growth("vllm:generation_tokens_total", vllm);
  assert.ok(generated > 17 && generated < 77, `${generated} tokens`);
  assert.equal(growth("vllm:inter_token_latency_seconds", vllm, "_count"), generated - 3);
  assert.equal(growth("nv_llm_output_token_len", ENGINE, "_sum"), generated);
  assert.equal(growth("vllm:prompt_tokens_total", vllm), growth("nv_llm_input_token_len", ENGINE, "_sum"));
  assert.equal(growth("nv_llm_time_to_first_token_seconds", ENGINE, "_count"), 3);
  assert.equal(growth("nv_llm_inter_token_latency_seconds", ENGINE, "_count"), generated - 3);
  assert.equal(
    sumOf(page, "nv_llm_output_token_len", { response_metric_type: "total_output_tokens", le: "10" }, "_bucket") >= 1,
    true,
  );
  assert.equal(growth("nv_inference_request_success", { model: "ensemble" }), 3);
  // An engine computes after it has taken a batch, and that counts: no less than from the first token to the last.
  const computedS = growth("nv_inference_compute_infer_duration_us", { model: "tensorrt_llm" }) / 1e6;
  assert.ok(computedS > growth("vllm:inter_token_latency_seconds", vllm, "_sum") * 0.9, `${computedS} s`);
  // As in Triton: the step's failure and the request's.
  assert.equal(growth("nv_inference_request_failure", { model: "ensemble" }), 2);
});

test("the metrics page tells the KV cache's size and use alike under both names", async () => {
  const max = await readMetric(server, "nv_trt_llm_kv_cache_block_metrics", '"max"');
  const page = await readPage();
  const info = page.get("vllm:cache_config_info")?.series[0];
  assert.equal(info?.value, 1);
  assert.equal(Number(info?.labels.num_gpu_blocks), max);
  assert.equal(
    Number(info?.labels.block_size),
    sumOf(page, "nv_trt_llm_kv_cache_block_metrics", { kv_cache_block_type: "tokens_per" }),
  );
  await eventually(
    () => readMetric(server, "vllm:kv_cache_usage_perc"),
    (value) => value === 0,
  );
});

test("the metrics page shows requests while they run, and none afterwards", async () => {
  const running = generate({ max_tokens: 400, min_length: 400 });
  const seen = await eventually(
    () => readMetric(server, "vllm:num_requests_running"),
    (value) => value === 1,
  );
  assert.equal(seen, await readMetric(server, "nv_trt_llm_request_metrics", '"scheduled"'));
  assert.equal(await readMetric(server, "vllm:num_requests_waiting"), 0);
  assert.equal(await running, 200);
  await eventually(
    () => readMetric(server, "vllm:num_requests_running"),
    (value) => value === 0,
  );
});
