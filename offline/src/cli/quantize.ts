/** `nereid quantize`: takes the flags of TensorRT-LLM's quantize.py. */

import type { CommandSyntax, FlagTable, FlagValues } from "@nereid/server/cli/arguments";
import { NO_EFFECT } from "@nereid/server/cli/no-effect";
import { runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { QUANT_FORMATS } from "../quantize/quant-formats.ts";
import { type QuantizeSummary, quantize } from "../quantize/quantize.ts";
import { BUILT_IN } from "../run/text-data.ts";
import { chooseDevice } from "../run/tool-device.ts";
import { DEVICE_FLAG, DTYPES, MAPPING_FLAGS, mappingOf } from "./checkpoint-flags.ts";

const FLAGS = {
  model_dir: {
    type: "string",
    value: "DIR",
    summary: "model: a Hugging Face folder (plain, AWQ or GPTQ), or a GGUF file",
  },
  output_dir: { type: "string", value: "DIR", default: "exported_model", summary: "folder for the checkpoint" },
  qformat: { type: "string", choices: QUANT_FORMATS, default: "full_prec", summary: "how matrices are kept" },
  dtype: {
    type: "string",
    choices: DTYPES,
    default: "auto",
    summary: "type of unquantized tensors; auto: the type of the files",
  },
  ...MAPPING_FLAGS,
  use_parallel_embedding: { type: "switch", summary: "split the embedding too" },
  embedding_sharding_dim: { type: "string", choices: ["0", "1"], default: "0", summary: "by vocabulary or by columns" },
  awq_block_size: {
    type: "integer",
    min: 32,
    max: 1024,
    default: 128,
    summary: "inputs that share a scale, a multiple of 32",
  },
  awq_search: {
    type: "string",
    choices: ["full", "none"],
    default: "full",
    summary: "search factors and scales by the inputs of layers, or only round",
  },
  quantize_lm_head: { type: "switch", summary: "quantize the output matrix (lm_head) too; with --qformat fp8" },
  kv_cache_dtype: { type: "string", choices: ["fp8", "int8", "none"], summary: "recorded: type of the KV cache" },
  calib_size: { type: "integer", min: 1, default: 512, summary: "texts to calibrate with; 32 at most for AWQ" },
  calib_dataset: {
    type: "string",
    value: "FILE",
    default: BUILT_IN,
    summary: "texts to calibrate with: a text file, or .jsonl with a field named text",
  },
  calib_max_seq_length: { type: "integer", min: 2, default: 512, summary: "tokens of each text" },
  eval_dataset: {
    type: "string",
    value: "FILE",
    default: BUILT_IN,
    summary: "text for the perplexity before and after, or none",
  },
  eval_size: { type: "integer", min: 1, default: 64, summary: "pieces of that text" },
  batch_size: NO_EFFECT.value,
  seed: NO_EFFECT.value,
  tokenizer_max_seq_length: NO_EFFECT.value,
  calib_tp_size: NO_EFFECT.value,
  calib_pp_size: NO_EFFECT.value,
  device: DEVICE_FLAG,
  device_map: NO_EFFECT.value,
  log_level: NO_EFFECT.value,
  export_format: NO_EFFECT.value,
  nemo_ckpt_path: NO_EFFECT.value,
  cp_size: NO_EFFECT.value,
  autoq_format: NO_EFFECT.value,
  auto_quantize_bits: NO_EFFECT.value,
  num_medusa_heads: NO_EFFECT.value,
  num_medusa_layers: NO_EFFECT.value,
  quant_medusa_head: NO_EFFECT.toggle,
  max_draft_len: NO_EFFECT.value,
  medusa_model_dir: NO_EFFECT.value,
} as const satisfies FlagTable;

const REFUSED: ReadonlyMap<string, string> = new Map([
  ["nemo_ckpt_path", "Convert the model to a Hugging Face folder with NeMo's own exporter"],
  ["cp_size", "Leave it out: contexts are not split over ranks"],
  ["autoq_format", "Give one --qformat"],
  ["auto_quantize_bits", "Give one --qformat"],
  ["medusa_model_dir", "Leave it out: draft heads are not supported"],
]);

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "quantize",
  description:
    "Quantizes the matrices of a model, calibrated on texts if the format needs it, and writes a TensorRT-LLM checkpoint. Measures the perplexity before and after.",
  flags: FLAGS,
  refused: REFUSED,
  examples: [
    "nereid quantize --model_dir Llama-3.1-8B --dtype bfloat16 --qformat int4_awq --awq_block_size 128 --output_dir llama-awq",
    "nereid quantize --model_dir model --qformat int8_sq --calib_dataset texts.jsonl --eval_dataset held-out.txt --output_dir sq",
  ],
};

const AWQ_TEXTS = 32;
const GROUP_STEP = 32;

export async function quantizeCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, given, reporter, signal }) => {
    checkValues(values);
    const { model_dir: modelDir = "", output_dir: outputDir, qformat: format } = values;
    const isAwq = format.endsWith("awq");
    const startMs = performance.now();
    const summary = await quantize({
      modelDir,
      outputDir,
      format,
      dtype: values.dtype,
      mapping: mappingOf(values),
      groupSize: given.has("awq_block_size") ? values.awq_block_size : undefined,
      isSearched: values.awq_search === "full",
      calibration: {
        source: values.calib_dataset,
        maxTexts: isAwq ? Math.min(AWQ_TEXTS, values.calib_size) : values.calib_size,
        maxTokens: values.calib_max_seq_length,
      },
      evaluation:
        values.eval_dataset === "none" ? undefined : { source: values.eval_dataset, maxTexts: values.eval_size },
      device: chooseDevice(values.device),
      quantizesOutput: values.quantize_lm_head,
      kvCacheAlgorithm: values.kv_cache_dtype === "fp8" ? "FP8" : undefined,
      reporter,
      signal,
    });
    const seconds = (performance.now() - startMs) / 1000;
    const { before, after, numBytes } = summary;
    reporter.result(resultText(outputDir, summary, seconds), {
      output_dir: outputDir,
      bytes: numBytes,
      num_ranks: summary.numRanks,
      perplexity_before: before?.perplexity ?? null,
      perplexity_after: after?.perplexity ?? null,
      perplexity_tokens: after?.numTokens ?? null,
      seconds,
    });
  });
}

function checkValues(values: FlagValues<typeof FLAGS>): void {
  const { model_dir, awq_block_size, kv_cache_dtype, qformat, quantize_lm_head } = values;
  if (model_dir === undefined) throw new ToolError("--model_dir is missing", { fix: "Name the folder of the model" });
  if (awq_block_size % GROUP_STEP !== 0) {
    throw new ToolError(`--awq_block_size is a multiple of ${GROUP_STEP}, got ${awq_block_size}`, {
      fix: "Give 64 or 128",
    });
  }
  if (quantize_lm_head && qformat !== "fp8") {
    throw new ToolError(`--quantize_lm_head needs --qformat fp8, got ${qformat}`, {
      fix: "Leave it out; where the model is served on a GPU, its parameter quantize_lm_head does the same for any format",
    });
  }
  if (kv_cache_dtype === "int8") {
    throw new ToolError("--kv_cache_dtype int8 is not supported", {
      fix: "Give fp8, or set the served model's kv_cache_type, which needs no calibration",
    });
  }
}

function resultText(outputDir: string, { numBytes, before, after }: QuantizeSummary, seconds: number): string {
  const wrote = `Wrote ${outputDir}: ${formatBytes(numBytes)} in ${seconds.toFixed(1)} s`;
  if (before === undefined || after === undefined) return wrote;
  const [from, to] = [before.perplexity, after.perplexity];
  const change = `${to >= from ? "+" : ""}${(100 * (to / from - 1)).toFixed(1)} %`;
  return `${wrote}\nPerplexity of ${after.numTokens} tokens: ${from.toFixed(3)} before, ${to.toFixed(3)} after (${change})`;
}
