/** Converts a Hugging Face folder to a TensorRT-LLM checkpoint. It knows no command line. */
import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import { createElementConverter } from "@nereid/server/device/cpu/element-converter";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ModelFiles } from "@nereid/server/formats/hf/model-files";
import { type LayoutMapping, stageTensors } from "@nereid/server/formats/trtllm/layout";
import type { ParsedDecoder } from "@nereid/server/models/config/parse-decoder-config";
import { findPrefix } from "@nereid/server/models/weights/weight-plan";
import type { LinearStorage } from "../quantize/linear-storage.ts";
import { integerQuantization, integersOf, StoredIntegers } from "../quantize/stored-integers.ts";
import { type WeightOnlyBits, WeightOnlyStorage } from "../quantize/weight-only-storage.ts";
import { checkpointConfig, NOT_QUANTIZED, type Quantization } from "./checkpoint-config.ts";
import { type CheckpointSummary, writeCheckpoint } from "./checkpoint-writer.ts";
import { type OpenedDecoder, openDecoder } from "./open-decoder.ts";

export type DtypeName = "auto" | "float32" | "float16" | "bfloat16";

export interface ConvertOptions {
  readonly modelDir: string;
  readonly outputDir: string;
  /** Type of matrices that stay floats; "auto": as in the files. */
  readonly dtype: DtypeName;
  readonly mapping: LayoutMapping;
  /** Undefined: as in the files, INT4 or floats. "gptq": requires the files' INT4 values. */
  readonly weightOnly: WeightOnlyBits | "gptq" | undefined;
  readonly kvCacheAlgorithm?: "FP8" | undefined;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface ConvertSummary extends CheckpointSummary {
  readonly dtype: FloatType;
  /** quant_algo of TensorRT-LLM; null: floats. */
  readonly algorithm: string | null;
}

export async function convertCheckpoint(options: ConvertOptions): Promise<ConvertSummary> {
  const opened = await openDecoder(options.modelDir);
  const { files, parsed, tensors } = opened;
  try {
    expectEvenSplit(parsed, options.mapping);
    const dtype = chooseCheckpointType(options.dtype, parsed, tensors);
    const { outputDir, mapping, reporter, signal } = options;
    const { storage, quantization } = storageOf(options, opened, dtype);
    const config = checkpointConfig({ source: files.config, config: parsed.config, dtype, mapping, quantization });
    const tokenizerDir = options.modelDir;
    const hasCacheScales = options.kvCacheAlgorithm !== undefined;
    const job = { tokenizerDir, hasCacheScales, parsed, tensors, mapping, dtype, storage, config };
    const written = await writeCheckpoint({ ...job, outputDir, reporter, signal });
    return { ...written, dtype, algorithm: quantization.quant_algo };
  } finally {
    await tensors.close();
  }
}

interface StorageChoice {
  /** Undefined: floats. */
  readonly storage: LinearStorage | undefined;
  readonly quantization: Quantization;
}

function storageOf(options: ConvertOptions, opened: OpenedDecoder, dtype: FloatType): StorageChoice {
  const { weightOnly, kvCacheAlgorithm, reporter } = options;
  const cache = kvCacheAlgorithm ?? null;
  if (weightOnly === 4 || weightOnly === 8) {
    const quantization = { ...NOT_QUANTIZED, quant_algo: `W${weightOnly}A16`, kv_cache_quant_algo: cache };
    return { storage: new WeightOnlyStorage(weightOnly, dtype, createElementConverter()), quantization };
  }
  const kept = keepIntegers(opened, { needsZeros: weightOnly === "gptq", cache });
  if (typeof kept === "object") return kept;
  if (weightOnly === "gptq") {
    throw new ToolError(`The matrices cannot be written as int4_gptq: ${kept ?? "they are floats"}`, {
      fix: "Name an INT4 folder of GPTQ or AWQ, or use nereid quantize --qformat int4_awq",
    });
  }
  if (kept !== undefined) reporter.warn(`The matrices are dequantized to floats: ${kept}`);
  return { storage: undefined, quantization: { ...NOT_QUANTIZED, kv_cache_quant_algo: cache } };
}

/** A text says why integers cannot be kept; undefined: there are none. */
export function keepIntegers(
  { parsed, tensors }: OpenedDecoder,
  { needsZeros, cache }: { readonly needsZeros: boolean; readonly cache: Quantization["kv_cache_quant_algo"] },
): (StorageChoice & { readonly groupSize: number }) | string | undefined {
  const { config, weights } = parsed;
  const prefix = findPrefix(weights, (name) => tensors.tensors.has(name));
  const found = integersOf(stageTensors(config, weights, prefix, WHOLE, 0), tensors);
  if (typeof found !== "object") return found;
  const kind = { ...found, hasZeros: found.hasZeros || needsZeros };
  const storage = new StoredIntegers(kind, tensors);
  return { storage, quantization: integerQuantization(kind, cache), groupSize: kind.groupSize };
}

const WHOLE: LayoutMapping = { tpSize: 1, ppSize: 1, embeddingSplit: "none" };

const TYPES: ReadonlyMap<string, FloatType> = new Map([
  ["float32", "f32"],
  ["float16", "f16"],
  ["bfloat16", "bf16"],
]);

export function chooseCheckpointType(
  name: DtypeName,
  parsed: ParsedDecoder,
  tensors: ModelFiles["tensors"],
): FloatType {
  return TYPES.get(name) ?? storedType(parsed, tensors);
}

/** Type of the embedding, or BF16 when it is in blocks. */
function storedType({ weights }: ParsedDecoder, tensors: ModelFiles["tensors"]): FloatType {
  const prefix = findPrefix(weights, (name) => tensors.tensors.has(name));
  const dtype = tensors.tensors.get(`${prefix}${weights.embedding}.weight`)?.dtype;
  if (dtype === "F32") return "f32";
  return dtype === "F16" ? "f16" : "bf16";
}

export function expectEvenSplit({ config }: ParsedDecoder, { tpSize, ppSize, embeddingSplit }: LayoutMapping): void {
  const { numLayers, numHeads, numKvHeads, mlp, experts, hiddenSize } = config;
  const refuse = (flag: string, size: number, what: string): never => {
    throw new ToolError(`--${flag} ${size} does not divide ${what}`, { fix: `Give a --${flag} that does` });
  };
  if (numLayers % ppSize !== 0) refuse("pp_size", ppSize, `${numLayers} layers`);
  if (numHeads % tpSize !== 0) refuse("tp_size", tpSize, `${numHeads} heads`);
  if (numKvHeads % tpSize !== 0 && tpSize % numKvHeads !== 0) {
    refuse("tp_size", tpSize, `${numKvHeads} key-value heads, nor do they divide it`);
  }
  const widths = [mlp.intermediateSize, experts?.intermediateSize, experts?.sharedIntermediateSize];
  for (const width of widths) {
    if (width !== undefined && width % tpSize !== 0) refuse("tp_size", tpSize, `an MLP of ${width}`);
  }
  if (embeddingSplit === "hidden" && hiddenSize % tpSize !== 0) refuse("tp_size", tpSize, `${hiddenSize} columns`);
}
