/**
 * Opens a model in any supported format: Hugging Face folder, GGUF, TensorRT-LLM checkpoint or engine. Returns
 * `config.json` fields and weights under Hugging Face names. Sources: see gguf/, quantized/, tensors/ and trtllm/.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { findGguf } from "../gguf/find-file.ts";
import { openGgufModel } from "../gguf/model.ts";
import { openCompressedTensors } from "../quantized/compressed-tensors.ts";
import { hasFp8, widenFp8Tensors } from "../quantized/fp8-tensors.ts";
import { openGptOssExperts } from "../quantized/gpt-oss-experts.ts";
import { openQuantizedTensors } from "../quantized/quantized-tensors.ts";
import { openSafetensors } from "../tensors/safetensors.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import { openTrtllmCheckpoint } from "../trtllm/checkpoint.ts";
import { isTrtllmConfig, parseTrtllmConfig } from "../trtllm/config.ts";
import { openEngineFile } from "../trtllm/engine-file.ts";
import { type HfConfigFiles, readHfConfig } from "./config.ts";
import { completeEncoderDecoder } from "./encoder-decoder-files.ts";
import { parseQuantizationConfig } from "./quantization-config.ts";

export interface ModelFiles {
  /** Without `quantization_config`: the tensors state how they are stored. */
  readonly files: HfConfigFiles;
  readonly tensors: TensorSource;
}

/** @throws Error naming the file and what is wrong with it */
export async function openModelFiles(path: string): Promise<ModelFiles> {
  const gguf = await ggufOf(path);
  if (gguf !== undefined) {
    const model = await openGgufModel(gguf);
    const files = { config: model.config, generation: undefined, at: { config: gguf, generation: gguf } };
    return { files, tensors: model };
  }
  const files = await readHfConfig(path);
  const { config, at } = files;
  const built = engineModel(config);
  if (built !== undefined) {
    const parsed = parseTrtllmConfig(built, at.config);
    return {
      files: { ...files, config: parsed.model, isConverted: true },
      tensors: await openEngineFile(join(path, "rank0.engine")),
    };
  }
  if (isTrtllmConfig(config)) {
    const parsed = parseTrtllmConfig(config, at.config);
    return {
      files: { ...files, config: parsed.model, isConverted: true },
      tensors: await openTrtllmCheckpoint(path, parsed),
    };
  }
  const quantization = parseQuantizationConfig(config, at.config);
  const [className] = (config as { readonly architectures?: readonly unknown[] } | null)?.architectures ?? [];
  if (className === "GptOssForCausalLM" && (quantization === undefined || quantization.method === "mxfp4")) {
    const plain = { ...(config as Readonly<Record<string, unknown>>), quantization_config: undefined };
    return { files: { ...files, config: plain }, tensors: openGptOssExperts(await openSafetensors(path)) };
  }
  if (quantization?.method === "mxfp4")
    throw new Error(`${at.config}: quantization_config: mxfp4 is read for GptOssForCausalLM, got ${String(className)}`);
  if (quantization === undefined) {
    const whole = completeEncoderDecoder(config, await openScaledTensors(path, undefined));
    return { files: { ...files, config: whole.config }, tensors: whole.tensors };
  }
  const plain = { ...(config as Readonly<Record<string, unknown>>), quantization_config: undefined };
  const tensors =
    quantization.method === "scaled"
      ? await openScaledTensors(path, quantization.block)
      : await openQuantizedTensors(path, quantization);
  return { files: { ...files, config: plain }, tensors };
}

/** Applies FP8 scales where tensors have them. Without a quantization config, FP8 tensors may hold plain values. */
async function openScaledTensors(path: string, block: readonly [number, number] | undefined): Promise<TensorSource> {
  const source = await openSafetensors(path);
  try {
    const needsScales = block !== undefined;
    const wide = hasFp8(source) ? widenFp8Tensors(source, { block: block ?? [128, 128], needsScales }) : source;
    return needsScales ? await openCompressedTensors(wide) : wide;
  } catch (error) {
    await source.close();
    throw error;
  }
}

/**
 * The checkpoint config inside an engine's config. An engine is one file in device types, so mapping and quantization
 * do not apply.
 */
function engineModel(config: unknown): unknown {
  const pretrained = (config as { pretrained_config?: unknown } | null)?.pretrained_config;
  if (typeof pretrained !== "object" || pretrained === null) return undefined;
  return { ...pretrained, mapping: undefined, quantization: undefined };
}

/** Whether the path holds a model to open. Its validity is checked when it is opened. */
export function hasModelFiles(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory() !== true) return stats !== undefined && path.endsWith(".gguf");
  return readdirSync(path).some((name) => name === "config.json" || name.endsWith(".gguf"));
}

/** A folder with config.json is a Hugging Face folder, even when GGUF files lie beside it. */
async function ggufOf(path: string): Promise<string | undefined> {
  return existsSync(join(path, "config.json")) ? undefined : findGguf(path);
}
