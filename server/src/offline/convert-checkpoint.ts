/** A folder of Hugging Face in, a TensorRT-LLM checkpoint out. It knows no command line. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FloatType } from "../device/cpu/convert-elements.ts";
import { createElementConverter } from "../device/cpu/element-converter.ts";
import { type ModelFiles, openModelFiles } from "../formats/model-files.ts";
import type { LayoutMapping } from "../formats/trtllm-layout.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../models/parse-decoder-config.ts";
import { findPrefix } from "../models/weight-plan.ts";
import { checkpointConfig, NOT_QUANTIZED, type Quantization } from "./checkpoint-config.ts";
import { type CheckpointSummary, writeCheckpoint } from "./checkpoint-writer.ts";
import type { Reporter } from "./progress.ts";
import { ToolError } from "./tool-error.ts";
import { type WeightOnlyBits, WeightOnlyStorage } from "./weight-only-storage.ts";

export type DtypeName = "auto" | "float32" | "float16" | "bfloat16";

export interface ConvertOptions {
  readonly modelDir: string;
  readonly outputDir: string;
  /** Of matrices that stay floats; "auto": as the files have them. */
  readonly dtype: DtypeName;
  readonly mapping: LayoutMapping;
  /** Undefined: floats. */
  readonly weightOnlyBits: WeightOnlyBits | undefined;
  readonly kvCacheAlgorithm?: "FP8" | undefined;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface OpenedDecoder extends ModelFiles {
  /** The folder's own config.json, where there is one. */
  readonly source: unknown;
  readonly parsed: ParsedDecoder;
}

/** @throws ToolError with what the files lack */
export async function openDecoder(modelDir: string): Promise<OpenedDecoder> {
  const model = await openModelFiles(modelDir).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  try {
    return { ...model, parsed: parseDecoderConfig(model.files), source: await ownConfig(modelDir) };
  } catch (cause) {
    await model.tensors.close();
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

async function ownConfig(modelDir: string): Promise<unknown> {
  return readFile(join(modelDir, "config.json"), "utf8").then(
    (text) => JSON.parse(text) as unknown,
    () => undefined,
  );
}

export async function convertCheckpoint(options: ConvertOptions): Promise<CheckpointSummary & { dtype: FloatType }> {
  const { files, parsed, tensors } = await openDecoder(options.modelDir);
  try {
    expectEvenSplit(parsed, options.mapping);
    const dtype = chooseType(options.dtype, parsed, tensors);
    const { outputDir, mapping, weightOnlyBits, reporter, signal } = options;
    const quantization = quantizationOf(options);
    const storage =
      weightOnlyBits === undefined ? undefined : new WeightOnlyStorage(weightOnlyBits, dtype, createElementConverter());
    const config = checkpointConfig({ source: files.config, config: parsed.config, dtype, mapping, quantization });
    const tokenizerDir = options.modelDir;
    const hasCacheScales = options.kvCacheAlgorithm !== undefined;
    const job = {
      tokenizerDir,
      hasCacheScales,
      parsed,
      tensors,
      mapping,
      dtype,
      storage,
      config,
      outputDir,
      reporter,
      signal,
    };
    return { ...(await writeCheckpoint(job)), dtype };
  } finally {
    await tensors.close();
  }
}

function quantizationOf({ weightOnlyBits, kvCacheAlgorithm }: ConvertOptions): Quantization {
  const algorithm = weightOnlyBits === undefined ? null : `W${weightOnlyBits}A16`;
  return { ...NOT_QUANTIZED, quant_algo: algorithm, kv_cache_quant_algo: kvCacheAlgorithm ?? null };
}

const TYPES: ReadonlyMap<string, FloatType> = new Map([
  ["float32", "f32"],
  ["float16", "f16"],
  ["bfloat16", "bf16"],
]);

export function chooseType(name: DtypeName, parsed: ParsedDecoder, tensors: ModelFiles["tensors"]): FloatType {
  return TYPES.get(name) ?? storedType(parsed, tensors);
}

/** That of the embedding, or bfloat16 when it is in blocks. */
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
