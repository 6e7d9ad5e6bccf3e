/**
 * Adapters in the forward pass on a GPU: how the matrices of one lie in memory, and what is added behind the linear layers
 * for the rows that carry it. It knows no files and no requests; an adapter is an address.
 */
import { ELEM_BYTES, type ElemType, roundUp } from "../../../kernels/cuda/launch-args.ts";
import type { DeferredEpilogue } from "../../../kernels/cuda/quantized-output.ts";
import {
  LORA_PART_BYTES,
  LORA_PARTS,
  LORA_RANK_STEP,
  launchLora,
  writeLoraPart,
} from "../../../kernels/lora/lora.cuda.ts";
import { type CudaTensor, layOut } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { LoraAdapter, LoraChange, LoraLinear } from "../../formats/lora/lora-adapter.ts";
import type { Linear } from "../weights/weight-plan.ts";
import { enqueueGemm } from "./gemm.ts";
import type { CudaPass, CudaRows } from "./pass.ts";
import type { GemmReader } from "./plan-gemm.ts";

const LINEARS: readonly LoraLinear[] = ["qkv", "oProj", "mlpIn", "mlpOut"];

export interface LinearPlace {
  readonly layer: number;
  readonly linear: LoraLinear;
}

/** A linear layer and its LoRA terms. Gives the part of the epilogue that is deferred to the reader. */
export function enqueueAdapted(
  pass: CudaPass,
  place: LinearPlace,
  x: CudaRows,
  weights: Linear<CudaTensor>,
  numRows: number,
  y: DevicePointer,
  reader: GemmReader = "complete",
): DeferredEpilogue | undefined {
  const { lora } = pass.batch;
  const gemm = { x, linear: weights, rows: numRows, y };
  const left = enqueueGemm(pass, gemm, { reader: readerWithLora(pass, reader) });
  if (lora === undefined) return left;
  const [width = 0, inputs = 0] = weights.weight.shape;
  const { type, lora: memory, isDeterministic } = pass.model;
  if (memory === undefined) throw new Error("rows with adapters, and no memory for them");
  const firstPart = firstPartOf(place);
  const rows = { x: x.address, xScales: x.scales, y, sumScales: left?.scales, inputs, width, numRows };
  launchLora(pass.stream, { type, ...lora, ...rows, firstPart, low: memory.low, inOneSum: isDeterministic });
  return left;
}

/** LoRA terms are added to whole sums, scaled or not, before an activation. */
export function readerWithLora({ batch }: CudaPass, reader: GemmReader): GemmReader {
  return batch.lora === undefined || reader === "complete" ? reader : "scales";
}

function firstPartOf({ layer, linear }: LinearPlace): number {
  return (layer * LINEARS.length + LINEARS.indexOf(linear)) * LORA_PARTS;
}

/** Rows to store at an offset; what is missing of rows and columns are zeros. */
export interface CudaLoraMatrix {
  readonly offset: number;
  readonly values: Float32Array; // [numRows, width]
  readonly width: number;
  readonly paddedRows: number;
  readonly paddedWidth: number;
}

/** How an adapter lies in one piece of memory: the descriptions of its parts, then its matrices. */
export interface CudaLoraPlan {
  readonly numBytes: number;
  readonly matrices: readonly CudaLoraMatrix[];
  /** Largest rank of its parts, rounded up to the step of the kernels. */
  readonly maxRank: number;
  /** The descriptions, when all begins at that address. */
  describe(base: DevicePointer): Uint8Array<ArrayBuffer>;
}

/** @throws Error naming the layer whose columns change twice */
export function planCudaLora({ changes }: LoraAdapter, numLayers: number, type: ElemType): CudaLoraPlan {
  const tableBytes = numLayers * LINEARS.length * LORA_PARTS * LORA_PART_BYTES;
  const shapes = changes.flatMap((change) => shapesOf(change));
  const sizes = shapes.map(({ paddedRows, paddedWidth }) => paddedRows * paddedWidth * ELEM_BYTES[type]);
  const { offsets, numBytes } = layOut([tableBytes, ...sizes]);
  const places = placesOf(changes);
  return {
    numBytes,
    matrices: shapes.map((shape, i) => ({ ...shape, offset: offsets[i + 1] ?? 0 })),
    maxRank: changes.reduce((most, { rank }) => Math.max(most, paddedRank(rank)), LORA_RANK_STEP),
    describe: (base) => {
      const view = new DataView(new ArrayBuffer(tableBytes));
      for (const [i, { rank, target }] of changes.entries()) {
        const [a, b] = [1, 2].map((at) => base + BigInt(offsets[2 * i + at] ?? 0));
        const { column, outputs } = target;
        writeLoraPart(view, (places[i] ?? 0) * LORA_PART_BYTES, {
          ...{ a: a ?? 0n, b: b ?? 0n, rank: paddedRank(rank) },
          ...{ column, outputs },
        });
      }
      return new Uint8Array(view.buffer);
    },
  };
}

function paddedRank(rank: number): number {
  return roundUp(rank, LORA_RANK_STEP);
}

function shapesOf({ rank, target, a, b }: LoraChange): readonly Omit<CudaLoraMatrix, "offset">[] {
  const padded = paddedRank(rank);
  return [
    { values: a, width: target.inputs, paddedRows: padded, paddedWidth: target.inputs },
    { values: b, width: rank, paddedRows: target.outputs, paddedWidth: padded },
  ];
}

/**
 * Index of each change among the parts of all layers. The parts of a linear layer are added at once, so none may
 * overlap.
 */
function placesOf(changes: readonly LoraChange[]): readonly number[] {
  const byLinear = new Map<number, LoraChange[]>();
  return changes.map((change) => {
    const { layer, target } = change;
    const first = firstPartOf({ layer, linear: target.linear });
    const others = byLinear.get(first) ?? [];
    byLinear.set(first, others);
    if (others.some(({ target: other }) => overlaps(other, target)) || others.length === LORA_PARTS) {
      throw new Error(`layer ${layer}: an adapter on a GPU changes each column of ${target.linear} once, got more`);
    }
    others.push(change);
    return first + others.length - 1;
  });
}

function overlaps(a: LoraChange["target"], b: LoraChange["target"]): boolean {
  return a.column < b.column + b.outputs && b.column < a.column + a.outputs;
}
