/**
 * The weights of a Llama decoder on the CPU device: which tensors of the files make up which device tensor, and loading
 * them. Projections that read the same rows are stacked into one, which halves the products of a layer.
 */

import { convertElements, type FloatType } from "../device/cpu/convert-elements.ts";
import { CpuBuffer } from "../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../device/cpu/cpu-device.ts";
import { CPU_TYPE_BYTES, type CpuTensor } from "../device/cpu/cpu-tensor.ts";
import type { LlamaConfig } from "../formats/hf-config.ts";
import type { Safetensors } from "../formats/safetensors.ts";
import { ropeFrequencyFactors } from "./rope-factors.ts";

export interface LlamaLayer {
  readonly attentionNorm: CpuTensor; // [hidden]
  readonly qkv: CpuTensor; // [(heads + 2 * kvHeads) * headDim, hidden]
  readonly qkvBias: CpuTensor | undefined;
  readonly attentionOut: CpuTensor; // [hidden, heads * headDim]
  readonly attentionOutBias: CpuTensor | undefined;
  readonly mlpNorm: CpuTensor; // [hidden]
  readonly gateUp: CpuTensor; // [2 * intermediate, hidden]
  readonly gateUpBias: CpuTensor | undefined;
  readonly down: CpuTensor; // [hidden, intermediate]
  readonly downBias: CpuTensor | undefined;
}

export interface LlamaWeights {
  readonly embedding: CpuTensor; // [vocab, hidden]
  readonly layers: readonly LlamaLayer[];
  readonly norm: CpuTensor; // [hidden]
  /** The embedding itself when the two are tied. */
  readonly output: CpuTensor; // [vocab, hidden]
  readonly ropeFactors: CpuTensor | undefined; // [headDim / 2]
  readonly numBytes: number;
  close(): void;
}

/** Read, converted and copied at a time: bounds what loading needs beside the weights themselves. */
const PIECE_BYTES: number = 8 << 20;

/** One device tensor and the file tensors whose rows follow each other in it. */
interface WeightPlan {
  readonly type: FloatType;
  readonly shape: readonly [number] | readonly [number, number];
  readonly sources: readonly { readonly name: string; readonly shape: readonly number[] }[];
}

/** @throws Error naming a tensor that is missing or has another shape than the config says */
export async function loadLlamaWeights(
  device: CpuDevice,
  config: LlamaConfig,
  files: Safetensors,
  matrixType: FloatType,
): Promise<LlamaWeights> {
  const plans = new WeightPlans(config, matrixType);
  const described = describeModel(plans, config);
  for (const plan of plans.all) checkSources(plan, files);
  const factors = ropeFrequencyFactors(config);
  const factorSpecs = factors === undefined ? [] : [{ type: "f32", shape: [factors.length] } as const];
  const buffer = new CpuBuffer(device, [...plans.all, ...factorSpecs]);
  try {
    for (const [i, plan] of plans.all.entries()) await fill(device, buffer, at(buffer.tensors, i), plan, files);
    const ropeFactors = factors === undefined ? undefined : at(buffer.tensors, plans.all.length);
    if (factors !== undefined && ropeFactors !== undefined) buffer.write(ropeFactors, factors);
    const tensorOf = (index: number): CpuTensor => at(buffer.tensors, index);
    return { ...described(tensorOf), ropeFactors, numBytes: buffer.numBytes, close: () => buffer.close() };
  } catch (error) {
    buffer.close();
    throw error;
  }
}

/** Collects plans; each call gives the index of its device tensor. */
class WeightPlans {
  readonly all: WeightPlan[] = [];
  readonly #matrixType: FloatType;
  readonly #hidden: number;

  constructor(config: LlamaConfig, matrixType: FloatType) {
    this.#matrixType = matrixType;
    this.#hidden = config.hiddenSize;
  }

  matrix(columns: number, ...sources: readonly (readonly [name: string, rows: number])[]): number {
    const rows = sources.reduce((sum, [, count]) => sum + count, 0);
    const named = sources.map(([name, count]) => ({ name: `${name}.weight`, shape: [count, columns] }));
    return this.all.push({ type: this.#matrixType, shape: [rows, columns], sources: named }) - 1;
  }

  norm(name: string): number {
    const shape = [this.#hidden] as const;
    return this.all.push({ type: "f32", shape, sources: [{ name: `${name}.weight`, shape }] }) - 1;
  }

  /** Undefined when the model has no such bias. */
  bias(exists: boolean, ...sources: readonly (readonly [name: string, rows: number])[]): number | undefined {
    if (!exists) return undefined;
    const rows = sources.reduce((sum, [, count]) => sum + count, 0);
    const named = sources.map(([name, count]) => ({ name: `${name}.bias`, shape: [count] }));
    return this.all.push({ type: "f32", shape: [rows], sources: named }) - 1;
  }
}

type TensorOf = (index: number) => CpuTensor;
type Described = Omit<LlamaWeights, "ropeFactors" | "numBytes" | "close">;

/** Plans every weight, and gives what assembles the model once the device tensors exist. */
function describeModel(plans: WeightPlans, config: LlamaConfig): (tensorOf: TensorOf) => Described {
  const embedding = plans.matrix(config.hiddenSize, ["model.embed_tokens", config.vocabSize]);
  const layers = Array.from({ length: config.numLayers }, (_, i) => describeLayer(plans, config, `model.layers.${i}`));
  const norm = plans.norm("model.norm");
  const output = config.tieWordEmbeddings ? embedding : plans.matrix(config.hiddenSize, ["lm_head", config.vocabSize]);
  return (tensorOf) => ({
    embedding: tensorOf(embedding),
    layers: layers.map((layer) => layer(tensorOf)),
    norm: tensorOf(norm),
    output: tensorOf(output),
  });
}

function describeLayer(plans: WeightPlans, config: LlamaConfig, at: string): (tensorOf: TensorOf) => LlamaLayer {
  const { hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, attentionBias, mlpBias } = config;
  const queryWidth = numHeads * headDim;
  const kvWidth = numKvHeads * headDim;
  const attention = `${at}.self_attn`;
  const qkvSources = [
    [`${attention}.q_proj`, queryWidth],
    [`${attention}.k_proj`, kvWidth],
    [`${attention}.v_proj`, kvWidth],
  ] as const;
  const gateUpSources = [
    [`${at}.mlp.gate_proj`, intermediateSize],
    [`${at}.mlp.up_proj`, intermediateSize],
  ] as const;
  const index = {
    attentionNorm: plans.norm(`${at}.input_layernorm`),
    qkv: plans.matrix(hiddenSize, ...qkvSources),
    attentionOut: plans.matrix(queryWidth, [`${attention}.o_proj`, hiddenSize]),
    mlpNorm: plans.norm(`${at}.post_attention_layernorm`),
    gateUp: plans.matrix(hiddenSize, ...gateUpSources),
    down: plans.matrix(intermediateSize, [`${at}.mlp.down_proj`, hiddenSize]),
  };
  const qkvBias = plans.bias(attentionBias, ...qkvSources);
  const attentionOutBias = plans.bias(attentionBias, [`${attention}.o_proj`, hiddenSize]);
  const gateUpBias = plans.bias(mlpBias, ...gateUpSources);
  const downBias = plans.bias(mlpBias, [`${at}.mlp.down_proj`, hiddenSize]);
  return (tensorOf) => ({
    attentionNorm: tensorOf(index.attentionNorm),
    qkv: tensorOf(index.qkv),
    attentionOut: tensorOf(index.attentionOut),
    mlpNorm: tensorOf(index.mlpNorm),
    gateUp: tensorOf(index.gateUp),
    down: tensorOf(index.down),
    qkvBias: qkvBias === undefined ? undefined : tensorOf(qkvBias),
    attentionOutBias: attentionOutBias === undefined ? undefined : tensorOf(attentionOutBias),
    gateUpBias: gateUpBias === undefined ? undefined : tensorOf(gateUpBias),
    downBias: downBias === undefined ? undefined : tensorOf(downBias),
  });
}

function checkSources(plan: WeightPlan, files: Safetensors): void {
  for (const { name, shape } of plan.sources) {
    const range = files.tensors.get(name);
    if (range === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
    if (floatTypeOf(range.dtype) === undefined)
      throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${range.dtype}`);
    if (range.shape.length !== shape.length || !shape.every((size, i) => size === range.shape[i])) {
      throw new Error(
        `tensor "${name}": expected [${shape.join(", ")}] from the config, got [${range.shape.join(", ")}]`,
      );
    }
  }
}

async function fill(
  device: CpuDevice,
  buffer: CpuBuffer,
  tensor: CpuTensor,
  plan: WeightPlan,
  files: Safetensors,
): Promise<void> {
  let written = 0;
  for (const { name } of plan.sources) {
    const range = files.tensors.get(name);
    const from = range && floatTypeOf(range.dtype);
    if (range === undefined || from === undefined) throw new Error(`tensor "${name}" went away`);
    for (let offset = 0; offset < range.byteLength; offset += PIECE_BYTES) {
      const piece = new Uint8Array(Math.min(PIECE_BYTES, range.byteLength - offset));
      await files.read(name, piece, offset);
      const converted = convertElements(device.ggml, from, plan.type, piece);
      buffer.write(tensor, converted, written);
      written += (piece.byteLength / CPU_TYPE_BYTES[from]) * CPU_TYPE_BYTES[plan.type];
    }
  }
}

function floatTypeOf(dtype: string): FloatType | undefined {
  if (dtype === "F32") return "f32";
  if (dtype === "F16") return "f16";
  return dtype === "BF16" ? "bf16" : undefined;
}

function at<T>(list: readonly T[], index: number): T {
  const value = list[index];
  if (value === undefined) throw new Error(`expected an element at ${index} of ${list.length}`);
  return value;
}
