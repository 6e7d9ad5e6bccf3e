import assert from "node:assert/strict";
import { test } from "node:test";
import { allCudaChecks } from "../../server/kernels/cuda-checks.ts";
import { recordLaunches } from "../../server/kernels/testing/record-launches.test-support.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedDevice } from "./emulated-device.ts";
import { isFormat, selectChecks } from "./select-checks.ts";

// Without the letter: WGMMA is not there, and the kernels in its place are shown.
const ARCH = "sm_90";
/**
 * Every kernel in every number format. `npm run test:long` shows every value of every define, and all checks on every architecture and with other
 * seeds run by `npm run soak -- kernels`.
 */
const SEED = 1;

const compiler = hostCompiler();
const skip = compiler.reason ?? false;
const checks = allCudaChecks.filter(({ needsWholeGrid, needsWgmma }) => needsWholeGrid !== true && needsWgmma !== true);
const recorded = await Promise.all(
  checks.map(async (check) => ({
    name: check.name,
    launches: await recordLaunches(check, ARCH),
    shows: check.shows,
  })),
);
const selected = new Set(selectChecks(recorded, SEED, longTestsReason === undefined ? undefined : isFormat));
const device = new EmulatedDevice({ compiler, arch: ARCH, seed: SEED });

for (const { name, maxError, run } of checks.filter((check) => selected.has(check.name))) {
  test(`${name} is right on emulated threads`, { skip }, async () => {
    const error = await run(device);
    device.clear();
    assert.ok(error <= maxError, `an error of ${error}, at most ${maxError}`);
  });
}
