/**
 * Breaks a GPU on purpose, so that tests see what becomes of a server then: a kernel writes to an address that is not mapped, which
 * no process survives. No package contains this: faulty-runner.ts brings it into a server under test.
 */
import { existsSync, writeFileSync } from "node:fs";
import { launchAdd } from "../../server/kernels/elementwise/elementwise.cuda.ts";
import type { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";

export interface GpuFault {
  readonly ordinal: number;
  /** Steps before it. */
  readonly numSteps: number;
  /** Written when it happens: it happens once. */
  readonly marker: string;
}

/** "0:40:/tmp/marker": GPU 0, after 40 steps. @throws Error for anything else */
export function parseFault(text: string | undefined): GpuFault {
  const [, ordinal, numSteps, marker = ""] = /^(\d+):(\d+):(\/.+)$/.exec(text ?? "") ?? [];
  if (ordinal === undefined) throw new Error(`a fault expected as <GPU>:<steps>:</path of the marker>, got ${text}`);
  return { ordinal: Number(ordinal), numSteps: Number(numSteps), marker };
}

/** An address that is never mapped. */
const NOWHERE = 4096n;

export function injectFault<Runner extends StepRunner & { readonly device: Pick<CudaDevice, "ordinal" | "stream"> }>(
  runner: Runner,
  fault: GpuFault,
): Runner {
  if (fault.ordinal !== runner.device.ordinal) return runner;
  let numLeft = fault.numSteps;
  const step = (): void => {
    if (numLeft-- > 0 || existsSync(fault.marker)) return;
    writeFileSync(fault.marker, "");
    launchAdd(runner.device.stream, { type: "f32", count: 4, a: NOWHERE, b: NOWHERE, out: NOWHERE });
  };
  return new Proxy(runner, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      const method = value.bind(target) as (...args: unknown[]) => unknown;
      if (key !== "run" && key !== "choose") return method;
      return (...args: unknown[]): unknown => {
        step();
        return method(...args);
      };
    },
  });
}
