/**
 * Reads the tensors of one AWQ or GPTQ linear layer, checks their shapes against each other and unpacks them. Sources:
 * see awq.ts and gptq.ts.
 */

import type { GroupedConfig } from "../hf/quantization-config.ts";
import { readFloats } from "../tensors/read-floats.ts";
import type { StoredTensor, TensorSource } from "../tensors/tensor-source.ts";
import { unpackAwq } from "./awq.ts";
import { hasSymmetricZeros, unpackGptq } from "./gptq.ts";
import { irregularGroups, type QuantizedMatrix } from "./quantized-matrix.ts";

export interface QuantizedLayer {
  /** Name of the module: its tensors are `<name>.qweight` and so on. */
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly groupSize: number;
  readonly numGroups: number;
}

/** @throws Error naming the tensor that is missing or does not fit the others */
export function describeLayer(source: TensorSource, name: string, config: GroupedConfig): QuantizedLayer {
  const perWord = 32 / config.bits;
  const [rows = 0, columns = 0] = expectTensor(source, `${name}.qweight`, "I32", [-1, -1]).shape;
  const inputs = config.method === "awq" ? rows : rows * perWord;
  const outputs = config.method === "awq" ? columns * perWord : columns;
  const groupSize = Math.min(config.groupSize, inputs);
  const numGroups = Math.ceil(inputs / groupSize);
  if (config.method === "awq" && inputs % groupSize !== 0) {
    throw new Error(`tensor "${name}.qweight": expected inputs of a multiple of ${groupSize}, got ${inputs}`);
  }
  if (outputs % perWord !== 0) {
    throw new Error(`tensor "${name}.qweight": expected outputs of a multiple of ${perWord}, got ${outputs}`);
  }
  expectTensor(source, `${name}.qzeros`, "I32", [numGroups, outputs / perWord]);
  expectTensor(source, `${name}.scales`, undefined, [numGroups, outputs]);
  if (source.tensors.has(`${name}.g_idx`)) expectTensor(source, `${name}.g_idx`, "I32", [inputs]);
  return { name, inputs, outputs, groupSize, numGroups };
}

export async function loadLayer(
  source: TensorSource,
  layer: QuantizedLayer,
  config: GroupedConfig,
): Promise<QuantizedMatrix> {
  const { name } = layer;
  const stored = {
    ...layer,
    qweight: await readWords(source, `${name}.qweight`),
    qzeros: await readWords(source, `${name}.qzeros`),
    scales: await readFloats(source, `${name}.scales`),
  };
  if (config.method === "awq") return unpackAwq(stored);
  const { bits, version } = config;
  try {
    return unpackGptq({ ...stored, bits, version, groupOf: await readGroups(source, layer) });
  } catch (cause) {
    throw new Error(`layer "${name}": ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** Reads the two traits that decide the storage: contiguous groups, and symmetric zero points. */
export async function inspectLayer(
  source: TensorSource,
  layer: QuantizedLayer,
  config: GroupedConfig,
): Promise<{ readonly groupOf: Int32Array | undefined; readonly isSymmetric: boolean }> {
  if (config.method === "awq") return { groupOf: undefined, isSymmetric: false };
  const groups = await readGroups(source, layer);
  const groupOf = groups && irregularGroups(groups, layer.groupSize);
  if (!config.isSymmetric) return { groupOf, isSymmetric: false };
  // Some files that claim to be symmetric are not.
  const qzeros = await readWords(source, `${layer.name}.qzeros`);
  return { groupOf, isSymmetric: hasSymmetricZeros({ ...config, qzeros }) };
}

function expectTensor(
  source: TensorSource,
  name: string,
  dtype: string | undefined,
  shape: readonly number[],
): StoredTensor {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the weights lack tensor "${name}"`);
  const isWanted = dtype === undefined ? ["F16", "BF16", "F32"].includes(tensor.dtype) : tensor.dtype === dtype;
  const fits =
    tensor.shape.length === shape.length &&
    shape.every((size, i) => (size === -1 ? (tensor.shape[i] ?? 0) > 0 : size === tensor.shape[i]));
  if (isWanted && fits) return tensor;
  const wanted = `${dtype ?? "F16"}[${shape.map((size) => (size === -1 ? "*" : size)).join(", ")}]`;
  throw new Error(`tensor "${name}": expected ${wanted}, got ${tensor.dtype}[${tensor.shape.join(", ")}]`);
}

async function readGroups(source: TensorSource, { name }: QuantizedLayer): Promise<Int32Array | undefined> {
  return source.tensors.has(`${name}.g_idx`) ? readWords(source, `${name}.g_idx`) : undefined;
}

async function readWords(source: TensorSource, name: string): Promise<Int32Array> {
  const bytes = new Uint8Array(source.tensors.get(name)?.byteLength ?? 0);
  await source.read(name, bytes);
  return new Int32Array(bytes.buffer);
}
