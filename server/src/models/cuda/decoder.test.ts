import assert from "node:assert/strict";
import { test } from "node:test";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import { placeRegions } from "../../device/cuda/regions.ts";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { planExperts } from "./experts-memory.ts";
import type { CudaBatch, CudaCacheType } from "./pass.ts";
import { GEMMA, LLAMA, LLAMA_LAYER, MIXTRAL, PHI, QWEN_MOE, record } from "./record-pass.test-support.ts";

test("enqueueDecoder() multiplies few rows straight from the weights", () => {
  const { kernels, gemms } = record(LLAMA, 12, { numDecoding: 2, numLogitRows: 12, keepsAllRows: true });
  assert.equal(kernels.filter((name) => name === "skinny_gemm").length, 9);
  assert.equal(gemms.length, 0);
});

test("enqueueDecoder() of few rows that add one token each is two launches a layer", () => {
  const layer = ["paged_decode", "fused_layer"];
  const decode = { numDecoding: 2, numLogitRows: 2, keepsAllRows: true };
  const { kernels, launches } = record(LLAMA, 2, decode, { arch: "sm_90a" });
  const start = ["gather_rows", "add_norm", "skinny_gemm"];
  assert.deepEqual(kernels, [...start, ...layer, ...layer, "add_norm", "skinny_gemm"]);
  const thin = launches.filter(({ spec }) => spec.name === "fused_layer");
  // All four gemms, and behind the last attention three.
  assert.deepEqual(
    thin.map(({ args }) => args.at(-1)),
    [{ i32: 4 }, { i32: 3 }],
  );
});

test("enqueueDecoder() takes one row as it takes many in the deterministic mode", () => {
  const kernelsOf = (numTokens: number, kind: Partial<CudaBatch>) => {
    const all = { numLogitRows: numTokens, keepsAllRows: true, ...kind };
    return record(LLAMA, numTokens, all, { isDeterministic: true }).kernels;
  };
  const layer = LLAMA_LAYER.map((name) => (name === "paged_decode" ? "ragged_prefill" : name));
  const expected = ["gather_rows", "add_norm", ...layer, ...layer, "gemm"];
  assert.deepEqual(kernelsOf(1, { numDecoding: 1, numSequences: 1 }), expected);
  assert.deepEqual(kernelsOf(2, { numDecoding: 2 }), expected);
  assert.deepEqual(kernelsOf(40, { numDecoding: 1 }), expected);
});

test("enqueueDecoder() leaves no scales to readers in the deterministic mode", () => {
  const decode = { numDecoding: 2, numLogitRows: 2, keepsAllRows: true };
  const config = { ...LLAMA, intermediate_size: 192 };
  const { gemms } = record(config, 2, decode, { hasCodes: true, isDeterministic: true });
  assert.deepEqual(new Set(gemms.slice(0, -1).map(({ scales }) => scales)), new Set(["rows"]));
});

test("enqueueDecoder() takes few rows GEMM by GEMM where no fused kernel is written", () => {
  const kind = { numDecoding: 2, numLogitRows: 2, keepsAllRows: true };
  for (const [config, change] of [
    [GEMMA, {}],
    [MIXTRAL, {}],
    [LLAMA, { numDecoding: 1 }],
    [LLAMA, { keepsAllRows: false }],
  ] as const) {
    const { kernels } = record(config, 2, { ...kind, ...change }, { arch: "sm_90a" });
    assert.ok(!kernels.includes("fused_layer"));
  }
});

test("enqueueDecoder() of a decode step is nine launches a layer", () => {
  const { kernels, gemms } = record(LLAMA, 32, { numDecoding: 2, numLogitRows: 32, keepsAllRows: true });
  assert.deepEqual(kernels, ["gather_rows", "add_norm", ...LLAMA_LAYER, ...LLAMA_LAYER, "gemm"]);
  assert.deepEqual(
    gemms.slice(0, 4).map(({ rows, outputs, inputs }) => [rows, outputs, inputs]),
    [
      [32, 256, 128],
      [32, 128, 128],
      [32, 512, 128],
      [32, 128, 256],
    ],
  );
  assert.equal(gemms.at(-1)?.outputType, "f32");
});

test("enqueueDecoder() of some tens of rows uses WGMMA where it exists", () => {
  const kind = { numDecoding: 2, numLogitRows: 32, keepsAllRows: true };
  const kernelsOf = (hasCodes: boolean) => record(LLAMA, 32, kind, { hasCodes, arch: "sm_90a" });
  const ofFloats = ["rope_store", "paged_decode", "wgmma_gemm", "add_norm", "wgmma_gemm", "wgmma_gemm", "add_norm"];
  const ofCodes = ofFloats.flatMap((name, i) => (i === 2 || i === 5 ? ["quantize_rows", name] : [name]));
  for (const [hasCodes, layer] of [
    [false, ofFloats],
    [true, ofCodes],
  ] as const) {
    const { kernels, launches } = kernelsOf(hasCodes);
    assert.deepEqual(kernels.slice(2, -1), [...["wgmma_gemm", ...layer], ...["wgmma_gemm", ...layer]]);
    const groups = launches.filter(({ spec }) => spec.name === "wgmma_gemm").slice(0, 4);
    // Complete, with the scales of rows and columns, and gate and up as one.
    assert.deepEqual(
      groups.map(({ spec }) => [spec.defines.WEIGHT_E4M3, spec.defines.GATED]),
      [undefined, undefined, 1, undefined].map((isGated) => [hasCodes ? 1 : undefined, isGated]),
    );
  }
  for (const [numTokens, change] of [
    [8, {}],
    [129, {}],
    [32, { isDeterministic: true }],
  ] as const) {
    const { kernels } = record(LLAMA, numTokens, { ...kind, numLogitRows: numTokens }, { arch: "sm_90a", ...change });
    assert.ok(!kernels.includes("wgmma_gemm"));
  }
});

test("enqueueDecoder() of a prompt takes the rows for logits out of the last layer", () => {
  const { kernels, gemms } = record(LLAMA, 40, {});
  const thin = kernels.map((name) => (name === "skinny_gemm" ? "gemm" : name));
  assert.deepEqual(
    thin.slice(-9),
    ["ragged_prefill", "gather_rows", "gather_rows", ...LLAMA_LAYER.slice(3), "gemm"].slice(-9),
  );
  assert.deepEqual(
    gemms.map(({ rows }) => rows),
    [40, 40, 40, 40, 40],
  );
});

test("enqueueDecoder() stops at the cache when no logits are wanted", () => {
  const { kernels } = record(LLAMA, 40, { numLogitRows: 0, numChoices: 0 });
  assert.equal(kernels.at(-1), "ragged_prefill");
});

test("enqueueDecoder() gives sequences in front that add one token to the kernel for them", () => {
  const { kernels } = record(LLAMA, 33, { numDecoding: 1 });
  assert.equal(kernels.filter((name) => name === "paged_decode").length, 2);
  assert.equal(kernels.filter((name) => name === "ragged_prefill").length, 2);
});

test("enqueueDecoder() writes and reads an FP8 cache as such", () => {
  const readers = ["rope_store", "paged_decode", "ragged_prefill"];
  const kindsOf = (cacheType: CudaCacheType): readonly unknown[] =>
    record(LLAMA, 33, { numDecoding: 1 }, { cacheType })
      .launches.filter(({ spec }) => readers.includes(spec.name))
      .map(({ spec }) => spec.defines.KV_E4M3);
  assert.deepEqual(kindsOf("e4m3"), [1, 1, 1, 1, 1, 1]);
  assert.deepEqual(kindsOf("bf16"), Array(6).fill(undefined));
});

test("enqueueDecoder() leaves the scales of gemms of codes to their readers, up to 256 rows", () => {
  // No matrix of a layer has as many outputs as there are words.
  const config = { ...LLAMA, intermediate_size: 192 };
  for (const [numTokens, scales] of [
    [32, "none"],
    [256, "none"],
    [257, "rows"],
  ] as const) {
    const decode = { numDecoding: 2, numLogitRows: numTokens, keepsAllRows: true };
    const { gemms, launches } = record(config, numTokens, decode, { hasCodes: true });
    assert.deepEqual(new Set(gemms.slice(0, -1).map((gemm) => gemm.scales)), new Set([scales]));
    const readers = launches.filter(({ spec }) => ["rope_store", "gated_mul_rows"].includes(spec.name));
    const isLeft = scales === "none" ? 1 : undefined;
    assert.deepEqual(
      readers.map(({ spec }) => spec.defines.SUM_SCALES),
      Array(4).fill(isLeft),
    );
  }
});

test("enqueueLogits() of an output of codes takes rows as the last norm gives them", () => {
  const many = { numDecoding: 0, numLogitRows: 24 };
  const { launches, gemms } = record(LLAMA, 24, many, { hasCodedOutput: true });
  const norms = launches.filter(({ spec }) => spec.name === "add_norm");
  assert.deepEqual(
    norms.map(({ spec }) => "QUANTIZE_E4M3" in spec.defines),
    norms.map((_, i) => i === norms.length - 1),
  );
  const logits = gemms.at(-1);
  assert.equal(logits?.scales, "rows");
  assert.equal(logits.inputType, "e4m3");
  assert.notEqual(logits.xScale, undefined);
  const few = record(
    LLAMA,
    8,
    { numDecoding: 8, numSequences: 8, numLogitRows: 8, keepsAllRows: true },
    { hasCodedOutput: true },
  );
  assert.equal(few.kernels.at(-1), "skinny_gemm");
  assert.equal("WEIGHT_E4M3" in (few.launches.at(-1)?.spec.defines ?? {}), true);
});

test("enqueueLogits() caps the logits of models that have a cap", () => {
  assert.equal(record(GEMMA, 8, {}).kernels.at(-1), "soft_cap");
});

test("enqueueDecoder() of parallel blocks adds both branches at once", () => {
  const { kernels } = record(PHI, 24, {});
  const layer = ["gemm", "rope_store", "ragged_prefill", "gemm", "gemm", "activation", "gemm", "add", "add_norm"];
  assert.deepEqual(kernels.slice(2, 11), layer);
});

const EXPERTS = ["gemm", "route_experts", "expert_tiles", "expert_tiles", "mix_experts"];

test("enqueueDecoder() sends rows through the experts that they choose", () => {
  const { kernels, gemms, launches } = record(MIXTRAL, 32, { numDecoding: 2, numLogitRows: 32, keepsAllRows: true });
  const layer = [...LLAMA_LAYER.slice(0, 5), ...EXPERTS, "add_norm"];
  assert.deepEqual(kernels, ["gather_rows", "add_norm", ...layer, ...layer, "gemm"]);
  const router = gemms[2];
  assert.deepEqual([router?.rows, router?.outputs, router?.inputs, router?.outputType], [32, 4, 128, "f32"]);
  const [opening, closing] = launches.filter(({ spec }) => spec.name === "expert_tiles");
  const sizes = [opening, closing].map((launch) => launch?.args.slice(-5).map((arg) => ("i32" in arg ? arg.i32 : -1)));
  assert.deepEqual(sizes, [
    [4, 32, 128, 256, 2],
    [4, 32, 256, 128, 1],
  ]);
  assert.deepEqual([opening?.spec.defines.GATED, closing?.spec.defines.GATED], [1, undefined]);
});

test("enqueueDecoder() takes two kernels beside the GEMMs of experts, in every type", () => {
  const kind = { numDecoding: 2, numLogitRows: 32, keepsAllRows: true };
  for (const hasFp8Experts of [false, true]) {
    const expertsOf = (numTokens: number, more: object = {}): readonly string[] => {
      const { kernels } = record(MIXTRAL, numTokens, kind, { hasFp8Experts, ...more });
      return kernels.filter((name) => name.includes("expert")).slice(0, 4);
    };
    const withGemms = (name: string): readonly string[] => ["route_experts", name, name, "mix_experts"];
    assert.deepEqual(expertsOf(32), withGemms("expert_tiles"));
    assert.deepEqual(expertsOf(2, { arch: "sm_90a" }), withGemms("expert_skinny"));
    assert.deepEqual(expertsOf(32, { arch: "sm_90a" }), withGemms("expert_wgmma"));
  }
});

test("enqueueDecoder() adds what the expert of all rows says, times its gate", () => {
  const { kernels, gemms } = record(QWEN_MOE, 32, { numDecoding: 2, numLogitRows: 32, keepsAllRows: true });
  const shared = ["gemm", "gated_mul", "gemm", "gemm", "gate_rows", "add"];
  assert.deepEqual(kernels.slice(2, 19), [...LLAMA_LAYER.slice(0, 5), ...EXPERTS, ...shared, "add_norm"]);
  assert.deepEqual(
    gemms.slice(2, 6).map(({ outputs, inputs, outputType }) => [outputs, inputs, outputType]),
    [
      [8, 128, "f32"],
      [192, 128, "bf16"],
      [128, 96, "bf16"],
      [1, 128, "bf16"],
    ],
  );
});

test("enqueueDecoder() of experts takes only the rows for logits out of the last layer", () => {
  const { launches } = record(MIXTRAL, 40, {});
  const routes = launches.filter(({ spec }) => spec.name === "route_experts");
  const rows = routes.map(({ args }) => args.at(-3)).map((arg) => (arg !== undefined && "i32" in arg ? arg.i32 : -1));
  assert.deepEqual(rows, [40, 1]);
});

test("planExperts() has room for the choices of all tokens, and refuses more than a warp of experts a token", () => {
  const { config } = parseDecoderConfig({
    config: QWEN_MOE,
    generation: undefined,
    at: { config: "test", generation: "test" },
  });
  const plan = planExperts(config, "bf16", 64);
  const memory = plan && placeRegions(plan, 0n);
  // 64 tokens with three choices each, [64] of bf16 a choice; in f32 [2 * 64] in front of the activation too.
  assert.equal(Number((memory?.active ?? 0n) - (memory?.opened ?? 0n)), 0);
  assert.equal(Number((memory?.closed ?? 0n) - (memory?.active ?? 0n)), 64 * 3 * 64 * 2);
  const plain = planExperts(config, "f32", 64);
  const floats = plain && placeRegions(plain, 0n);
  assert.equal(Number((floats?.active ?? 0n) - (floats?.opened ?? 0n)), 64 * 3 * 2 * 64 * 4);
  assert.equal(plan?.numBytes, Number(memory?.sharedGate ?? 0n) + 256);
  const experts = config.experts && { ...config.experts, numExperts: 64, numChosen: 33 };
  assert.throws(() => planExperts({ ...config, experts }, "bf16", 64), /at most 32 experts a token, got 33/);
  assert.equal(planExperts({ ...config, experts: undefined }, "bf16", 64), undefined);
});

for (const [rows, expected] of [
  [1, 1],
  [3, 4],
  [9, 16],
  [57, 64],
  [65, 96],
  [257, 320],
  [1025, 1152],
] as const) {
  test(`gemmRows() computes ${rows} rows as ${expected}`, () => assert.equal(gemmRows(rows), expected));
}
