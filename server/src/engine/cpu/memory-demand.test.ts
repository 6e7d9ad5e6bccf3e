import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { openModelFiles } from "../../formats/hf/model-files.ts";
import { parseDecoderConfig } from "../../models/config/parse-decoder-config.ts";
import { loadDecoderWeights } from "../../models/cpu/weights.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import type { EngineSpec, KvCacheSpec } from "../engine-spec.ts";
import { cpuMemoryDemand, planCpuMemory } from "./memory-demand.ts";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const KV_CACHE: KvCacheSpec = {
  type: undefined,
  bytes: 0,
  freeFraction: undefined,
  hostBytes: 0,
  attentionWindows: [],
};

function spec(modelDir: string, kvCache: Partial<KvCacheSpec>, changes: Partial<EngineSpec> = {}): EngineSpec {
  const engine = DEFAULT_ENGINE_CONFIG;
  return {
    modelDir: ROOT + modelDir,
    engine,
    kvCacheTokens: 0,
    numThreads: 1,
    kvCache: { ...KV_CACHE, ...kvCache },
    ...changes,
  };
}

const TINY = "examples/nereid-tiny/language_model";
const FREE_BYTES = 2 ** 30;

test("planCpuMemory() counts weights in the type they get and the cache in its own", async () => {
  const lineOf = async (kvCache: Partial<KvCacheSpec>, changes: Partial<EngineSpec> = {}): Promise<string> =>
    (await planCpuMemory(spec(TINY, { bytes: 2 ** 20, ...kvCache }, changes), 16, FREE_BYTES)).lines[0] ?? "";
  // 11.8 million weights; 2 * 6 layers of 2 heads of 64 a token.
  assert.match(
    await lineOf({}),
    /weights 45\.0 MiB, .* KV cache 960\.0 KiB \(10 blocks of 16 tokens, 6\.00 KiB a token\)/,
  );
  assert.match(await lineOf({}, { weightType: "bf16" }), /weights 22\.5 MiB/);
  assert.match(await lineOf({ type: "f16" }), /\(21 blocks of 16 tokens, 3\.00 KiB a token\)/);
  assert.match(await lineOf({ type: "q8_0" }), /\(40 blocks of 16 tokens, 1\.59 KiB a token\)/);
});

test("cpuMemoryDemand() counts the weights that are then loaded", async () => {
  const device = new CpuDevice({ numThreads: 1 });
  for (const weightType of [undefined, "f16", "q4_0"] as const) {
    const { files, tensors } = await openModelFiles(ROOT + TINY);
    const parsed = parseDecoderConfig(files);
    const [counted] = cpuMemoryDemand(parsed, tensors, spec(TINY, {}, { weightType }), 16).items;
    const { what, numBytes: weightBytes } = counted ?? { what: "", numBytes: 0 };
    assert.equal(what, "weights");
    const weights = await loadDecoderWeights(device, parsed, tensors, weightType, []);
    const { numBytes } = weights;
    weights.close();
    await tensors.close();
    assert.ok(Math.abs(weightBytes / numBytes - 1) < 0.01, `${weightType}: ${weightBytes} and ${numBytes} bytes`);
  }
  await device.close();
});

test("planCpuMemory() refuses what is not free, and heads that the type does not fit", async () => {
  await assert.rejects(
    planCpuMemory(spec(TINY, { bytes: 2 ** 31 }), 16, FREE_BYTES),
    /the model does not fit: .* need 2\.\d+ GiB/,
  );
  await assert.rejects(planCpuMemory(spec(TINY, {}), 16, 2 ** 20), /Narrower weights take less/);
  await assert.rejects(
    planCpuMemory(spec("tests/parity/models/llama-2", { type: "q8_0" }), 16, FREE_BYTES),
    /kv_cache_type q8_0 .* heads of 16/,
  );
});

test("planCpuMemory() needs less for the longest sequence when all layers are windowed", async () => {
  const warns = async (attentionWindows: readonly number[]): Promise<boolean> => {
    const { lines } = await planCpuMemory(spec(TINY, { attentionWindows }, { kvCacheTokens: 1600 }), 16, FREE_BYTES);
    return lines.length > 1;
  };
  assert.deepEqual([await warns([]), await warns([256]), await warns([256, 2048])], [true, false, true]);
});

test("planCpuMemory() leaves a host KV cache out that would stay empty, and says why", async () => {
  const hostBytes = 2 ** 20;
  const plans = [
    spec(TINY, { hostBytes }),
    spec(TINY, { hostBytes, attentionWindows: [64] }),
    spec(TINY, { hostBytes }, { engine: { ...DEFAULT_ENGINE_CONFIG, prefixReuse: false } }),
  ].map((each) => planCpuMemory(each, 16, FREE_BYTES));
  const [used, windowed, unused] = await Promise.all(plans);
  assert.deepEqual([used?.numHostBlocks, windowed?.numHostBlocks, unused?.numHostBlocks], [10, 0, 0]);
  assert.match(windowed?.lines.at(-1) ?? "", /has no effect: all layers have windows, of 64 tokens at most/);
  assert.match(unused?.lines.at(-1) ?? "", /has no effect: blocks are not reused/);
});

test("planCpuMemory() counts a model that drafts, with its own cache", async () => {
  const draftModelDir = ROOT + TINY;
  const [line] = (await planCpuMemory(spec(TINY, { bytes: 2 ** 20, type: "f16" }, { draftModelDir }), 16, FREE_BYTES))
    .lines;
  assert.match(line ?? "", /weights 90\.0 MiB, .* \(7 blocks of 16 tokens, 9\.00 KiB a token\)/);
});
