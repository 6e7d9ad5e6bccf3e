/**
 * Times the products of a model's matrices in each type that could hold them, on this machine. What to make of the times is
 * decided apart from taking them.
 */
import { recordLinear } from "../../kernels/linear/linear.ggml.ts";
import type { FloatType } from "../device/cpu/convert-elements.ts";
import type { CpuDevice } from "../device/cpu/cpu-device.ts";
import { CpuGraph } from "../device/cpu/cpu-graph.ts";
import { PlacedTensors } from "../device/cpu/placed-tensors.ts";
import type { DecoderConfig } from "../models/decoder-config.ts";

export interface TypeTiming {
  readonly type: FloatType;
  /** Of the products of one layer, for one token and for a piece of a prompt. */
  readonly decodeMs: number;
  readonly prefillMs: number;
}

export const PREFILL_ROWS = 64;
const NUM_RUNS = 7;
const NUM_WARM_UPS = 2;

/** The fastest for a reply that follows a prompt of as many tokens, a piece at a time; the first of equals. */
export function fastestType(timings: readonly TypeTiming[]): FloatType {
  const cost = ({ decodeMs, prefillMs }: TypeTiming): number => decodeMs + prefillMs / PREFILL_ROWS;
  const [first, ...others] = timings;
  if (first === undefined) throw new Error("there is no type to choose from");
  return others.reduce((best, one) => (cost(one) < cost(best) ? one : best), first).type;
}

export async function measureType(device: CpuDevice, config: DecoderConfig, type: FloatType): Promise<TypeTiming> {
  const shapes = layerShapes(config);
  const placed = new PlacedTensors(
    device,
    shapes.map((shape) => ({ type, shape, isProduct: true })),
  );
  try {
    for (const [i, [rows, columns]] of shapes.entries()) {
      const writer = placed.writer(i);
      writer.write(new Uint8Array(rows * columns * (type === "f32" ? 4 : 2)));
      writer.end();
    }
    const decodeMs = await medianMs(device, placed, 1);
    return { type, decodeMs, prefillMs: await medianMs(device, placed, PREFILL_ROWS) };
  } finally {
    placed.close();
  }
}

function layerShapes(config: DecoderConfig): readonly (readonly [rows: number, columns: number])[] {
  const { hiddenSize, numHeads, numKvHeads, headDim, mlp, experts } = config;
  const width = experts?.intermediateSize ?? mlp.intermediateSize;
  return [
    [(numHeads + 2 * numKvHeads) * headDim, hiddenSize],
    [hiddenSize, numHeads * headDim],
    [mlp.isGated ? 2 * width : width, hiddenSize],
    [hiddenSize, width],
  ];
}

async function medianMs(device: CpuDevice, placed: PlacedTensors, numRows: number): Promise<number> {
  const graph = new CpuGraph(device);
  const times: number[] = [];
  try {
    for (let run = 0; run < NUM_RUNS + NUM_WARM_UPS; run++) {
      graph.begin(4 * placed.tensors.length);
      for (const weight of placed.tensors) {
        const columns = weight.shape[1] ?? 0;
        const x = graph.input("f32", [numRows, columns], new Float32Array(numRows * columns));
        graph.output(recordLinear(graph, { x, weight }));
      }
      const startMs = performance.now();
      await graph.run();
      if (run >= NUM_WARM_UPS) times.push(performance.now() - startMs);
    }
  } finally {
    graph.close();
  }
  return times.sort((a, b) => a - b)[NUM_RUNS >> 1] ?? 0;
}
