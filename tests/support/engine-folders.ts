/**
 * Repositories in the shape of TensorRT-LLM's `llmapi` and of Triton's vllm_backend, with the tensors that those
 * declare. Sources: TensorRT-LLM, `triton_backend/all_models/llmapi`; vllm_backend, `samples/model_repository`.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Sizes of examples/nereid-tiny. */
const [HIDDEN_SIZE, INNER_SIZE] = [384, 1024];

const input = (name: string, type: string, dims = "1"): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] optional: true }`;
const output = (name: string, type: string, dims = "-1"): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] }`;

const INPUTS: readonly string[] = [
  '{ name: "text_input" data_type: TYPE_STRING dims: [ -1 ] }',
  input("image_url", "STRING", "-1"),
  input("streaming", "BOOL"),
  input("sampling_param_best_of", "INT32"),
  input("sampling_param_temperature", "FP32"),
  input("sampling_param_top_k", "INT32"),
  input("sampling_param_top_p", "FP32"),
  input("sampling_param_frequency_penalty", "FP32"),
  input("sampling_param_presence_penalty", "FP32"),
  input("sampling_param_max_tokens", "INT32"),
  input("sampling_param_stop", "STRING", "-1"),
  input("sampling_param_seed", "UINT64"),
  input("sampling_param_exclude_input_from_output", "BOOL"),
  input("sampling_param_return_perf_metrics", "BOOL"),
  input("return_finish_reason", "BOOL"),
  input("return_stop_reason", "BOOL"),
  input("return_cumulative_logprob", "BOOL"),
  input("stop", "BOOL"),
  input("lora_id", "UINT64"),
  input("lora_name", "STRING"),
  input("lora_path", "STRING"),
  input("lora_ckpt_source", "STRING"),
];
const OUTPUTS: readonly string[] = [
  output("text_output", "STRING"),
  output("finish_reason", "STRING"),
  output("stop_reason", "STRING"),
  output("cumulative_logprob", "FP32"),
  output("kv_cache_reused_block", "INT32"),
  output("kv_cache_missed_block", "INT32"),
  output("kv_cache_alloc_new_blocks", "INT32"),
  output("kv_cache_alloc_total_blocks", "INT32"),
  output("kv_cache_hit_rate", "FP32"),
  output("arrival_time_ns", "INT64", "1"),
  output("first_scheduled_time_ns", "INT64", "1"),
  output("first_token_time_ns", "INT64", "1"),
  output("last_token_time_ns", "INT64", "1"),
  output("acceptance_rate", "FP32", "1"),
  output("total_accepted_draft_tokens", "INT32", "1"),
  output("total_draft_tokens", "INT32", "1"),
];

export const LLMAPI_CONFIG = `name: "tensorrt_llm"
backend: "python"
instance_group [ { count: 1 kind: KIND_CPU } ]
input [ ${INPUTS.join(",\n  ")} ]
output [ ${OUTPUTS.join(",\n  ")} ]
`;

export const VLLM_CONFIG = `backend: "vllm"
instance_group [ { count: 1 kind: KIND_MODEL } ]
`;

/** Arguments of every kind: with a meaning, without one, and a misspelt one. */
export function llmApiYaml(model: string, decoupled: boolean): string {
  return `# arguments of LLM()
model: ${model}
backend: "pytorch"
tensor_parallel_size: 1
pipeline_parallel_size: 1
cuda_graph_config: { max_batch_size: 16 }
enable_lora: true
kv_cache_config:
  enable_block_reuse: true
  enable_block_reus: true
triton_config:
  max_batch_size: 0 # no batches
  decoupled: ${decoupled ? "True" : "False"}
`;
}

/**
 * A PEFT folder for the language model of the examples: one matrix of the first layer, strong enough to change its
 * text. Source: PEFT, "Checkpoint format"; safetensors.
 */
export function writeAdapter(folder: string): void {
  const name = "base_model.model.model.layers.0.mlp.down_proj";
  const shapes: readonly (readonly [string, readonly number[]])[] = [
    [`${name}.lora_A.weight`, [1, INNER_SIZE]],
    [`${name}.lora_B.weight`, [HIDDEN_SIZE, 1]],
  ];
  const header: Record<string, object> = {};
  const values: number[] = [];
  for (const [key, shape] of shapes) {
    const count = shape.reduce((product, dim) => product * dim, 1);
    const begin = 4 * values.length;
    for (let i = 0; i < count; i++) values.push(i % 2 === 0 ? 0.5 : -0.5);
    header[key] = { dtype: "F32", shape, data_offsets: [begin, 4 * values.length] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const data = Buffer.from(Float32Array.from(values).buffer);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "adapter_model.safetensors"), Buffer.concat([length, text, data]));
  const config = { peft_type: "LORA", r: 1, lora_alpha: 8, target_modules: ["down_proj"], bias: "none" };
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(config));
}
