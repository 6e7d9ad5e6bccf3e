/**
 * Opens a model whatever it comes as: a folder of Hugging Face, quantized or not, a GGUF file or a folder that holds one,
 * a TensorRT-LLM checkpoint, an engine built from one. Gives the config in the words of Hugging Face and the weights under
 * the names there.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { findGguf } from "../gguf/find-file.ts";
import { openGgufModel } from "../gguf/model.ts";
import { openCompressedTensors } from "../quantized/compressed-tensors.ts";
import { hasFp8, widenFp8Tensors } from "../quantized/fp8-tensors.ts";
import { openQuantizedTensors } from "../quantized/quantized-tensors.ts";
import { openSafetensors } from "../tensors/safetensors.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import { openTrtllmCheckpoint } from "../trtllm/checkpoint.ts";
import { isTrtllmConfig, parseTrtllmConfig } from "../trtllm/config.ts";
import { openEngineFile } from "../trtllm/engine-file.ts";
import { type HfConfigFiles, readHfConfig } from "./config.ts";
import { parseQuantizationConfig } from "./quantization-config.ts";

export interface ModelFiles {
  /** Without what says how weights are stored: the tensors tell it. */
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
    return { files: { ...files, config: parsed.model }, tensors: await openEngineFile(join(path, "rank0.engine")) };
  }
  if (isTrtllmConfig(config)) {
    const parsed = parseTrtllmConfig(config, at.config);
    return { files: { ...files, config: parsed.model }, tensors: await openTrtllmCheckpoint(path, parsed) };
  }
  const quantization = parseQuantizationConfig(config, at.config);
  if (quantization === undefined) return { files, tensors: await openScaledTensors(path, undefined) };
  const plain = { ...(config as Readonly<Record<string, unknown>>), quantization_config: undefined };
  const tensors =
    quantization.method === "scaled"
      ? await openScaledTensors(path, quantization.block)
      : await openQuantizedTensors(path, quantization);
  return { files: { ...files, config: plain }, tensors };
}

/** What is stored shows in the tensors; without a word on quantization 8-bit floats may be numbers as they are. */
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

/** The checkpoint's config that an engine's repeats; it is one file in the types that the device takes. */
function engineModel(config: unknown): unknown {
  const pretrained = (config as { pretrained_config?: unknown } | null)?.pretrained_config;
  if (typeof pretrained !== "object" || pretrained === null) return undefined;
  return { ...pretrained, mapping: undefined, quantization: undefined };
}

/** Whether there is something there to open; what it is worth shows then. */
export function hasModelFiles(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory() !== true) return stats !== undefined && path.endsWith(".gguf");
  return readdirSync(path).some((name) => name === "config.json" || name.endsWith(".gguf"));
}

/** A folder with config.json is one of Hugging Face, whatever lies beside it. */
async function ggufOf(path: string): Promise<string | undefined> {
  return existsSync(join(path, "config.json")) ? undefined : findGguf(path);
}
