/**
 * Reads `quantization_config` of config.json: the storage layout of quantized weights. Sources: transformers
 * "Quantization", AutoAWQ, AutoGPTQ and compressed-tensors documentation. It opens no file.
 */
import { HfFields } from "./config-fields.ts";

export type QuantizationConfig =
  | { readonly method: "awq"; readonly bits: 4; readonly groupSize: number }
  | {
      readonly method: "gptq";
      readonly bits: 4 | 8;
      readonly groupSize: number;
      readonly version: 1 | 2;
      readonly isSymmetric: boolean;
    }
  /** Experts of gpt-oss. */
  | { readonly method: "mxfp4" }
  | {
      /** Scaled formats: names and types of the tensors show which matrices are quantized. */
      readonly method: "scaled";
      /** Rows and columns that share a scale, when scales form a grid. */
      readonly block: readonly [rows: number, columns: number];
    };

/** Integer formats whose group size the config states. */
export type GroupedConfig = Exclude<QuantizationConfig, { readonly method: "scaled" | "mxfp4" }>;

/** Groups are at most as wide as the widest layer. */
const MAX_GROUP_SIZE: number = 1 << 24;

/**
 * Undefined when the checkpoint is not quantized. A group size of -1 becomes Infinity: one group for all inputs.
 * @throws Error naming file and field, for unsupported methods and layouts
 */
export function parseQuantizationConfig(config: unknown, file: string): QuantizationConfig | undefined {
  const fields = new HfFields(config, file).section("quantization_config");
  if (fields === undefined) return undefined;
  const method = fields.get("quant_method");
  if (method === "awq") return parseAwq(fields);
  if (method === "gptq") return parseGptq(fields);
  if (method === "fp8" || method === "fbgemm_fp8") return parseFloat8(fields);
  if (method === "modelopt") return parseModelOpt(fields);
  if (method === "mxfp4") return { method };
  if (method === "compressed-tensors") return parseCompressed(fields);
  throw fields.refusal("quant_method", METHODS, method);
}

const METHODS = '"awq", "gptq", "fp8", "fbgemm_fp8", "modelopt", "mxfp4" or "compressed-tensors"';
const DEFAULT_BLOCK = [128, 128] as const;
const MAX_BLOCK: number = 1 << 20;

function parseFloat8(fields: HfFields): QuantizationConfig {
  return { method: "scaled", block: parseBlock(fields, "weight_block_size") };
}

function parseModelOpt(fields: HfFields): QuantizationConfig {
  const algorithm = fields.get("quant_algo");
  if (algorithm !== "FP8") throw fields.refusal("quant_algo", '"FP8"', algorithm);
  return { method: "scaled", block: DEFAULT_BLOCK };
}

/** Other storage formats use the same tensor names, so they must be refused here. */
const COMPRESSED_FORMATS: readonly unknown[] = [
  "float-quantized",
  "int-quantized",
  "pack-quantized",
  "naive-quantized",
  "mixed-precision",
  "dense",
];

function parseCompressed(fields: HfFields): QuantizationConfig {
  const format = fields.get("format") ?? "dense";
  if (!COMPRESSED_FORMATS.includes(format)) throw fields.refusal("format", COMPRESSED_FORMATS.join(", "), format);
  const sparsity = fields.section("sparsity_config")?.get("format") ?? "dense";
  if (sparsity !== "dense") throw fields.refusal("sparsity_config", "dense weights", sparsity);
  const transforms = fields.section("transform_config")?.get("config_groups") ?? {};
  if (Object.keys(transforms).length > 0) {
    throw fields.refusal("transform_config", "none: rotated weights are not supported", transforms);
  }
  let block: readonly [number, number] = DEFAULT_BLOCK;
  const groups = fields.get("config_groups") ?? {};
  for (const group of Object.values(groups)) {
    const weights = new HfFields(group, "config_groups").section("weights");
    const own = group as { readonly format?: unknown };
    if (!COMPRESSED_FORMATS.includes(own.format ?? "dense"))
      throw fields.refusal("config_groups", "formats that are read", own.format);
    if (weights?.get("block_structure") !== undefined) block = parseBlock(weights, "block_structure");
  }
  return { method: "scaled", block };
}

function parseBlock(fields: HfFields, name: string): readonly [number, number] {
  const value = fields.get(name);
  if (value === undefined) return DEFAULT_BLOCK;
  const isSize = (one: unknown): one is number =>
    Number.isSafeInteger(one) && (one as number) > 0 && (one as number) <= MAX_BLOCK;
  if (Array.isArray(value) && value.length === 2 && isSize(value[0]) && isSize(value[1])) return [value[0], value[1]];
  throw fields.refusal(name, "two sizes", value);
}

function parseAwq(fields: HfFields): QuantizationConfig {
  const version = String(fields.get("version") ?? "gemm").toLowerCase();
  // "exllama" names a kernel; its weights are stored like those of "gemm".
  if (version !== "gemm" && version !== "exllama") throw fields.refusal("version", '"gemm"', version);
  if (!fields.boolean("zero_point", true)) throw fields.refusal("zero_point", "true", false);
  fields.int("bits", { min: 4, max: 4 });
  return { method: "awq", bits: 4, groupSize: parseGroupSize(fields) };
}

function parseGptq(fields: HfFields): QuantizationConfig {
  const format = fields.get("checkpoint_format") ?? "gptq";
  if (format !== "gptq" && format !== "gptq_v2") {
    throw fields.refusal("checkpoint_format", '"gptq" or "gptq_v2"', format);
  }
  const bits = fields.int("bits", { min: 4, max: 8 });
  if (bits !== 4 && bits !== 8) throw fields.refusal("bits", "4 or 8", bits);
  return {
    method: "gptq",
    bits,
    groupSize: parseGroupSize(fields),
    version: format === "gptq" ? 1 : 2,
    isSymmetric: fields.boolean("sym", false),
  };
}

function parseGroupSize(fields: HfFields): number {
  const size = fields.int("group_size", { min: -1, max: MAX_GROUP_SIZE, default: 128 });
  if (size === 0) throw fields.refusal("group_size", "-1 or a number above zero", size);
  return size === -1 ? Number.POSITIVE_INFINITY : size;
}
