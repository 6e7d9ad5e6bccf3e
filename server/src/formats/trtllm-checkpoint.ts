/**
 * Opens a TensorRT-LLM checkpoint folder, config.json and a file of weights per rank, as one model of Hugging Face: its
 * config, and tensors of the names there with the parts of all ranks put together.
 */
import { join } from "node:path";
import { type MergedTensor, MergedTensors } from "./merged-tensors.ts";
import { blocksFor } from "./quantized-matrix.ts";
import { QuantizedTensors, type VirtualMatrix, virtualMatrix } from "./quantized-tensors.ts";
import { readFloats } from "./read-floats.ts";
import { openSafetensorsFile } from "./safetensors.ts";
import type { StoredTensor, TensorSource } from "./tensor-source.ts";
import { unpackTrtllmAwq } from "./trtllm-awq.ts";
import type { TrtllmConfig } from "./trtllm-config.ts";
import {
  layerProjections,
  mergeProjection,
  type Projection,
  vocabColumns,
  vocabRows,
  wholeTensor,
} from "./trtllm-tensors.ts";

/** @throws Error naming file or tensor */
export async function openTrtllmCheckpoint(directory: string, config: TrtllmConfig): Promise<TensorSource> {
  const ranks: TensorSource[] = [];
  try {
    for (let rank = 0; rank < config.tpSize * config.ppSize; rank++) {
      ranks.push(await openSafetensorsFile(join(directory, `rank${rank}.safetensors`)));
    }
    const { plain, quantized } = describeTensors(stagesOf(ranks, config), config);
    const merged = new MergedTensors(plain, ranks);
    return quantized.length === 0 ? merged : new QuantizedTensors(merged, quantized);
  } catch (error) {
    await Promise.all(ranks.map((source) => source.close()));
    throw error;
  }
}

interface Described {
  readonly plain: MergedTensor[];
  readonly quantized: VirtualMatrix[];
}

/** The tensor-parallel ranks of each pipeline stage. */
function stagesOf(ranks: readonly TensorSource[], { tpSize, ppSize }: TrtllmConfig): readonly TensorSource[][] {
  return Array.from({ length: ppSize }, (_, stage) => ranks.slice(stage * tpSize, (stage + 1) * tpSize));
}

function describeTensors(stages: readonly TensorSource[][], config: TrtllmConfig): Described {
  const { hiddenSize, vocabSize, numLayers, ppSize } = config;
  const last = stages.at(-1) ?? [];
  const described: Described = {
    plain: [
      describeEmbedding(stages[0] ?? [], config),
      wholeTensor(last[0], "transformer.ln_f.weight", [hiddenSize], "model.norm.weight"),
    ],
    quantized: [],
  };
  if (last[0]?.tensors.has("lm_head.weight") === true) {
    described.plain.push(vocabRows(last, "lm_head.weight", [vocabSize, hiddenSize], "lm_head.weight"));
  }
  const perStage = numLayers / ppSize;
  for (let layer = 0; layer < numLayers; layer++) {
    const stage = stages[Math.floor(layer / perStage)] ?? [];
    describeLayer(stage, config, `transformer.layers.${layer % perStage}`, `model.layers.${layer}`, described);
  }
  return described;
}

function describeEmbedding(stage: readonly TensorSource[], config: TrtllmConfig): MergedTensor {
  const [name, as] = ["transformer.vocab_embedding.weight", "model.embed_tokens.weight"];
  const shape = [config.vocabSize, config.hiddenSize] as const;
  if (config.embeddingSplit === "hidden") return vocabColumns(stage, name, shape, as);
  return vocabRows(config.embeddingSplit === "none" ? stage.slice(0, 1) : stage, name, shape, as);
}

/** `at` names the layer within its stage, `as` in the model. */
function describeLayer(
  stage: readonly TensorSource[],
  config: TrtllmConfig,
  at: string,
  as: string,
  { plain, quantized }: Described,
): void {
  const norm = (from: string, to: string): MergedTensor =>
    wholeTensor(stage[0], `${at}.${from}.weight`, [config.hiddenSize], `${as}.${to}.weight`);
  plain.push(norm("input_layernorm", "input_layernorm"), norm("post_layernorm", "post_attention_layernorm"));
  for (const projection of layerProjections(config)) {
    const name = `${as}.${projection.name}`;
    const [source] = stage;
    const isQuantized = source?.tensors.has(`${at}.${projection.module}.weights_scaling_factor`) === true;
    if (isQuantized && config.awqGroupSize !== undefined) {
      quantized.push(awqMatrix(source, projection, config.awqGroupSize, at, name));
    } else plain.push(...mergeProjection(stage, projection, at, name));
  }
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
