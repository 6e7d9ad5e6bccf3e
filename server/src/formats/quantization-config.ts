/** Reads `quantization_config` of config.json: which layout the integers of a checkpoint have. It opens no file. */
import { HfFields } from "./hf-config-fields.ts";

export type QuantizationConfig =
  | { readonly method: "awq"; readonly bits: 4; readonly groupSize: number }
  | {
      readonly method: "gptq";
      readonly bits: 4 | 8;
      readonly groupSize: number;
      readonly version: 1 | 2;
      readonly isSymmetric: boolean;
    };

/** Groups are at most as wide as the widest layer. */
const MAX_GROUP_SIZE: number = 1 << 24;

/**
 * Undefined when the checkpoint is not quantized. A group size of -1 is Infinity: all inputs of a layer.
 * @throws Error naming file and field, for methods and layouts that are not read
 */
export function parseQuantizationConfig(config: unknown, file: string): QuantizationConfig | undefined {
  const fields = new HfFields(config, file).section("quantization_config");
  if (fields === undefined) return undefined;
  const method = fields.get("quant_method");
  if (method === "awq") return parseAwq(fields);
  if (method === "gptq") return parseGptq(fields);
  throw fields.refusal("quant_method", '"awq" or "gptq"', method);
}

function parseAwq(fields: HfFields): QuantizationConfig {
  const version = String(fields.get("version") ?? "gemm").toLowerCase();
  // "exllama" names a kernel: its weights are stored as those of "gemm".
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
