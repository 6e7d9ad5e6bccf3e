import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerError } from "../../core/server-error.ts";
import { fitBlocks, formatMemory, type MemoryDemand, planMemory, type RequestedMemory } from "./memory-plan.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;
/** A model of 2 GiB whose cache takes 64 KiB a token, 1 MiB a block. */
const DEMAND: MemoryDemand = {
  items: [
    { what: "weights", numBytes: 2 * GIB },
    { what: "workspace", numBytes: GIB },
  ],
  bytesPerToken: MIB / 16,
  blockSize: 16,
  longestTokens: 8192,
  maxSequences: 64,
};
const NO_WISHES: RequestedMemory = { tokens: 0, bytes: 0, freeFraction: undefined, hostBytes: 0 };

const CASES: readonly (readonly [what: string, wishes: Partial<RequestedMemory>, free: number, blocks: number])[] = [
  ["a quarter of what is left by default", {}, 7 * GIB, 1024],
  ["no more than a long context by default", {}, 103 * GIB, 2048],
  ["the tokens asked for", { tokens: 1600 }, 103 * GIB, 100],
  ["the bytes asked for", { bytes: 300 * MIB }, 103 * GIB, 300],
  ["the share asked for, of what is left", { freeFraction: 0.5 }, 7 * GIB, 2048],
  ["the share asked for, less what others need", { freeFraction: 1 }, 13 * GIB, 10_240 - 512],
  ["the share asked for, less the host KV cache", { freeFraction: 1, hostBytes: GIB }, 13 * GIB, 10_240 - 1024 - 512],
  ["nine tenths of little", { freeFraction: 1 }, 3 * GIB + 100 * MIB, 90],
  ["no share beyond what sequences can fill", { freeFraction: 0.9 }, 1003 * GIB, 2 * 64 * 512],
  ["the least of several bounds", { tokens: 1600, bytes: 300 * MIB, freeFraction: 0.5 }, 7 * GIB, 100],
  ["at least two blocks", { bytes: 1 }, 7 * GIB, 2],
];

for (const [what, wishes, free, numBlocks] of CASES) {
  test(`planMemory() gives the cache ${what}`, () => {
    assert.equal(planMemory(DEMAND, { ...NO_WISHES, ...wishes }, free).numBlocks, numBlocks);
  });
}

test("planMemory() tells the plan, and a cache that is smaller than the context", () => {
  const plan = planMemory(DEMAND, { ...NO_WISHES, bytes: 100 * MIB, hostBytes: 50 * MIB }, 7 * GIB);
  assert.deepEqual(plan, {
    numBlocks: 100,
    numHostBlocks: 50,
    numBytes: 3 * GIB + 150 * MIB,
    lines: [
      "memory plan: weights 2.00 GiB, workspace 1.00 GiB, KV cache 100.0 MiB (100 blocks of 16 tokens, 64.0 KiB a token), " +
        "host KV cache 50.0 MiB (50 blocks); 3.15 GiB of 7.00 GiB free",
      "the KV cache holds 1600 tokens, the longest sequence of the model takes 8192: longer ones are refused",
    ],
  });
});

const REFUSED: readonly (readonly [what: string, wishes: Partial<RequestedMemory>, free: number, expected: RegExp])[] =
  [
    ["weights", {}, 2 * GIB, /weights 2\.00 GiB.* need 3\.00 GiB, 2\.00 GiB are free\. Narrower weights/],
    [
      "a cache in bytes",
      { bytes: 5 * GIB },
      7 * GIB,
      /KV cache 5\.00 GiB .* need 8\.00 GiB, 7\.00 GiB .* smaller cache/,
    ],
    ["a cache in tokens", { tokens: 81_920 }, 7 * GIB, /KV cache 5\.00 GiB \(5120 blocks of 16 tokens/],
    [
      "a host KV cache",
      { bytes: GIB, hostBytes: 4 * GIB },
      7 * GIB,
      /host KV cache 4\.00 GiB \(4096 blocks\) need 8\.00 GiB/,
    ],
  ];

for (const [what, wishes, free, expected] of REFUSED) {
  test(`planMemory() refuses ${what} beyond what is free, with the numbers`, () => {
    assert.throws(
      () => planMemory(DEMAND, { ...NO_WISHES, ...wishes }, free),
      (error) => error instanceof ServerError && error.code === "unavailable" && expected.test(error.message),
    );
  });
}

for (const [what, request, free, expected] of [
  ["a share of what is left", { numBlocks: 0, share: 0.5 }, 14 * GIB, { wanted: 5120, fits: true }],
  [
    "the number asked for, whatever the share",
    { numBlocks: 10_240, share: 0.5 },
    14 * GIB,
    { wanted: 10_240, fits: true },
  ],
  ["more than there is room for", { numBlocks: 10_241, share: 1 }, 14 * GIB, { wanted: 10_241, fits: false }],
  ["less than two blocks", { numBlocks: 0, share: 1 }, 4 * GIB + MIB, { wanted: 1, fits: false }],
] as const) {
  test(`fitBlocks() tells whether ${what} fits`, () => {
    const room = { items: DEMAND.items, reserveBytes: GIB, blockBytes: MIB };
    assert.deepEqual(fitBlocks(room, request, free), expected);
  });
}

test("formatMemory() chooses the unit", () => {
  const texts = [0, 1000, 1024, 10.5 * 1024, 3 * MIB, 1.234 * GIB, 5000 * GIB].map(formatMemory);
  assert.deepEqual(texts, ["0 B", "1000 B", "1.00 KiB", "10.5 KiB", "3.00 MiB", "1.23 GiB", "4.88 TiB"]);
});
