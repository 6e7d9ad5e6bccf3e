import assert from "node:assert/strict";
import { test } from "node:test";
import { llmApiArguments } from "./llmapi-arguments.ts";
import { vllmArguments } from "./vllm-arguments.ts";

const CPU = { hasGpus: false, folder: "/models/m/1", source: "file" };
const GPU = { ...CPU, hasGpus: true };

test("llmApiArguments() translates nested arguments into the engine's parameters", () => {
  const found = llmApiArguments(
    {
      model: "org/tiny",
      tokenizer: "/tok",
      tensor_parallel_size: 2,
      max_batch_size: 8,
      max_seq_len: 512,
      build_config: { max_input_len: 300, max_num_tokens: 1024 },
      kv_cache_config: { enable_block_reuse: false, max_attention_window: [64, 128], free_gpu_memory_fraction: 0.4 },
      scheduler_config: { capacity_scheduler_policy: "MAX_UTILIZATION" },
      speculative_config: { decoding_type: "NGram", max_draft_len: 4, max_matching_ngram_size: 2 },
      lora_config: { lora_dir: ["adapters/one"], max_lora_rank: 16 },
      quant_config: { quant_algo: "FP8" },
      revision: null,
      triton_config: { decoupled: true },
    },
    GPU,
  );
  assert.deepEqual(
    [found.model, found.tokenizer, found.maxSequenceLength, found.maxPromptLength],
    ["org/tiny", "/tok", 512, 300],
  );
  assert.deepEqual(found.parameters, {
    tensor_parallel: "2",
    max_num_sequences: "8",
    max_num_tokens: "1024",
    enable_kv_cache_reuse: "false",
    max_attention_window_size: "64,128",
    kv_cache_free_gpu_mem_fraction: "0.4",
    batch_scheduler_policy: "max_utilization",
    speculative_ngram_size: "2",
    num_draft_tokens: "4",
    lora_request_dir: "..",
    lora_adapters: "one:/models/m/1/adapters/one",
    lora_cache_max_adapter_size: "16",
    weight_type: "fp8",
  });
});

test("arguments without effect, unknown and impossible ones are named once, with their paths", () => {
  const { notes, parameters } = llmApiArguments(
    {
      model: "m",
      backend: "pytorch",
      kv_cache_config: { tokens_per_block: 32, max_token: 3, free_gpu_memory_fraction: 0.9, dtype: "fp8" },
      scheduler_config: "quick",
      max_seq_len: "long",
      speculative_config: { decoding_type: "Medusa" },
      logits_post_processors: { ban: "a.b:C" },
    },
    CPU,
  );
  assert.deepEqual(parameters, {});
  const [withoutEffect, unknown, ...others] = notes;
  assert.equal(
    withoutEffect,
    "file: without effect on this engine: backend, kv_cache_config.tokens_per_block, " +
      "kv_cache_config.free_gpu_memory_fraction, kv_cache_config.dtype",
  );
  assert.equal(unknown, "file: unknown, ignored: kv_cache_config.max_token (did you mean max_tokens?)");
  assert.match(others.join("\n"), /scheduler_config is "quick", expected a mapping: ignored/);
  assert.match(others.join("\n"), /max_seq_len is "long", expected a whole number above 0: ignored/);
  assert.match(others.join("\n"), /decoding_type Medusa: decoding runs without draft tokens/);
  assert.match(others.join("\n"), /logits_post_processors are Python objects/);
});

test("vllmArguments() translates engine arguments and the adapters beside them", () => {
  const found = vllmArguments(
    {
      model: "/weights",
      max_model_len: 1000,
      gpu_memory_utilization: 0.5,
      max_num_seqs: 3,
      enable_prefix_caching: false,
      enable_lora: "True",
      speculative_config: { method: "ngram", num_speculative_tokens: 3, prompt_lookup_max: 4 },
    },
    { one: "/a/one", two: "two" },
    GPU,
  );
  assert.deepEqual(found.adapters, ["one", "two"]);
  assert.equal(found.maxSequenceLength, 1000);
  assert.deepEqual(found.parameters, {
    kv_cache_free_gpu_mem_fraction: "0.5",
    max_num_sequences: "3",
    enable_kv_cache_reuse: "false",
    speculative_ngram_size: "4",
    num_draft_tokens: "3",
    lora_adapters: "one:/a/one,two:/models/m/1/two",
  });
  assert.equal(vllmArguments({ model: "m", enable_lora: false }, { one: "/a" }, CPU).adapters, undefined);
  assert.throws(
    () => vllmArguments({ enable_lora: true }, undefined, CPU),
    /cannot find \/models\/m\/1\/multi_lora\.json/,
  );
});

test("both translate draft heads", () => {
  const drafted = (speculative_config: object): Readonly<Record<string, string>>[] => [
    llmApiArguments({ model: "m", speculative_config }, CPU).parameters,
    vllmArguments({ model: "m", speculative_config }, undefined, CPU).parameters,
  ];
  const head = { speculative_model: "/models/m/1/head", num_draft_tokens: "3" };
  const [eagle] = drafted({ decoding_type: "Eagle3", speculative_model_dir: "head", max_draft_len: 3 });
  assert.deepEqual(eagle, head);
  assert.deepEqual(drafted({ method: "eagle3", model: "head", num_speculative_tokens: 3 })[1], head);
  const [mtp] = drafted({ decoding_type: "MTP", num_nextn_predict_layers: 2 });
  assert.deepEqual(mtp, { speculative_mtp: "true", num_draft_tokens: "2" });
  const own = { speculative_mtp: "true", num_draft_tokens: "1" };
  assert.deepEqual(drafted({ method: "mtp", num_speculative_tokens: 1 })[1], own);
});
