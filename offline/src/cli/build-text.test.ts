import assert from "node:assert/strict";
import { test } from "node:test";
import { buildText } from "./build-text.ts";

test("buildText() shows what became of each shape, and the times of what was measured", () => {
  const timing = { type: "q4_0", layout: "repacked", decodeUs: 12.4, prefillUs: 1409 } as const;
  const other = { ...timing, layout: "plain" } as const;
  const summary = {
    numBytes: 10 << 20,
    products: [
      { shape: [6144, 384], type: "bf16", layout: "plain", timings: [] },
      { shape: [640, 384], type: "q4_0", layout: "repacked", timings: [timing, other] },
    ],
    threads: { processor: "x", numProcessors: 2, decode: 1, prefill: 2 },
    threadTimings: [
      { threads: 2, decodeUs: 155, prefillUs: 23_140 },
      { threads: 1, decodeUs: 1400, prefillUs: 24_200 },
    ],
  } as const;
  assert.deepEqual(buildText("engine", summary, 2.61).split("\n"), [
    "Wrote engine: config.json and rank0.engine, 10.0 MiB in 2.6 s",
    "  matrix      kept as        1 token  64 tokens",
    "  6144 x 384  bf16",
    "  640 x 384   q4_0 repacked  12 us    1.4 ms     of 2 choices",
    "Threads for one token: 1, for 64: 2 (2: 155 us and 23.1 ms; 1: 1.4 ms and 24.2 ms)",
  ]);
});
