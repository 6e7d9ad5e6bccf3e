/**
 * Opens a TensorRT-LLM checkpoint folder, config.json and a file of weights per rank, as one model of Hugging Face: its
 * config, and tensors of the names there with the parts of all ranks put together.
 */
import { join } from "node:path";
import { blocksFor } from "./quantized-matrix.ts";
import { QuantizedTensors, type VirtualMatrix, virtualMatrix } from "./quantized-tensors.ts";
import { readFloats } from "./read-floats.ts";
import { openSafetensorsFile } from "./safetensors.ts";
import type { StoredTensor, TensorSource } from "./tensor-source.ts";
import { unpackTrtllmAwq } from "./trtllm-awq.ts";
import type { TrtllmConfig } from "./trtllm-config.ts";
import { type MergeOptions, mergeRanks } from "./trtllm-merge.ts";
import { layerProjections, type Projection } from "./trtllm-tensors.ts";
import { layoutTraits, weightNamesOf } from "./weight-names.ts";

/** @throws Error naming file or tensor */
export async function openTrtllmCheckpoint(directory: string, config: TrtllmConfig): Promise<TensorSource> {
  const ranks: TensorSource[] = [];
  try {
    for (let rank = 0; rank < config.tpSize * config.ppSize; rank++) {
      ranks.push(await openSafetensorsFile(join(directory, `rank${rank}.safetensors`)));
    }
    const { quantized, isQuantized } = describeQuantized(stagesOf(ranks, config), config);
    const merged = mergeRanks(ranks, { ...layoutOf(ranks, config), isLeftOut: isQuantized });
    return quantized.length === 0 ? merged : new QuantizedTensors(merged, quantized);
  } catch (error) {
    await Promise.all(ranks.map((source) => source.close()));
    throw error;
  }
}

interface Described {
  readonly quantized: readonly VirtualMatrix[];
  isQuantized(stage: number, name: string): boolean;
}

/** What the config leaves open, the tensors tell: biases, and whether the output has a table of its own. */
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
    attentionOut: has("transformer.layers.0.attention.dense.bias"),
    mlp: has("transformer.layers.0.mlp.fc.bias"),
    output: has("lm_head.bias"),
  };
  const tieWordEmbeddings = !has("lm_head.weight");
  const model = { ...config, layers, norm, mlp: { isGated, intermediateSize }, biases, tieWordEmbeddings };
  return { model, names, mapping: config };
}

/** The tensor-parallel ranks of each pipeline stage. */
function stagesOf(ranks: readonly TensorSource[], { tpSize, ppSize }: TrtllmConfig): readonly TensorSource[][] {
  return Array.from({ length: ppSize }, (_, stage) => ranks.slice(stage * tpSize, (stage + 1) * tpSize));
}

/** Matrices that are quantized, and the tensors of the first rank in which each stage keeps them. */
function describeQuantized(stages: readonly TensorSource[][], config: TrtllmConfig): Described {
  const quantized: VirtualMatrix[] = [];
  const used = stages.map(() => new Set<string>());
  const perStage = config.numLayers / config.ppSize;
  for (let layer = 0; layer < config.numLayers; layer++) {
    const stage = Math.floor(layer / perStage);
    const [source] = stages[stage] ?? [];
    const at = `transformer.layers.${layer % perStage}`;
    for (const projection of layerProjections(config)) {
      const module = `${at}.${projection.module}`;
      const isQuantized = source?.tensors.has(`${module}.weights_scaling_factor`) === true;
      if (!isQuantized || config.awqGroupSize === undefined) continue;
      const name = `model.layers.${layer}.${projection.name}`;
      quantized.push(awqMatrix(source, projection, config.awqGroupSize, at, name));
      used[stage]?.add(`${module}.weight`);
    }
  }
  return { quantized, isQuantized: (stage, name) => used[stage]?.has(name) === true };
}

function awqMatrix(
  source: TensorSource,
  projection: Projection,
  groupSize: number,
  at: string,
  name: string,
): VirtualMatrix {
  const module = `${at}.${projection.module}`;
  const inputs = projection.columns;
  const outputs = projection.split === "rows" ? projection.sourceRows : projection.rows;
  const firstRow = projection.split === "rows" ? projection.sourceRow : 0;
  const numRows = projection.split === "rows" ? projection.rowsPerRank : projection.rows;
  if (inputs % groupSize !== 0)
    throw new Error(`${module}: expected inputs of a multiple of ${groupSize}, got ${inputs}`);
  expectTensor(source, `${module}.weight`, ["I8", "U8"], [outputs / 2, inputs]);
  const floats = ["F32", "F16", "BF16"];
  expectTensor(source, `${module}.weights_scaling_factor`, floats, [outputs, inputs / groupSize]);
  const hasInputScales = source.tensors.has(`${module}.prequant_scaling_factor`);
  if (hasInputScales) expectTensor(source, `${module}.prequant_scaling_factor`, floats, [inputs]);
  const inputScales = hasInputScales ? new Float32Array(0) : undefined;
  const blocks = blocksFor({ bits: 4, inputs, groupSize, groupOf: undefined, inputScales }, true);
  return virtualMatrix(`${name}.weight`, [numRows, inputs], blocks, async () => {
    const weight = new Uint8Array((outputs / 2) * inputs);
    await source.read(`${module}.weight`, weight);
    const scales = await readFloats(source, `${module}.weights_scaling_factor`);
    const layer = { outputs, inputs, groupSize, weight, scales };
    const scalesOfInputs = hasInputScales ? await readFloats(source, `${module}.prequant_scaling_factor`) : undefined;
    return unpackTrtllmAwq({ ...layer, inputScales: scalesOfInputs }, firstRow, numRows);
  });
}

function expectTensor(
  source: TensorSource,
  name: string,
  dtypes: readonly string[],
  shape: readonly number[],
): StoredTensor {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the checkpoint lacks tensor "${name}"`);
  const fits = tensor.shape.length === shape.length && shape.every((size, i) => size === tensor.shape[i]);
  if (fits && dtypes.includes(tensor.dtype)) return tensor;
  const got = `${tensor.dtype}[${tensor.shape.join(", ")}]`;
  throw new Error(`tensor "${name}": expected ${dtypes.join("|")}[${shape.join(", ")}], got ${got}`);
}
