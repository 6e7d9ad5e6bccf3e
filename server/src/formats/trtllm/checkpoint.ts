/**
 * Opens a TensorRT-LLM checkpoint folder (config.json and one weight file per rank) as one Hugging Face model. Source:
 * TensorRT-LLM documentation, "TensorRT-LLM Checkpoint". Tensors of all ranks are joined under Hugging Face names.
 */
import { join } from "node:path";
import { layoutTraits, weightNamesOf } from "../hf/weight-names.ts";
import { QuantizedTensors } from "../quantized/quantized-tensors.ts";
import { openSafetensorsFile } from "../tensors/safetensors.ts";
import type { StoredTensor, TensorSource } from "../tensors/tensor-source.ts";
import type { TrtllmConfig } from "./config.ts";
import { type MergeOptions, mergeRanks } from "./merge.ts";
import { describeQuantized } from "./quantized.ts";

/** @throws Error naming file or tensor */
export async function openTrtllmCheckpoint(directory: string, config: TrtllmConfig): Promise<TensorSource> {
  const ranks: TensorSource[] = [];
  try {
    for (let rank = 0; rank < config.tpSize * config.ppSize; rank++) {
      ranks.push(underCurrentNames(await openSafetensorsFile(join(directory, `rank${rank}.safetensors`))));
    }
    const layout = layoutOf(ranks, config);
    const { matrices, isUsed } = await describeQuantized(ranks, layout, config.quantization);
    const merged = mergeRanks(ranks, { ...layout, isLeftOut: isUsed });
    return matrices.length === 0 ? merged : new QuantizedTensors(merged, matrices);
  } catch (error) {
    await Promise.all(ranks.map((source) => source.close()));
    throw error;
  }
}

/**
 * Derives from the tensors the traits that the config omits: biases, and an output table separate from the embedding.
 */
function layoutOf(
  ranks: readonly TensorSource[],
  config: TrtllmConfig,
): Pick<MergeOptions, "model" | "names" | "mapping"> {
  const has = (name: string): boolean => ranks.some(({ tensors }) => tensors.has(name));
  const { architecture, numLayers, experts, intermediateSize } = config;
  const names = weightNamesOf(architecture);
  const { isGated, norm } = layoutTraits(architecture);
  const layers = Array.from({ length: numLayers }, (_, i) => {
    const isDense = experts === undefined || experts.denseLayers.includes(i);
    return { mlp: isDense ? ("dense" as const) : ("experts" as const) };
  });
  const biases = {
    qkv: has("transformer.layers.0.attention.qkv.bias"),
    oProj: has("transformer.layers.0.attention.dense.bias"),
    mlp: has("transformer.layers.0.mlp.fc.bias"),
    output: has("lm_head.bias"),
  };
  const tieWordEmbeddings = !has("lm_head.weight");
  const model = { ...config, layers, norm, mlp: { isGated, intermediateSize }, biases, tieWordEmbeddings };
  return { model, names, mapping: config };
}

/** Earlier releases store the shared expert beside the MLP, later ones inside it. */
const EARLIER_NAME = /^(transformer\.layers\.\d+\.)(shared_expert(?:_gate)?\..+)$/;

function underCurrentNames(source: TensorSource): TensorSource {
  if (![...source.tensors.keys()].some((name) => EARLIER_NAME.test(name))) return source;
  const earlier = new Map<string, string>();
  const tensors = new Map<string, StoredTensor>();
  for (const [name, tensor] of source.tensors) {
    const current = name.replace(EARLIER_NAME, "$1mlp.$2");
    earlier.set(current, name);
    tensors.set(current, { ...tensor, name: current });
  }
  return {
    tensors,
    read: (name, into, byteOffset) => source.read(earlier.get(name) ?? name, into, byteOffset),
    close: () => source.close(),
  };
}
