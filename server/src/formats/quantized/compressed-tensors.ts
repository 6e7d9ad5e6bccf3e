/**
 * Opens integer weights of a compressed-tensors checkpoint (llm-compressor). Formats `pack-quantized` (words, scale per
 * group) and `int-quantized` (bytes, scale per row). Source: compressed-tensors README. FP8 tensors are handled by
 * `fp8-tensors.ts`.
 */

import { readFloats } from "../tensors/read-floats.ts";
import type { StoredTensor, TensorSource } from "../tensors/tensor-source.ts";
import { blocksFor, int4Groups, irregularGroups, type QuantizedMatrix } from "./quantized-matrix.ts";
import { QuantizedTensors, type VirtualMatrix, virtualMatrix } from "./quantized-tensors.ts";

const PACKED = ".weight_packed";
const FLOATS: readonly string[] = ["F32", "F16", "BF16"];
const MAX_INPUTS: number = 1 << 24;

/** Takes ownership of the source. @throws Error naming the tensor that is missing or does not fit */
export async function openCompressedTensors(source: TensorSource): Promise<TensorSource> {
  const matrices: VirtualMatrix[] = [];
  const names = [...source.tensors.keys()];
  // One block type for all: layers that are stacked in memory must share it.
  const isSymmetric = !names.some((name) => name.endsWith(".weight_zero_point"));
  for (const name of names) {
    if (name.endsWith(PACKED)) matrices.push(await packedMatrix(source, name.slice(0, -PACKED.length), isSymmetric));
    const { dtype } = source.tensors.get(name) ?? {};
    if (name.endsWith(".weight") && dtype === "I8") matrices.push(byteMatrix(source, name.slice(0, -".weight".length)));
  }
  return matrices.length === 0 ? source : new QuantizedTensors(source, matrices);
}

interface PackedLayer {
  readonly module: string;
  readonly outputs: number;
  readonly inputs: number;
  readonly bits: 4 | 8;
  readonly groupSize: number;
  readonly numGroups: number;
  readonly groupOf: Int32Array | undefined;
}

async function packedMatrix(source: TensorSource, module: string, isSymmetric: boolean): Promise<VirtualMatrix> {
  const [outputs, inputs] = await readShape(source, module);
  const words = expectTensor(source, module + PACKED, ["I32"], [outputs, -1]).shape[1] ?? 0;
  const bits = ([4, 8] as const).find((one) => words === Math.ceil(inputs / (32 / one)));
  if (bits === undefined) throw new Error(`tensor "${module}${PACKED}": expected 4 or 8 bits for ${inputs} inputs`);
  const numGroups = expectTensor(source, `${module}.weight_scale`, FLOATS, [outputs, -1]).shape[1] ?? 0;
  if (numGroups < 1 || inputs % numGroups !== 0)
    throw new Error(`tensor "${module}.weight_scale": expected groups that divide ${inputs} inputs, got ${numGroups}`);
  const groupSize = inputs / numGroups;
  const groupOf = await readGroups(source, module, inputs, groupSize, numGroups);
  const layer: PackedLayer = { module, outputs, inputs, bits, groupSize, numGroups, groupOf };
  const zeros = `${module}.weight_zero_point`;
  if (source.tensors.has(zeros)) expectTensor(source, zeros, ["I32"], [Math.ceil(outputs / (32 / bits)), numGroups]);
  return virtualMatrix(
    `${module}.weight`,
    [outputs, inputs],
    blocksFor(layer, isSymmetric),
    int4Groups(layer, isSymmetric),
    () => load(source, layer),
  );
}

async function load(source: TensorSource, layer: PackedLayer): Promise<QuantizedMatrix> {
  const { module, outputs, inputs, bits, numGroups } = layer;
  const words = await readWords(source, module + PACKED);
  const zeroWords = source.tensors.has(`${module}.weight_zero_point`)
    ? await readWords(source, `${module}.weight_zero_point`)
    : undefined;
  const perWord = 32 / bits;
  const mask = 2 ** bits - 1;
  const wordsPerRow = Math.ceil(inputs / perWord);
  const values = new Uint8Array(outputs * inputs);
  for (let row = 0; row < outputs; row++) {
    for (let i = 0; i < inputs; i++) {
      const word = words[row * wordsPerRow + Math.floor(i / perWord)] ?? 0;
      values[row * inputs + i] = (word >>> (bits * (i % perWord))) & mask;
    }
  }
  // Stored values and zero points are offset by half the range.
  const zeros = new Uint16Array(outputs * numGroups).fill(2 ** (bits - 1));
  if (zeroWords !== undefined) {
    for (let i = 0; i < zeros.length; i++) {
      const row = Math.floor(i / numGroups);
      const word = zeroWords[Math.floor(row / perWord) * numGroups + (i % numGroups)] ?? 0;
      zeros[i] = (word >>> (bits * (row % perWord))) & mask;
    }
  }
  return { ...layer, values, scales: await readFloats(source, `${module}.weight_scale`), zeros };
}

/** Signed bytes with a scale per row or per tensor. */
function byteMatrix(source: TensorSource, module: string): VirtualMatrix {
  const [outputs = 0, inputs = 0] = expectTensor(source, `${module}.weight`, ["I8"], [-1, -1]).shape;
  const scale = source.tensors.get(`${module}.weight_scale`);
  const count = scale?.shape.reduce((product, size) => product * size, 1);
  if (scale === undefined || !FLOATS.includes(scale.dtype) || (count !== 1 && count !== outputs)) {
    const got = scale === undefined ? "none" : `${scale.dtype}[${scale.shape.join(", ")}]`;
    throw new Error(`tensor "${module}.weight_scale": expected floats [1] or [${outputs}, 1], got ${got}`);
  }
  if (source.tensors.has(`${module}.weight_zero_point`))
    throw new Error(`tensor "${module}.weight_zero_point": bytes with zero points are not supported`);
  const layer = { outputs, inputs, bits: 8 as const, groupSize: inputs, groupOf: undefined, numGroups: 1 };
  return virtualMatrix(`${module}.weight`, [outputs, inputs], blocksFor(layer, true), undefined, async () => {
    const values = new Uint8Array(outputs * inputs);
    await source.read(`${module}.weight`, values);
    for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) ^ 0x80;
    const scales = await readFloats(source, `${module}.weight_scale`);
    const perRow = scales.length === 1 ? new Float32Array(outputs).fill(scales[0] ?? 0) : scales;
    return { ...layer, values, scales: perRow, zeros: new Uint16Array(outputs).fill(128) };
  });
}

/** Shape before packing; the last word may be partly used. */
async function readShape(source: TensorSource, module: string): Promise<readonly [outputs: number, inputs: number]> {
  const name = `${module}.weight_shape`;
  expectTensor(source, name, ["I64"], [2]);
  const bytes = new Uint8Array(16);
  await source.read(name, bytes);
  const [outputs = 0, inputs = 0] = Array.from(new BigInt64Array(bytes.buffer), Number);
  const isSize = (value: number): boolean => Number.isSafeInteger(value) && value > 0 && value <= MAX_INPUTS;
  if (isSize(outputs) && isSize(inputs)) return [outputs, inputs];
  throw new Error(`tensor "${name}": expected two sizes up to ${MAX_INPUTS}, got ${outputs} and ${inputs}`);
}

async function readGroups(
  source: TensorSource,
  module: string,
  inputs: number,
  groupSize: number,
  numGroups: number,
): Promise<Int32Array | undefined> {
  const name = `${module}.weight_g_idx`;
  if (!source.tensors.has(name)) return undefined;
  expectTensor(source, name, ["I32"], [inputs]);
  const groupOf = await readWords(source, name);
  const wrong = groupOf.find((group) => group < 0 || group >= numGroups);
  if (wrong !== undefined)
    throw new Error(`tensor "${name}": expected groups from 0 to ${numGroups - 1}, got ${wrong}`);
  return irregularGroups(groupOf, groupSize);
}

async function readWords(source: TensorSource, name: string): Promise<Int32Array> {
  const bytes = new Uint8Array(source.tensors.get(name)?.byteLength ?? 0);
  await source.read(name, bytes);
  return new Int32Array(bytes.buffer);
}

function expectTensor(
  source: TensorSource,
  name: string,
  dtypes: readonly string[],
  shape: readonly number[],
): StoredTensor {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the weights lack tensor "${name}"`);
  const fits =
    tensor.shape.length === shape.length &&
    shape.every((size, i) => (size === -1 ? (tensor.shape[i] ?? 0) > 0 : size === tensor.shape[i]));
  if (fits && dtypes.includes(tensor.dtype)) return tensor;
  const wanted = shape.map((size) => (size === -1 ? "*" : size)).join(", ");
  throw new Error(
    `tensor "${name}": expected ${dtypes.join("|")}[${wanted}], got ${tensor.dtype}[${tensor.shape.join(", ")}]`,
  );
}
