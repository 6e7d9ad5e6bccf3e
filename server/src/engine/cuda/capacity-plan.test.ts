import assert from "node:assert/strict";
import { test } from "node:test";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import { boundsOfSteps } from "./capacity-plan.ts";

for (const isDeterministic of [false, true]) {
  for (const most of [1, 8, 9, 100, 256, 257, 300, 1024, 1025]) {
    test(`boundsOfSteps() has room for a recorded step of ${most} sequences${isDeterministic ? " in pieces" : ""}`, () => {
      const bounds = boundsOfSteps({ maxTokens: 64, maxSequences: most, isDeterministic });
      for (let count = 1; count <= most; count++) {
        const rows = gemmRows(count);
        assert.ok(rows <= bounds.maxSequences, `${rows} sequences`);
        assert.ok(rows <= bounds.maxTokens && rows <= bounds.maxLogitRows, `${rows} rows`);
      }
      const step = isDeterministic ? 128 : 1;
      assert.deepEqual([bounds.maxTokens % step, bounds.maxLogitRows % step], [0, 0]);
    });
  }
}
