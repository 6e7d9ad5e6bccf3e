/**
 * `nereid build`: takes the flags of trtllm-build. Flags without a counterpart are recorded in the engine's
 * config.json.
 */

import type { CommandSyntax, FlagTable, FlagValues } from "@nereid/server/cli/arguments";
import { NO_EFFECT } from "@nereid/server/cli/no-effect";
import { type CommandContext, type OUTPUT_FLAGS, runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { buildCudaEngine } from "../build/build-cuda-engine.ts";
import { buildEngine } from "../build/build-engine.ts";
import { chooseDevice, deviceName } from "../run/tool-device.ts";
import { buildText } from "./build-text.ts";
import { DEVICE_FLAG } from "./checkpoint-flags.ts";

const COUNT = { type: "integer", min: 0 } as const;
/** TensorRT plug-in flags: measurement makes these choices here. */
const PLUGIN = { type: "string", hidden: true, summary: "recorded" } as const;

const FLAGS = {
  checkpoint_dir: {
    type: "string",
    value: "DIR",
    summary: "checkpoint of convert-checkpoint or quantize; also a Hugging Face folder or a GGUF file",
  },
  output_dir: { type: "string", value: "DIR", default: "engine_outputs", summary: "folder for the engine" },
  weight_type: {
    type: "string",
    choices: ["auto", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "fp8", "int4"],
    default: "auto",
    summary:
      "type of the matrices; auto: quantized ones unchanged, floats in the fastest type here; on a GPU auto, bf16, fp8 or int4",
  },
  device: {
    ...DEVICE_FLAG,
    summary: "device to build for: cpu, cuda or cuda:N; auto: the first GPU, otherwise the CPU",
  },
  gemm_plugin: {
    type: "string",
    choices: ["auto", "float16", "bfloat16", "float32", "fp8", "disable"],
    summary: "type of those floats, as in trtllm-build: float types count, anything else means auto",
  },
  max_batch_size: { ...COUNT, default: 2048, summary: "sequences in a step; recorded" },
  max_input_len: { ...COUNT, default: 1024, summary: "tokens of a prompt; recorded" },
  max_seq_len: { ...COUNT, aliases: ["max_decoder_seq_len"], summary: "tokens of prompt and reply; recorded" },
  max_num_tokens: { ...COUNT, default: 8192, summary: "tokens in a step; recorded" },
  opt_num_tokens: { ...COUNT, summary: "recorded" },
  max_beam_width: { ...COUNT, default: 1, summary: "beams of a request; recorded" },
  max_prompt_embedding_table_size: { ...COUNT, default: 0, aliases: ["max_multimodal_len"], summary: "recorded" },
  max_encoder_input_len: { ...COUNT, summary: "recorded" },
  max_draft_len: { ...COUNT, summary: "recorded" },
  max_output_len: { ...COUNT, summary: "recorded" },
  kv_cache_type: {
    type: "string",
    choices: ["paged", "continuous", "disabled"],
    default: "paged",
    summary: "recorded",
  },
  tokens_per_block: { ...COUNT, summary: "recorded" },
  gather_context_logits: { type: "switch", summary: "recorded: any request may ask for logits" },
  gather_generation_logits: { type: "switch", summary: "recorded" },
  gather_all_token_logits: { type: "switch", summary: "recorded" },
  logits_dtype: { type: "string", summary: "recorded: logits are float32" },
  gpt_attention_plugin: PLUGIN,
  bert_attention_plugin: PLUGIN,
  gemm_swiglu_plugin: PLUGIN,
  fp8_rowwise_gemm_plugin: PLUGIN,
  low_latency_gemm_plugin: PLUGIN,
  nccl_plugin: PLUGIN,
  lora_plugin: PLUGIN,
  moe_plugin: PLUGIN,
  mamba_conv1d_plugin: PLUGIN,
  smooth_quant_gemm_plugin: PLUGIN,
  weight_only_quant_matmul_plugin: PLUGIN,
  context_fmha: PLUGIN,
  context_fmha_fp32_acc: PLUGIN,
  bert_context_fmha_fp32_acc: PLUGIN,
  remove_input_padding: PLUGIN,
  reduce_fusion: PLUGIN,
  use_paged_context_fmha: PLUGIN,
  use_fp8_context_fmha: PLUGIN,
  multiple_profiles: PLUGIN,
  paged_state: PLUGIN,
  paged_kv_cache: PLUGIN,
  streamingllm: PLUGIN,
  enable_xqa: PLUGIN,
  use_fused_mlp: PLUGIN,
  use_custom_all_reduce: PLUGIN,
  workers: NO_EFFECT.value,
  gpus_per_node: NO_EFFECT.value,
  cluster_key: NO_EFFECT.value,
  log_level: NO_EFFECT.value,
  profiling_verbosity: NO_EFFECT.value,
  input_timing_cache: NO_EFFECT.value,
  output_timing_cache: NO_EFFECT.value,
  builder_opt: NO_EFFECT.value,
  builder_force_num_profiles: NO_EFFECT.value,
  enable_debug_output: NO_EFFECT.toggle,
  visualize_network: NO_EFFECT.toggle,
  monitor_memory: NO_EFFECT.toggle,
  fast_build: NO_EFFECT.toggle,
  weight_sparsity: NO_EFFECT.toggle,
  weight_streaming: NO_EFFECT.toggle,
  strip_plan: NO_EFFECT.toggle,
  dry_run: NO_EFFECT.toggle,
  auto_parallel: NO_EFFECT.value,
  model_config: NO_EFFECT.value,
  build_config: NO_EFFECT.value,
  model_cls_file: NO_EFFECT.value,
  model_cls_name: NO_EFFECT.value,
  speculative_decoding_mode: { type: "string", hidden: true, summary: "recorded" },
  lora_dir: { type: "string", many: "list", hidden: true, summary: "recorded" },
  lora_ckpt_source: { type: "string", hidden: true, summary: "recorded" },
  lora_target_modules: { type: "string", many: "list", hidden: true, summary: "recorded" },
  max_lora_rank: { ...COUNT, hidden: true, summary: "recorded" },
} as const satisfies FlagTable;

const PLUGIN_CONFIG: ReadonlySet<string> = new Set([
  "gemm_plugin",
  "tokens_per_block",
  ...Object.entries(FLAGS).flatMap(([name, flag]) => (flag === PLUGIN ? [name] : [])),
]);

const REFUSED: ReadonlyMap<string, string> = new Map([
  ["model_config", "Give the folder of the checkpoint as --checkpoint_dir: there are no engines without weights"],
  ["model_cls_file", "Only the architectures that nereid knows can be built"],
  ["model_cls_name", "Only the architectures that nereid knows can be built"],
  ["build_config", "Give its values as flags"],
  ["auto_parallel", "Split the model with nereid convert-checkpoint --tp_size"],
  ["strip_plan", "Leave it out: an engine without weights cannot be served"],
  ["dry_run", "Leave it out: building takes as long as writing the weights"],
]);

const FLOAT_TYPES: ReadonlyMap<string, "f32" | "f16" | "bf16"> = new Map([
  ["float32", "f32"],
  ["float16", "f16"],
  ["bfloat16", "bf16"],
]);

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "build",
  description:
    "Builds an engine from a checkpoint: weights packed for this machine's CPU or GPU, with the GEMM choices that were fastest on it. The folder can be the engine_dir of a served model.",
  flags: FLAGS,
  refused: REFUSED,
  examples: [
    "nereid build --checkpoint_dir gpt2/trt_ckpt/fp16/1-gpu --output_dir gpt2/trt_engines/fp16/1-gpu",
    "nereid build --checkpoint_dir llama-awq --gemm_plugin bfloat16 --output_dir repo/tensorrt_llm/1",
  ],
};

type Values = FlagValues<typeof FLAGS>;
type Context = Pick<CommandContext<typeof FLAGS & typeof OUTPUT_FLAGS>, "given" | "reporter" | "signal">;

export async function buildCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, given, reporter, signal }) => {
    if (values.checkpoint_dir === undefined) {
      throw new ToolError("--checkpoint_dir is missing", { fix: "Name the folder of the checkpoint" });
    }
    const device = chooseDevice(values.device);
    const context = { given, reporter, signal };
    if (device.kind === "cpu") return buildForCpu(values, context);
    try {
      await buildForGpu(values, device.ordinal, context);
    } catch (error) {
      if (!device.isOptional || signal.aborted) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      reporter.warn(`No engine for ${deviceName(device)}, so one for the CPU: ${reason}`);
      await buildForCpu(values, context);
    }
  });
}

async function buildForCpu(values: Values, { reporter, signal }: Context): Promise<void> {
  const { checkpoint_dir: checkpointDir = "", output_dir: outputDir, weight_type: weightType, gemm_plugin } = values;
  if (weightType === "fp8" || weightType === "int4") {
    throw new ToolError(`--weight_type ${weightType} is for GPUs`, { fix: "Give q8_0 or q4_0, or --device cuda" });
  }
  const startMs = performance.now();
  const summary = await buildEngine({
    checkpointDir,
    outputDir,
    weightType,
    floatType: FLOAT_TYPES.get(gemm_plugin ?? "") ?? "auto",
    buildConfig: buildConfigOf(values),
    reporter,
    signal,
  });
  const seconds = (performance.now() - startMs) / 1000;
  reporter.result(buildText(outputDir, summary, seconds), {
    output_dir: outputDir,
    device: "cpu",
    bytes: summary.numBytes,
    products: summary.products,
    threads: summary.threads,
    thread_timings: summary.threadTimings,
    seconds,
  });
}

/** Larger steps are measured when they occur. */
const MEASURED_TOKENS = 2048;
const MEASURED_SEQUENCES = 256;
const GPU_MATRICES: ReadonlyMap<string, "e4m3" | "int4" | undefined> = new Map([
  ["auto", undefined],
  ["bf16", undefined],
  ["fp8", "e4m3"],
  ["int4", "int4"],
]);

async function buildForGpu(values: Values, ordinal: number, { given, reporter, signal }: Context): Promise<void> {
  const { checkpoint_dir: checkpointDir = "", output_dir: outputDir, weight_type: weightType } = values;
  if (!GPU_MATRICES.has(weightType)) {
    throw new ToolError(`--weight_type ${weightType} is for the CPU`, {
      fix: "Give auto, bf16, fp8 or int4, or --device cpu",
    });
  }
  const most = (flag: "max_num_tokens" | "max_batch_size", byDefault: number): number =>
    given.has(flag) && values[flag] > 0 ? Math.min(values[flag], 4 * byDefault) : byDefault;
  const startMs = performance.now();
  const summary = await buildCudaEngine({
    checkpointDir,
    outputDir,
    ordinal,
    matrices: GPU_MATRICES.get(weightType),
    maxTokens: most("max_num_tokens", MEASURED_TOKENS),
    maxSequences: most("max_batch_size", MEASURED_SEQUENCES),
    buildConfig: buildConfigOf(values),
    reporter,
    signal,
  });
  const seconds = (performance.now() - startMs) / 1000;
  const { numBytes, target, products } = summary;
  const wrote = `Wrote ${outputDir}: config.json and rank0.engine, ${formatBytes(numBytes)} in ${seconds.toFixed(1)} s`;
  reporter.result(`${wrote}, for ${target.device}; ${products.length} GEMMs measured`, {
    output_dir: outputDir,
    device: target.device,
    bytes: numBytes,
    num_products: products.length,
    seconds,
  });
}

/** Fields about the run, not the result. */
const OWN_FLAGS: ReadonlySet<string> = new Set([
  "checkpoint_dir",
  "output_dir",
  "weight_type",
  "device",
  "quiet",
  "json",
]);

/** Plug-ins have a section of their own; absent flags are omitted. */
function buildConfigOf(values: Values): Readonly<Record<string, unknown>> {
  const isGiven = (value: unknown): boolean => value !== undefined && !(Array.isArray(value) && value.length === 0);
  const entries = Object.entries(values).filter(([name, value]) => !OWN_FLAGS.has(name) && isGiven(value));
  const plugins = entries.filter(([name]) => PLUGIN_CONFIG.has(name));
  const others = entries.filter(([name]) => !PLUGIN_CONFIG.has(name));
  return { ...Object.fromEntries(others), plugin_config: Object.fromEntries(plugins) };
}
