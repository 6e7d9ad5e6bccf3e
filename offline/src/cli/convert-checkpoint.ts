/** `nereid convert-checkpoint`: takes the flags of TensorRT-LLM's convert_checkpoint.py of any model family. */
import { dirname } from "node:path";
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { NO_EFFECT } from "@nereid/server/cli/no-effect";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { convertCheckpoint } from "../checkpoint/convert-checkpoint.ts";
import { DTYPES, MAPPING_FLAGS, mappingOf } from "./checkpoint-flags.ts";

const FLAGS = {
  model_dir: {
    type: "string",
    value: "DIR",
    summary: "model: a Hugging Face folder (plain, AWQ or GPTQ), or a GGUF file",
    aliases: ["hf_model_dir", "model"],
  },
  output_dir: {
    type: "string",
    value: "DIR",
    default: "tllm_checkpoint",
    aliases: ["output_model_dir"],
    summary: "folder for the checkpoint",
  },
  dtype: {
    type: "string",
    choices: DTYPES,
    default: "auto",
    summary: "type of unquantized tensors; auto: the type of the files",
  },
  ...MAPPING_FLAGS,
  use_parallel_embedding: { type: "switch", summary: "split the embedding too" },
  embedding_sharding_dim: {
    type: "string",
    choices: ["0", "1"],
    default: "0",
    summary: "split it by vocabulary (0) or by columns (1)",
  },
  use_weight_only: { type: "switch", summary: "keep matrices as integers with a scale for each output" },
  weight_only_precision: {
    type: "string",
    choices: ["int8", "int4", "int4_gptq"],
    default: "int8",
    aliases: ["use_weight_only_with_precision"],
    summary: "bits of those integers; int4_gptq: the integers of a GPTQ or AWQ folder, unchanged",
  },
  quant_ckpt_path: {
    type: "string",
    value: "PATH",
    summary: "with int4_gptq: the folder or file of the integers, if not --model_dir",
  },
  group_size: { type: "integer", hidden: true, summary: "ignored: groups are those of the files" },
  per_group: NO_EFFECT.toggle,
  fp8_kv_cache: { type: "switch", summary: "record an FP8 KV cache in config.json" },
  int8_kv_cache: NO_EFFECT.toggle,
  workers: NO_EFFECT.value,
  log_level: NO_EFFECT.value,
  gpt_variant: NO_EFFECT.value,
  ckpt_type: NO_EFFECT.value,
  moe_tp_size: NO_EFFECT.value,
  moe_ep_size: NO_EFFECT.value,
  use_embedding_sharing: NO_EFFECT.toggle,
  load_by_shard: NO_EFFECT.toggle,
  load_model_on_cpu: NO_EFFECT.toggle,
  disable_weight_only_quant_plugin: NO_EFFECT.toggle,
  meta_ckpt_dir: NO_EFFECT.value,
  nemo_ckpt_path: NO_EFFECT.value,
  smoothquant: { ...NO_EFFECT.value, short: "sq" },
  per_channel: NO_EFFECT.toggle,
  per_token: NO_EFFECT.toggle,
  use_fp8: NO_EFFECT.toggle,
  use_fp8_rowwise: NO_EFFECT.toggle,
  enable_fp8: NO_EFFECT.toggle,
  cp_size: NO_EFFECT.value,
  // Sizes come from config.json.
  vocab_size: NO_EFFECT.value,
  n_positions: NO_EFFECT.value,
  n_layer: NO_EFFECT.value,
  n_head: NO_EFFECT.value,
  n_kv_head: NO_EFFECT.value,
  n_embd: NO_EFFECT.value,
  inter_size: NO_EFFECT.value,
  multiple_of: NO_EFFECT.value,
  ffn_dim_multiplier: NO_EFFECT.value,
  rms_norm_eps: NO_EFFECT.value,
  hidden_act: NO_EFFECT.value,
  rotary_base: NO_EFFECT.value,
  rotary_dim: NO_EFFECT.value,
  moe_num_experts: NO_EFFECT.value,
  moe_top_k: NO_EFFECT.value,
  moe_renorm_mode: NO_EFFECT.value,
  calib_dataset: NO_EFFECT.value,
  model_version: NO_EFFECT.value,
  use_smooth_quant: NO_EFFECT.toggle,
  calibrate_kv_cache: NO_EFFECT.toggle,
  save_config_only: NO_EFFECT.toggle,
  remove_duplicated_kv_heads: NO_EFFECT.toggle,
  use_int8_weight_only_embedding: NO_EFFECT.toggle,
  nemo_rename_key: NO_EFFECT.value,
  model_type: NO_EFFECT.value,
  model_name: NO_EFFECT.value,
  chatglm_version: NO_EFFECT.value,
  nougat: NO_EFFECT.toggle,
  skip_cross_qkv: NO_EFFECT.toggle,
  num_medusa_heads: NO_EFFECT.value,
  medusa_model_dir: NO_EFFECT.value,
} as const satisfies FlagTable;

const OTHER_FAMILY = "Only decoders of the families that the README names can be converted";
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["meta_ckpt_dir", "Download the model from Hugging Face, and give its folder as --model_dir"],
  ["nemo_ckpt_path", "Convert the model to a Hugging Face folder with NeMo's own exporter"],
  ["smoothquant", "Use nereid quantize --qformat int8_sq, which calibrates"],
  ["per_channel", "Use nereid quantize --qformat int8_sq"],
  ["per_token", "Use nereid quantize --qformat int8_sq"],
  ["use_fp8", "Use nereid quantize --qformat fp8, which calibrates"],
  ["use_fp8_rowwise", "Use nereid quantize --qformat fp8"],
  ["enable_fp8", "Use nereid quantize --qformat fp8"],
  ["int8_kv_cache", "Give --fp8_kv_cache, or set the served model's kv_cache_type, which needs no calibration"],
  ["use_smooth_quant", "Use nereid quantize --qformat int8_sq, which calibrates"],
  ["calibrate_kv_cache", "Give --fp8_kv_cache, or set the served model's kv_cache_type, which needs no calibration"],
  ["cp_size", "Leave it out: contexts are not split over ranks"],
  ["save_config_only", "Leave it out: a checkpoint without weights cannot be used"],
  ["remove_duplicated_kv_heads", "Leave it out: heads are repeated if there are fewer than ranks"],
  ["use_int8_weight_only_embedding", "Leave it out: the embedding stays as it is"],
  ["model_type", OTHER_FAMILY],
  ["model_name", OTHER_FAMILY],
  ["chatglm_version", OTHER_FAMILY],
  ["nougat", OTHER_FAMILY],
  ["skip_cross_qkv", OTHER_FAMILY],
  ["num_medusa_heads", "Leave it out: draft heads are not supported"],
  ["medusa_model_dir", "Leave it out: draft heads are not supported"],
]);

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "convert-checkpoint",
  description:
    "Converts a Hugging Face model to a TensorRT-LLM checkpoint: config.json and a rankN.safetensors for each rank.",
  flags: FLAGS,
  refused: REFUSED,
  examples: [
    "nereid convert-checkpoint --model_dir gpt2 --dtype float16 --output_dir gpt2/trt_ckpt/fp16/1-gpu",
    "nereid convert-checkpoint --model_dir Llama-3.1-8B --tp_size 2 --output_dir ckpt",
    "nereid convert-checkpoint --model_dir Mistral-7B --use_weight_only --weight_only_precision int8 --output_dir ckpt",
  ],
};

export async function convertCheckpointCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, given, reporter, signal }) => {
    // The Gemma converter has one flag for both.
    const isWeightOnly = values.use_weight_only || given.has("weight_only_precision");
    const weightOnly = isWeightOnly ? PRECISIONS[values.weight_only_precision] : undefined;
    const modelDir = quantizedFolder(values.quant_ckpt_path) ?? values.model_dir;
    if (modelDir === undefined) throw new ToolError("--model_dir is missing", { fix: "Name the folder of the model" });
    const startMs = performance.now();
    const { numRanks, numBytes, dtype, algorithm } = await convertCheckpoint({
      modelDir,
      outputDir: values.output_dir,
      dtype: values.dtype,
      mapping: mappingOf(values),
      weightOnly,
      kvCacheAlgorithm: values.fp8_kv_cache ? "FP8" : undefined,
      reporter,
      signal,
    });
    const seconds = (performance.now() - startMs) / 1000;
    const files = numRanks === 1 ? "rank0.safetensors" : `${numRanks} rank files`;
    const kept = algorithm === null ? "" : `, matrices as ${algorithm}`;
    reporter.result(
      `Wrote ${values.output_dir}: config.json and ${files}, ${formatBytes(numBytes)} in ${seconds.toFixed(1)} s${kept}`,
      { output_dir: values.output_dir, num_ranks: numRanks, bytes: numBytes, dtype, quant_algo: algorithm, seconds },
    );
  });
}

const PRECISIONS = { int8: 8, int4: 4, int4_gptq: "gptq" } as const;

/** Scripts name the weight file, whose folder has the rest. */
function quantizedFolder(path: string | undefined): string | undefined {
  return path?.endsWith(".safetensors") === true ? dirname(path) : path;
}
