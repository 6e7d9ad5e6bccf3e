import assert from "node:assert/strict";
import { cp, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { maxDifference } from "@nereid/server/kernels/testing/run-op";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { append, contiguousBlocks, TestSequence } from "@nereid/server/engine/testing/sequences";
import { openEngineFile } from "@nereid/server/formats/trtllm/engine-file";
import { ENGINE_FORMAT } from "@nereid/server/formats/trtllm/engine-header";
import { longTestsReason } from "../../../tests/support/long-tests.ts";
import { type BuildOptions, buildEngine } from "./build-engine.ts";
import { convertCheckpoint } from "../checkpoint/convert-checkpoint.ts";
import { planEngine } from "./engine-writer.ts";
import { fastest } from "./measure-gemms.ts";
import { Reporter } from "@nereid/server/files/progress";

const MODELS = fileURLToPath(new URL("../../../tests/parity/models/", import.meta.url));
const SHAPE = { numBlocks: 32, blockSize: 4, numThreads: 1 };
const reporter = new Reporter({ mode: "quiet", command: "build" });
const { signal } = new AbortController();

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "build-"));
});
after(() => rm(folder, { recursive: true }));

function build(checkpointDir: string, outputDir: string, weightType: BuildOptions["weightType"]) {
  const buildConfig = { max_batch_size: 4 };
  return buildEngine({ checkpointDir, outputDir, weightType, floatType: "auto", buildConfig, reporter, signal });
}

async function logitsOf(modelDir: string, weightType?: "f32" | "bf16" | "q8_0"): Promise<Float32Array> {
  const runner = await createDecoderRunner({ ...SHAPE, modelDir, weightType });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, SHAPE.numBlocks));
    const tokens = Array.from({ length: 40 }, (_, i) => (i * 37) % 250);
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
    return logits;
  } finally {
    await runner.close();
  }
}

/** Each type, tied and fused matrices, experts; the others by `npm run test:long`. */
const SAMPLE: ReadonlySet<string> = new Set(["gpt2", "llama-3.2", "mixtral"]);

describe("buildEngine() gives the logits of the model in the same type", () => {
  for (const [name, type] of [
    ["gpt2", "f32"],
    ["llama-3.2", "bf16"],
    ["llama-2", "q8_0"],
    ["mixtral", "q8_0"],
    ["gemma-3", "f32"],
    ["qwen2-moe", "bf16"],
    ["phi-2", "bf16"],
    ["phi-3-longrope-long", "f32"],
  ] as const) {
    test(`${name} as ${type}`, { skip: (!SAMPLE.has(name) && longTestsReason) || false }, async () => {
      const [checkpoint, engine] = [join(folder, `${name}-ckpt`), join(folder, name)];
      await convertCheckpoint({
        modelDir: `${MODELS}${name}`,
        outputDir: checkpoint,
        dtype: "auto",
        mapping: { tpSize: 2, ppSize: 2, embeddingSplit: "vocab" },
        weightOnly: undefined,
        reporter,
        signal,
      });
      await build(checkpoint, engine, type);
      const off = maxDifference(await logitsOf(engine), [...(await logitsOf(`${MODELS}${name}`, type))]);
      assert.ok(off < 1e-5, `logits are off by ${off}`);
    });
  }
});

test("buildEngine() measures the ways to keep each matrix and writes what it chose", async () => {
  const engine = join(folder, "measured");
  const { products, threads, threadTimings } = await build(`${MODELS}llama-3.2`, engine, "auto");
  assert.equal(products.length, 5);
  for (const { type, layout, timings } of products) {
    assert.deepEqual(new Set(timings.map((one) => one.type)), new Set(["f32", "bf16"]));
    assert.deepEqual(fastest(timings), { ...timings[0], type, layout });
    assert.ok(timings.every(({ decodeUs, prefillUs }) => decodeUs > 0 && prefillUs > 0));
  }
  const counts = threadTimings.map((one) => one.threads);
  assert.ok(counts.includes(threads.decode) && counts.includes(threads.prefill));
  const config = JSON.parse(await readFile(join(engine, "config.json"), "utf8")) as Record<string, object>;
  assert.equal((config.pretrained_config as { architecture?: string }).architecture, "LlamaForCausalLM");
  const { nereid, ...flags } = config.build_config as Record<string, object>;
  assert.deepEqual(flags, { max_batch_size: 4 });
  assert.deepEqual(Object.keys(nereid ?? {}), ["device", "kernels", "threads", "products", "thread_timings"]);
  const file = await openEngineFile(join(engine, "rank0.engine"));
  assert.deepEqual(file.threads, threads);
  const stored = file.tensors.get("model.layers.0.mlp.down_proj.weight");
  await file.close();
  const chosen = products.find(({ shape }) => `${shape}` === `${stored?.shape}`);
  assert.deepEqual([stored?.dtype.toLowerCase(), stored?.layout], [chosen?.type, chosen?.layout]);
});

test("a runner lays a matrix out as its engine says", async () => {
  const plain = await runnerBytes("plain");
  const repacked = await runnerBytes("repacked");
  assert.equal(maxDifference(plain.logits, [...repacked.logits]) < 6e-2, true);
  assert.deepEqual([plain.layouts, repacked.layouts], [["plain"], ["repacked"]]);
});

/** An engine of 8-bit blocks whose matrices are all said to lie so. */
async function runnerBytes(layout: "plain" | "repacked") {
  const engine = join(folder, `as-${layout}`);
  await build(`${MODELS}llama-2`, engine, "q8_0");
  const words = { plain: '"layout":"plain"   ', repacked: '"layout":"repacked"' };
  await rewriteHeader(engine, (json) => json.replace(/"layout":"(?:plain|repacked)"/g, words[layout]));
  const file = await openEngineFile(join(engine, "rank0.engine"));
  const layouts = new Set([...file.tensors.values()].flatMap((tensor) => tensor.layout ?? []));
  await file.close();
  return { layouts: layouts.size === 0 ? [layout] : [...layouts], logits: await logitsOf(engine) };
}

test("buildEngine() keeps quantized matrices whatever type floats are to have", async () => {
  const [checkpoint, engine] = [join(folder, "int8"), join(folder, "int8-engine")];
  const mapping = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
  const source = { modelDir: `${MODELS}llama-2`, outputDir: checkpoint, dtype: "auto", mapping } as const;
  await convertCheckpoint({ ...source, weightOnly: 8, reporter, signal });
  const options = { checkpointDir: checkpoint, outputDir: engine, buildConfig: {}, reporter, signal };
  const summary = await buildEngine({ ...options, weightType: "auto", floatType: "bf16" });
  assert.deepEqual(new Set(summary.products.map(({ type }) => type)), new Set(["q8_0", "bf16"]));
  const file = await openEngineFile(join(engine, "rank0.engine"));
  const dtypes = [...file.tensors.values()].map(({ dtype }) => dtype);
  await file.close();
  const counts = ["BF16", "F32", "Q8_0"].map((dtype) => dtypes.filter((other) => other === dtype).length);
  assert.deepEqual(counts, [2, 5, 8]);
  const off = maxDifference(await logitsOf(engine), [...(await logitsOf(checkpoint))]);
  assert.ok(off < 6e-2, `logits are off by ${off}`);
});

const TIMINGS = [
  { type: "f32", decodeUs: 2, prefillUs: 64 },
  { type: "bf16", decodeUs: 1, prefillUs: 96 },
  { type: "f16", decodeUs: 2.5, prefillUs: 640 },
] as const;

test("fastest() weighs a token against its share of a prompt", () => {
  assert.equal(fastest(TIMINGS).type, "bf16");
  assert.equal(fastest([{ type: "f32", decodeUs: 1.2, prefillUs: 64 }, TIMINGS[1]]).type, "f32");
});

/** Changes bytes of an engine. */
async function damage(engine: string, change: (bytes: Buffer) => void): Promise<void> {
  const path = join(engine, "rank0.engine");
  const bytes = await readFile(path);
  change(bytes);
  await writeFile(path, bytes);
}

const DAMAGES: readonly (readonly [what: string, change: (bytes: Buffer) => void, expected: RegExp])[] = [
  [
    "another format",
    (bytes) => bytes.writeUInt32LE(ENGINE_FORMAT + 1, 8),
    /has format 2, this version reads 1: build it again: nereid build/,
  ],
  ["no header", (bytes) => bytes.fill(0, 0, 24), /expected an engine of Nereid/],
  ["a changed header", (bytes) => bytes.fill("x", 40, 41), /the header is damaged/],
  [
    "changed weights",
    (bytes) => bytes.fill(bytes.at(-5) === 1 ? 2 : 1, bytes.length - 5, bytes.length - 4),
    /is damaged: its checksum does not fit/,
  ],
];

describe("createDecoderRunner() refuses an engine", () => {
  let whole = "";
  let engine = "";
  before(async () => {
    whole = join(folder, "whole");
    engine = join(folder, "damaged");
    await build(`${MODELS}llama-2`, whole, "f32");
  });
  beforeEach(() => cp(whole, engine, { recursive: true }));

  for (const [what, change, expected] of DAMAGES) {
    test(`with ${what}`, async () => {
      await damage(engine, change);
      await assert.rejects(createDecoderRunner({ ...SHAPE, modelDir: engine }), expected);
    });
  }

  test("that is cut off", async () => {
    const file = await open(join(engine, "rank0.engine"), "r+");
    await file.truncate(100_000);
    await file.close();
    await assert.rejects(
      createDecoderRunner({ ...SHAPE, modelDir: engine }),
      /does not fit the file, which may be cut off/,
    );
  });

  test("that was built for another device", async () => {
    await rewriteHeader(engine, (json) => json.replace('"cpu"', '"gpu"'));
    await assert.rejects(
      createDecoderRunner({ ...SHAPE, modelDir: engine }),
      /built for gpu with ggml 0\.\d+, this is cpu with ggml 0\.\d+: build it again/,
    );
  });
});

/** The header as another builder would have written it, of as many bytes. */
async function rewriteHeader(engine: string, change: (json: string) => string): Promise<void> {
  await damage(engine, (bytes) => {
    const length = Number(bytes.readBigUInt64LE(16));
    const json = change(bytes.toString("utf8", 24, 24 + length));
    bytes.write(json.padEnd(length), 24);
    bytes.writeUInt32LE(crc32(bytes.subarray(24, 24 + length)), 12);
  });
}

test("planEngine() places tensors behind the longest header", () => {
  const { tensors } = planEngine(
    [
      { name: "a", dtype: "F32", shape: [3] },
      { name: "b", dtype: "Q8_0", shape: [2, 64] },
    ],
    { device: "cpu", kernels: "ggml 0.25" },
  );
  assert.deepEqual(
    tensors.map(({ offset, byteLength }) => [offset, byteLength]),
    [
      [4096, 12],
      [8192, 136],
    ],
  );
});
