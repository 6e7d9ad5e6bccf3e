/**
 * Times the benches of all kernels on a GPU beside its rooflines, which are measured first: a copy in its memory, and a
 * large bf16 GEMM of cuBLASLt. Source: roofline model (Williams, Waterman and Patterson 2009).
 */
import { hasWgmma } from "../../server/kernels/cuda/device-limits.ts";
import {
  type CudaBenchSet,
  type RooflineShare,
  type Rooflines,
  rooflineShare,
} from "../../server/kernels/testing/cuda-bench.ts";
import { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import { CudaGraph } from "../../server/src/device/cuda/cuda-graph.ts";
import { CublasLtGemms, type DenseGemm } from "../../server/src/device/cuda/dense-gemm.ts";
import { CudaTimer } from "../../server/src/device/cuda/measure-algorithms.ts";
import { DeviceCheckContext } from "./check-context.ts";

export interface BenchResult extends RooflineShare {
  readonly name: string;
}

export interface BenchResults {
  readonly rooflines: Rooflines;
  readonly benches: readonly BenchResult[];
}

const ROUNDS = 24;
const REPLAYS = 5;
const COPY_BYTES = 2 ** 30;
const GEMM_SIZE = 8192;

export function runBenches(sets: readonly CudaBenchSet[], filter: RegExp): BenchResults {
  const device = new CudaDevice(0);
  const rooflines = measureRooflines(device);
  const benches: BenchResult[] = [];
  for (const { name, needsWgmma, benches: casesOf } of sets) {
    if (!filter.test(name) || (needsWgmma === true && !hasWgmma(device.stream.arch))) continue;
    const context = new DeviceCheckContext(device);
    for (const bench of casesOf(context)) {
      const seconds = timeRounds(device, bench.launch);
      benches.push({ name: `${name}: ${bench.name}`, ...rooflineShare(bench, seconds, rooflines) });
    }
    context.clear();
  }
  device.close();
  return { rooflines, benches };
}

export function describeBench({ name, us, gbPerSecond, tflops, bound, share }: BenchResult): string {
  const rates = `${us.toFixed(1).padStart(9)} us ${gbPerSecond.toFixed(0).padStart(6)} GB/s ${tflops.toFixed(0).padStart(5)} TFLOP/s`;
  return `${rates} ${(100 * share).toFixed(0).padStart(4)} % of ${bound}  ${name}`;
}

function measureRooflines(device: CudaDevice): Rooflines {
  const context = new DeviceCheckContext(device);
  const [from, to] = [context.zeros(COPY_BYTES), context.zeros(COPY_BYTES)];
  const copySeconds = timeRounds(device, () => device.stream.copyOnDevice(to, from, COPY_BYTES));
  const gemms = new CublasLtGemms(device, new CudaTimer(device));
  const gemm: DenseGemm = {
    rows: GEMM_SIZE,
    outputs: GEMM_SIZE,
    inputs: GEMM_SIZE,
    inputType: "bf16",
    outputType: "bf16",
    hasBias: false,
    scales: "none",
    x: from,
    weight: from + BigInt(COPY_BYTES / 2),
    y: to,
  };
  const gemmSeconds = timeRounds(device, () => gemms.run(gemm));
  gemms.close();
  context.clear();
  return { gbPerSecond: (2 * COPY_BYTES) / copySeconds / 1e9, tflops: (2 * GEMM_SIZE ** 3) / gemmSeconds / 1e12 };
}

/** Seconds a round: the work as a graph of many rounds, so that launches cost the host nothing; the best of some replays. */
function timeRounds(device: CudaDevice, launch: (round: number) => void): number {
  launch(0);
  device.stream.synchronize();
  const graph = new CudaGraph(device.driver, device.stream, () => {
    for (let round = 0; round < ROUNDS; round++) launch(round);
  });
  const [start, end] = [device.event(true), device.event(true)];
  let bestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < REPLAYS; i++) {
    start.record(device.stream);
    graph.launch(device.stream);
    end.record(device.stream);
    device.stream.synchronize();
    bestMs = Math.min(bestMs, end.msSince(start) / ROUNDS);
  }
  graph.close();
  return bestMs / 1000;
}
