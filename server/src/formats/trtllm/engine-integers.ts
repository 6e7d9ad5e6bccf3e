/**
 * INT4 matrices in an engine file: separate tensors for codes, scales, zero points and input multipliers. Source:
 * engine-header.ts defines the format.
 */

import { dequantizeRows } from "../quantized/quantized-matrix.ts";
import type { StoredInt4Matrix } from "../tensors/stored-int4.ts";
import { type IntegerTensor, type TensorSource, tensorBytes } from "../tensors/tensor-source.ts";
import type { EngineIntegers, EngineTensor } from "./engine-header.ts";

export interface IntegerPart {
  readonly name: string;
  readonly dtype: "U8" | "F32";
  readonly shape: readonly number[];
  /** Serialized part of a matrix that is being written. */
  bytesOf(matrix: StoredInt4Matrix): Uint8Array;
}

const MIDDLE = 8;

/** In file order. */
export function integerParts({
  name,
  outputs,
  inputs,
  groupSize,
  hasZeros,
  hasInputScales,
}: EngineIntegers): readonly IntegerPart[] {
  const numGroups = inputs / groupSize;
  const part = (
    kind: string,
    dtype: IntegerPart["dtype"],
    shape: readonly number[],
    bytesOf: IntegerPart["bytesOf"],
  ) => {
    return { name: `${name}#${kind}`, dtype, shape, bytesOf };
  };
  const middle = (): Uint8Array => new Uint8Array(outputs * numGroups).fill(MIDDLE);
  const ones = (): Float32Array => new Float32Array(inputs).fill(1);
  return [
    part("codes", "U8", [outputs, inputs / 2], ({ codes }) => codes),
    part("scales", "F32", [outputs, numGroups], ({ scales }) => bytesOfFloats(scales)),
    ...(hasZeros ? [part("zeros", "U8", [outputs, numGroups], ({ zeros }) => zeros ?? middle())] : []),
    ...(hasInputScales
      ? [part("input_scales", "F32", [inputs], ({ inputScales }) => bytesOfFloats(inputScales ?? ones()))]
      : []),
  ];
}

/** Describes the matrix itself, which has no bytes of its own in the file. */
export function matrixTensor({ name, outputs, inputs }: EngineIntegers): EngineTensor {
  const shape = [outputs, inputs];
  return { name, dtype: "F32", shape, offset: 0, byteLength: tensorBytes("F32", shape), crc32: 0 };
}

export function engineIntegers(matrix: EngineIntegers, file: TensorSource): IntegerTensor {
  const { groupSize, hasZeros, hasInputScales } = matrix;
  let last: Promise<StoredInt4Matrix> | undefined;
  const load = (): Promise<StoredInt4Matrix> => readMatrix(matrix, file);
  return {
    int4: { groupSize, hasZeros, hasInputScales },
    readInt4: load,
    async readFloats(firstRow, numRows) {
      last ??= load();
      const rows = widenRows(await last, firstRow, numRows);
      if (firstRow + numRows >= matrix.outputs) last = undefined;
      return rows;
    },
  };
}

async function readMatrix(matrix: EngineIntegers, file: TensorSource): Promise<StoredInt4Matrix> {
  const { name, outputs, inputs, groupSize } = matrix;
  const parts = new Map<string, Uint8Array>();
  for (const part of integerParts(matrix)) {
    const bytes = new Uint8Array(tensorBytes(part.dtype, part.shape));
    await file.read(part.name, bytes);
    parts.set(part.name.slice(name.length + 1), bytes);
  }
  const floats = (kind: string): Float32Array | undefined => {
    const bytes = parts.get(kind);
    return bytes === undefined ? undefined : new Float32Array(bytes.buffer);
  };
  return {
    outputs,
    inputs,
    groupSize,
    codes: parts.get("codes") ?? new Uint8Array(0),
    scales: floats("scales") ?? new Float32Array(0),
    zeros: parts.get("zeros"),
    inputScales: floats("input_scales"),
  };
}

function widenRows(matrix: StoredInt4Matrix, firstRow: number, numRows: number): Float32Array {
  const { inputs, groupSize, codes, scales, zeros, inputScales } = matrix;
  const numGroups = inputs / groupSize;
  const start = (firstRow * inputs) / 2;
  const values = new Uint8Array(numRows * inputs);
  for (let i = 0; i < values.length; i++) values[i] = ((codes[start + (i >> 1)] ?? 0) >> (4 * (i % 2))) & 15;
  const groups = [firstRow * numGroups, (firstRow + numRows) * numGroups] as const;
  const own = zeros === undefined ? new Uint16Array(numRows * numGroups).fill(MIDDLE) : zeros.slice(...groups);
  const rows = {
    outputs: numRows,
    inputs,
    bits: 4,
    values,
    groupSize,
    groupOf: undefined,
    numGroups,
    scales: scales.subarray(...groups),
    zeros: Uint16Array.from(own),
    inputScales,
  } as const;
  return dequantizeRows(rows, 0, numRows);
}

function bytesOfFloats(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
