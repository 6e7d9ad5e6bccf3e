/**
 * Presents an AWQ or GPTQ checkpoint as ordinary weights, `<module>.weight`. Sources: see awq.ts and gptq.ts. Uses ggml
 * blocks when they hold the integers exactly, else floats. A matrix is unpacked at its first read and kept until
 * another is read.
 */

import type { GroupedConfig } from "../hf/quantization-config.ts";
import { openSafetensors } from "../tensors/safetensors.ts";
import type { StoredInt4Groups } from "../tensors/stored-int4.ts";
import {
  expectTensorRange,
  type IntegerTensor,
  rowBytes,
  type StoredTensor,
  type TensorSource,
  tensorBytes,
} from "../tensors/tensor-source.ts";
import { describeLayer, inspectLayer, loadLayer, type QuantizedLayer } from "./quantized-layer.ts";
import {
  blocksFor,
  dequantizeRows,
  int4Groups,
  type MatrixBlocks,
  packRows,
  type QuantizedMatrix,
  toInt4,
} from "./quantized-matrix.ts";

/** @throws Error naming file or tensor */
export async function openQuantizedTensors(directory: string, config: GroupedConfig): Promise<TensorSource> {
  const source = await openSafetensors(directory);
  try {
    return new QuantizedTensors(source, await describeMatrices(source, config));
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** A matrix that is computed from other tensors when it is read. */
export interface VirtualMatrix {
  readonly tensor: StoredTensor;
  /** Undefined: stored as floats. */
  readonly blocks: MatrixBlocks | undefined;
  /** See IntegerTensor. */
  readonly int4: StoredInt4Groups | undefined;
  load(): Promise<QuantizedMatrix>;
}

const PART_SUFFIX = /\.(qweight|qzeros|scales|g_idx)$/;

async function describeMatrices(source: TensorSource, config: GroupedConfig): Promise<VirtualMatrix[]> {
  const names = [...source.tensors.keys()].filter((name) => name.endsWith(".qweight"));
  const layers = names.map((name) => describeLayer(source, name.slice(0, -".qweight".length), config));
  const inspected: (readonly [QuantizedLayer, Awaited<ReturnType<typeof inspectLayer>>])[] = [];
  for (const layer of layers) inspected.push([layer, await inspectLayer(source, layer, config)]);
  // One block type for all: layers that are stacked in memory must share it.
  const isSymmetric = inspected.every(([, layer]) => layer.isSymmetric);
  return inspected.map(([layer, { groupOf }]) => {
    const draft = { ...layer, bits: config.bits, groupOf };
    const blocks = blocksFor(draft, isSymmetric);
    const int4 = int4Groups(draft, isSymmetric);
    const shape = [layer.outputs, layer.inputs];
    return virtualMatrix(`${layer.name}.weight`, shape, blocks, int4, () => loadLayer(source, layer, config));
  });
}

export function virtualMatrix(
  name: string,
  shape: readonly number[],
  blocks: MatrixBlocks | undefined,
  int4: StoredInt4Groups | undefined,
  load: () => Promise<QuantizedMatrix>,
): VirtualMatrix {
  const dtype = blocks ?? "F32";
  return { tensor: { name, dtype, shape, byteLength: tensorBytes(dtype, shape) }, blocks, int4, load };
}

/** The tensors of `source`, with the parts of each quantized layer replaced by its matrix. */
export class QuantizedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly integers: ReadonlyMap<string, IntegerTensor>;
  readonly #source: TensorSource;
  readonly #matrices: ReadonlyMap<string, VirtualMatrix>;
  #last: { readonly name: string; readonly matrix: Promise<QuantizedMatrix> } | undefined;

  constructor(source: TensorSource, matrices: readonly VirtualMatrix[]) {
    this.#source = source;
    this.#matrices = new Map(matrices.map((matrix) => [matrix.tensor.name, matrix]));
    const plain = [...source.tensors].filter(([name]) => !PART_SUFFIX.test(name));
    this.tensors = new Map([...plain, ...matrices.map(({ tensor }) => [tensor.name, tensor] as const)]);
    this.integers = new Map(matrices.map((matrix) => [matrix.tensor.name, this.#integersOf(matrix)]));
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const { dtype, shape } = expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const virtual = this.#matrices.get(name);
    if (virtual === undefined) {
      await this.#source.read(name, into, byteOffset);
      return;
    }
    if (into.byteLength === 0) return;
    const matrix = await this.#load(virtual);
    const rowLength = rowBytes(dtype, shape[1] ?? 0);
    const firstRow = Math.floor(byteOffset / rowLength);
    const numRows = Math.ceil((byteOffset + into.byteLength) / rowLength) - firstRow;
    const rows = rowsOf(matrix, virtual.blocks, firstRow, numRows);
    const start = byteOffset - firstRow * rowLength;
    into.set(rows.subarray(start, start + into.byteLength));
  }

  async close(): Promise<void> {
    this.#last = undefined;
    await this.#source.close();
  }

  #integersOf(virtual: VirtualMatrix): IntegerTensor {
    return {
      int4: virtual.int4,
      readInt4: async () => toInt4(await this.#load(virtual)),
      readFloats: async (firstRow, numRows) => dequantizeRows(await this.#load(virtual), firstRow, numRows),
    };
  }

  #load({ tensor, load }: VirtualMatrix): Promise<QuantizedMatrix> {
    if (this.#last?.name !== tensor.name) this.#last = { name: tensor.name, matrix: load() };
    return this.#last.matrix;
  }
}

function rowsOf(
  matrix: QuantizedMatrix,
  blocks: MatrixBlocks | undefined,
  firstRow: number,
  numRows: number,
): Uint8Array {
  if (blocks !== undefined) return packRows(matrix, blocks, firstRow, numRows);
  return new Uint8Array(dequantizeRows(matrix, firstRow, numRows).buffer);
}
