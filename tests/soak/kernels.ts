/** Every check of every GPU kernel on emulated threads, again and again with threads in other orders. */
import assert from "node:assert/strict";
import { allCudaChecks } from "../../server/kernels/cuda-checks.ts";
import { hostCompiler } from "../cuda-emulation/compile-emulation.ts";
import { EmulatedDevice } from "../cuda-emulation/emulated-device.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

/** The newest, and the oldest, on which kernels do without instructions for FP8. */
const ARCHITECTURES = ["sm_90", "sm_80"];

export const kernelsSoak: Soak = { name: "kernels", run };

/** All checks once, whatever the time; then as long as there is time. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const compiler = hostCompiler();
  assert.ok(compiler.version !== undefined, compiler.reason);
  let checks = 0;
  let rounds = 0;
  let largestShareOfLimit = 0;
  for (; rounds === 0 || performance.now() < deadlineMs; rounds += 1) {
    for (const arch of ARCHITECTURES) {
      const device = new EmulatedDevice({ compiler, arch, seed: seed + rounds });
      for (const check of allCudaChecks.filter(
        ({ needsWholeGrid, needsWgmma }) => needsWholeGrid !== true && needsWgmma !== true,
      )) {
        if (rounds > 0 && performance.now() >= deadlineMs) break;
        const error = await check.run(device);
        device.clear();
        const at = `${check.name} for ${arch}, seed ${seed + rounds}`;
        assert.ok(error <= check.maxError, `${at}: an error of ${error}, at most ${check.maxError}`);
        largestShareOfLimit = Math.max(largestShareOfLimit, error / check.maxError);
        checks += 1;
      }
    }
  }
  return { rounds, checks, largestShareOfLimit };
}
