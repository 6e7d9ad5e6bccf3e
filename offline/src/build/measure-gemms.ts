/**
 * Times GEMMs with a model's matrices on this machine: each shape in each candidate type, plain and repacked. Also
 * times one layer with several thread counts. choose-gemms.ts interprets the times.
 */
import { recordLinear } from "@nereid/server/kernels/linear/linear.ggml";
import type { WeightType } from "@nereid/server/device/cpu/convert-elements";
import type { CpuShape } from "@nereid/server/device/cpu/cpu-tensor";
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { CpuGraph } from "@nereid/server/device/cpu/cpu-graph";
import { byteSize, numElements } from "@nereid/server/device/cpu/cpu-tensor";
import { PlacedTensors } from "@nereid/server/device/cpu/placed-tensors";
import type { GemmLayout } from "@nereid/server/formats/trtllm/engine-header";

export type MatrixShape = readonly [rows: number, columns: number];

/** One way to store a matrix. */
export interface GemmVariant {
  readonly type: WeightType;
  readonly layout: GemmLayout;
}

/** Time of that variant for one token, and for a prefill chunk. */
export interface VariantTiming extends GemmVariant {
  readonly decodeUs: number;
  readonly prefillUs: number;
}

export interface ThreadTiming {
  readonly threads: number;
  readonly decodeUs: number;
  readonly prefillUs: number;
}

export const PREFILL_ROWS = 64;
const NUM_RUNS = 7;
const NUM_WARM_UPS = 2;
/** Maximum measured rows of larger matrices, since time grows with their number. */
const MAX_MEASURED_ROWS = 16_384;
/** GEMMs of small matrices are repeated within a graph, to amortise its start. */
const MIN_GRAPH_ELEMENTS: number = 4 << 20;
const MAX_REPEATS = 16;

/** Available variants of a type on this machine. */
export function variantsOf(device: CpuDevice, type: WeightType, shape: CpuShape): readonly GemmVariant[] {
  const plain = { type, layout: "plain" } as const;
  return device.gemmMemory({ type, shape }) === undefined ? [plain] : [{ type, layout: "repacked" }, plain];
}

/** The fastest for a reply that follows a prompt of as many tokens, in chunks; the first of equals. */
export function fastest<T extends { readonly decodeUs: number; readonly prefillUs: number }>(timings: readonly T[]): T {
  const cost = ({ decodeUs, prefillUs }: T): number => decodeUs + prefillUs / PREFILL_ROWS;
  const [first, ...others] = timings;
  if (first === undefined) throw new Error("there is nothing to choose from");
  return others.reduce((best, one) => (cost(one) < cost(best) ? one : best), first);
}

/** Microseconds of one product with a matrix, for one token. */
export async function timeDecode(
  device: CpuDevice,
  [rows, columns]: MatrixShape,
  way: GemmVariant,
): Promise<number> {
  const placed = placeZeros(device, [{ ...way, shape: [rows, columns] }]);
  try {
    return Math.max(1, rows / MAX_MEASURED_ROWS) * (await medianUs(device, placed, 1));
  } finally {
    placed.close();
  }
}

export async function timeVariant(device: CpuDevice, [rows, columns]: MatrixShape, way: GemmVariant): Promise<VariantTiming> {
  const placed = placeZeros(device, [{ ...way, shape: [rows, columns] }]);
  try {
    const scale = Math.max(1, rows / MAX_MEASURED_ROWS);
    const decodeUs = scale * (await medianUs(device, placed, 1));
    return { ...way, decodeUs, prefillUs: scale * (await medianUs(device, placed, PREFILL_ROWS)) };
  } finally {
    placed.close();
  }
}

/** From all threads down to a quarter of them. */
export function threadCounts(most: number): readonly number[] {
  return [most, Math.ceil(most / 2), Math.ceil(most / 4)].filter((count, i, all) => all.indexOf(count) === i);
}

/** GEMMs of one layer, in sequence. */
export async function timeThreads(
  matrices: readonly (GemmVariant & { readonly shape: MatrixShape })[],
  threads: number,
): Promise<ThreadTiming> {
  const device = new CpuDevice({ numThreads: threads });
  try {
    const placed = placeZeros(device, matrices);
    try {
      const decodeUs = await medianUs(device, placed, 1);
      return { threads, decodeUs, prefillUs: await medianUs(device, placed, PREFILL_ROWS) };
    } finally {
      placed.close();
    }
  } finally {
    await device.close();
  }
}

function placeZeros(
  device: CpuDevice,
  matrices: readonly (GemmVariant & { readonly shape: MatrixShape })[],
): PlacedTensors {
  const specs = matrices.map(({ type, shape: [rows, columns], layout }) => {
    const shape = [Math.min(rows, MAX_MEASURED_ROWS), columns] as const;
    return { type, shape, isGemmOperand: layout === "repacked" };
  });
  const placed = new PlacedTensors(device, specs);
  for (const [i, tensor] of placed.tensors.entries()) {
    const writer = placed.writer(i);
    writer.write(new Uint8Array(byteSize(tensor)));
    writer.end();
  }
  return placed;
}

async function medianUs(device: CpuDevice, placed: PlacedTensors, numRows: number): Promise<number> {
  const graph = new CpuGraph(device);
  const times: number[] = [];
  const elements = placed.tensors.reduce((sum, { shape }) => sum + numElements(shape) * numRows, 0);
  const repeats = Math.max(1, Math.min(MAX_REPEATS, Math.ceil(MIN_GRAPH_ELEMENTS / elements)));
  try {
    for (let run = 0; run < NUM_RUNS + NUM_WARM_UPS; run++) {
      graph.begin(4 * placed.tensors.length * repeats);
      for (let repeat = 0; repeat < repeats; repeat++) {
        for (const weight of placed.tensors) {
          const columns = weight.shape[1] ?? 0;
          const x = graph.input("f32", [numRows, columns], new Float32Array(numRows * columns));
          graph.output(recordLinear(graph, { x, weight }));
        }
      }
      const startMs = performance.now();
      await graph.run(numRows);
      if (run >= NUM_WARM_UPS) times.push(((performance.now() - startMs) * 1000) / repeats);
    }
  } finally {
    graph.close();
  }
  return times.sort((a, b) => a - b)[NUM_RUNS >> 1] ?? 0;
}
