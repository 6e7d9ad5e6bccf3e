import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { engineProcessBytes, fitOnCpu, fitTable } from "./fit-model.ts";

const TINY = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const MIB = 2 ** 20;
const never = new AbortController().signal;

for (const { freeMib, fitting } of [
  { freeMib: 400, fitting: ["as stored", "bf16", "q8_0", "q4_0"] },
  { freeMib: 50, fitting: ["bf16", "q8_0", "q4_0"] },
  { freeMib: 20, fitting: [] },
]) {
  test(`with ${freeMib} MiB of free memory, these types of weights fit: ${fitting.join(", ") || "none"}`, async () => {
    const fits = await fitOnCpu(TINY, 64, never, freeMib * MIB);
    const found = fits.filter(({ numBytes }) => numBytes !== undefined);
    assert.deepEqual(
      found.map(({ weightType = "as stored" }) => weightType),
      fitting,
    );
    for (const { weightType, numBytes = 0, cacheTokens, tokensPerSecond = 0 } of found) {
      const processBytes = await engineProcessBytes(TINY, weightType);
      assert.ok(numBytes - processBytes <= freeMib * MIB && cacheTokens > 0 && tokensPerSecond > 0);
    }
    assert.equal(fitTable(fits).match(/chosen$/gm)?.length ?? 0, fitting.length === 0 ? 0 : 1);
    assert.equal(fitTable(fits).match(/does not fit$/gm)?.length ?? 0, 4 - fitting.length);
  });
}
