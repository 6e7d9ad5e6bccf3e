/** Runs every check of every kernel on a GPU, then times those that have a bench. */
import { hasWgmma } from "../../server/kernels/cuda/device-limits.ts";
import type { CudaBench, CudaCheck } from "../../server/kernels/testing/cuda-check.ts";
import { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import { CudaGraph } from "../../server/src/device/cuda/cuda-graph.ts";
import { DeviceCheckContext } from "./check-context.ts";

export interface CheckResult {
  readonly name: string;
  /** Infinite when it threw. */
  readonly error: number;
  readonly maxError: number;
  readonly message?: string;
}

export interface BenchResult {
  readonly name: string;
  readonly us: number;
  readonly gbPerSecond: number;
  readonly tflops: number;
}

const ROUNDS = 24;
const REPLAYS = 5;

export async function runChecks(
  checks: readonly CudaCheck[],
  filter: RegExp,
  hasBenches: boolean,
): Promise<{ readonly checks: readonly CheckResult[]; readonly benches: readonly BenchResult[] }> {
  const device = new CudaDevice(0);
  const context = new DeviceCheckContext(device);
  const results: CheckResult[] = [];
  const benches: BenchResult[] = [];
  const isFor = ({ name, needsWgmma }: CudaCheck): boolean =>
    filter.test(name) && (needsWgmma !== true || hasWgmma(device.stream.arch));
  for (const check of checks.filter(isFor)) {
    // Before it runs: one that hangs is the last that was named.
    console.log(`check ${check.name}`);
    results.push(await runCheck(context, check));
    if (!hasBenches || check.benches === undefined) continue;
    for (const bench of check.benches(context)) benches.push(runBench(device, check.name, bench));
    context.clear();
  }
  for (const { source, compileMs, isCached } of device.modules.compiled) {
    if (!isCached && compileMs > 1000) console.log(`slow to compile: ${source} ${compileMs.toFixed(0)} ms`);
  }
  const totalMs = device.modules.compiled.reduce((sum, { compileMs }) => sum + compileMs, 0);
  console.log(`${device.modules.compiled.length} modules compiled or loaded in ${totalMs.toFixed(0)} ms`);
  device.close();
  return { checks: results, benches };
}

async function runCheck(context: DeviceCheckContext, { name, maxError, run }: CudaCheck): Promise<CheckResult> {
  try {
    return { name, maxError, error: await run(context) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { name, maxError, error: Number.POSITIVE_INFINITY, message: message.slice(0, 600) };
  } finally {
    context.clear();
  }
}

/** The work as a graph of many rounds, so that launches cost the host nothing; the best of some replays. */
function runBench(device: CudaDevice, check: string, { name, bytes, flops, launch }: CudaBench): BenchResult {
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
  const seconds = bestMs / 1000;
  return {
    name: `${check}: ${name}`,
    us: bestMs * 1000,
    gbPerSecond: bytes / seconds / 1e9,
    tflops: flops / seconds / 1e12,
  };
}
