/** Runs every check of every kernel on a GPU. */
import { hasWgmma } from "../../server/kernels/cuda/device-limits.ts";
import type { CudaCheck } from "../../server/kernels/testing/cuda-check.ts";
import { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import { DeviceCheckContext } from "./check-context.ts";

export interface CheckResult {
  readonly name: string;
  /** Infinite when it threw. */
  readonly error: number;
  readonly maxError: number;
  readonly message?: string;
}

export async function runChecks(checks: readonly CudaCheck[], filter: RegExp): Promise<readonly CheckResult[]> {
  const device = new CudaDevice(0);
  const context = new DeviceCheckContext(device);
  const results: CheckResult[] = [];
  const isFor = ({ name, needsWgmma }: CudaCheck): boolean =>
    filter.test(name) && (needsWgmma !== true || hasWgmma(device.stream.arch));
  for (const check of checks.filter(isFor)) {
    // Before it runs: one that hangs is the last that was named.
    console.log(`check ${check.name}`);
    results.push(await runCheck(context, check));
  }
  for (const { source, compileMs, isCached } of device.modules.compiled) {
    if (!isCached && compileMs > 1000) console.log(`slow to compile: ${source} ${compileMs.toFixed(0)} ms`);
  }
  const totalMs = device.modules.compiled.reduce((sum, { compileMs }) => sum + compileMs, 0);
  console.log(`${device.modules.compiled.length} modules compiled or loaded in ${totalMs.toFixed(0)} ms`);
  device.close();
  return results;
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
