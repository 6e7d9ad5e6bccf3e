/** Shared by the tests of the ops: one op on the CPU device, random data from a seed, distance to the reference. */
import { CpuBuffer } from "../../src/device/cpu/cpu-buffer.ts";
import { CpuDevice } from "../../src/device/cpu/cpu-device.ts";
import { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, numElements } from "../../src/device/cpu/cpu-tensor.ts";

/** Records an op into a graph of its own, runs it and gives its result. */
export async function runOp(record: (graph: CpuGraph) => CpuTensor): Promise<Float32Array> {
  return withCpu(async (device) => {
    const graph = new CpuGraph(device);
    try {
      graph.begin(256);
      const result = record(graph);
      graph.output(result);
      await graph.run();
      const values = new Float32Array(numElements(result.shape));
      graph.read(result, values);
      return values;
    } finally {
      graph.close();
    }
  });
}

/** Records an op that writes into `buffer` and gives what the buffer then holds. */
export async function runOpOnBuffer(
  shape: readonly [number, number],
  initial: Float32Array,
  record: (graph: CpuGraph, tensor: CpuTensor) => void,
): Promise<Float32Array> {
  return withCpu(async (device) => {
    const buffer = new CpuBuffer(device, [{ type: "f32", shape }]);
    const graph = new CpuGraph(device);
    try {
      const [tensor] = buffer.tensors;
      if (tensor === undefined) throw new Error("expected a tensor");
      buffer.write(tensor, initial);
      graph.begin(256);
      record(graph, tensor);
      await graph.run();
      const values = new Float32Array(numElements(shape));
      buffer.read(tensor, values);
      return values;
    } finally {
      graph.close();
      buffer.close();
    }
  });
}

/** Numbers in -1..1 from a linear congruential generator. */
export function randomFloats(count: number, seed: number): Float32Array {
  let state = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/** Largest absolute difference; infinite when one is not a number or the lengths differ. */
export function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs((a[i] ?? Number.NaN) - (b[i] ?? Number.NaN));
    if (!(difference <= largest)) largest = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
  }
  return largest;
}

async function withCpu<T>(use: (device: CpuDevice) => Promise<T>): Promise<T> {
  const device = new CpuDevice({ numThreads: 1 });
  try {
    return await use(device);
  } finally {
    await device.close();
  }
}
