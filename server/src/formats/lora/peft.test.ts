import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import type { LoraTarget, LoraTargets } from "./lora-adapter.ts";
import { inspectPeft, readPeft } from "./peft.ts";
import { parsePeftConfig } from "./peft-config.ts";

const QUERY: LoraTarget = { linear: "qkv", column: 0, inputs: 4, outputs: 6 };
const DOWN: LoraTarget = { linear: "mlpOut", column: 0, inputs: 8, outputs: 4 };
const TARGETS: LoraTargets = {
  numLayers: 2,
  expertLayers: new Set([1]),
  prefixes: ["model.", ""],
  layer: "layers.#.",
  modules: new Map([
    ["self_attn.q_proj", QUERY],
    ["mlp.down_proj", DOWN],
  ]),
  moduleIds: new Map(),
};
const CONFIG = { peft_type: "LORA", r: 2, lora_alpha: 6, target_modules: ["q_proj"] };

const directory = await mkdtemp(join(tmpdir(), "peft-"));
after(() => rm(directory, { recursive: true }));

const floats = (shape: readonly number[], first = 0): TensorDraft => {
  const count = shape.reduce((product, size) => product * size, 1);
  return { dtype: "F32", shape: [...shape], data: Float32Array.from({ length: count }, (_, i) => first + i) };
};
const named = (module: string, side: "A" | "B"): string => `base_model.model.${module}.lora_${side}.weight`;
const pair = (module: string, target: LoraTarget, rank = 2): Record<string, TensorDraft> => ({
  [named(module, "A")]: floats([rank, target.inputs]),
  [named(module, "B")]: floats([target.outputs, rank], 1),
});
const Q0 = "model.layers.0.self_attn.q_proj";

async function folder(config: unknown, tensors: Record<string, TensorDraft>): Promise<string> {
  const path = await mkdtemp(join(directory, "adapter-"));
  await writeFile(join(path, "adapter_config.json"), typeof config === "string" ? config : JSON.stringify(config));
  await writeFile(join(path, "adapter_model.safetensors"), safetensorsBytes(tensors));
  return path;
}

test("readPeft() gives both matrices of each module, the second times alpha over rank", async () => {
  const path = await folder(CONFIG, { ...pair(Q0, QUERY), ...pair("layers.0.mlp.down_proj", DOWN) });
  const { changes } = await readPeft(path, TARGETS);
  assert.deepEqual(
    changes.map(({ layer, target, rank }) => ({ layer, target, rank })),
    [
      { layer: 0, target: QUERY, rank: 2 },
      { layer: 0, target: DOWN, rank: 2 },
    ],
  );
  assert.deepEqual([...(changes[0]?.a ?? [])], [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual([...(changes[0]?.b ?? [])].slice(0, 3), [3, 6, 9]);
  assert.deepEqual(await inspectPeft(path, TARGETS), { numBytes: 4 * 2 * (4 + 6 + 8 + 4), maxRank: 2 });
});

const SCALES: readonly (readonly [config: object, module: string, rank: number, scale: number])[] = [
  [{}, Q0, 2, 3],
  [{ use_rslora: true }, Q0, 2, 6 / Math.sqrt(2)],
  [{ rank_pattern: { q_proj: 4 } }, Q0, 4, 1.5],
  [{ rank_pattern: { k_proj: 4, "layers.0.self_attn.q_proj": 3 } }, Q0, 3, 2],
  [{ rank_pattern: { "layers\\.0\\.self_attn\\.q_proj": 3 } }, Q0, 3, 2],
  [{ rank_pattern: { "^layers.0.self_attn.q_proj": 3 } }, Q0, 2, 3],
  [{ alpha_pattern: { "^model.layers.0.self_attn.q_proj": 8 }, rank_pattern: { q_proj: 4 } }, Q0, 4, 2],
  [{ rank_pattern: { q_proj: 4 } }, "model.layers.0.self_attn.sq_proj", 2, 3],
];
for (const [changes, module, rank, scale] of SCALES) {
  test(`parsePeftConfig() gives rank ${rank} and scale ${scale.toFixed(2)} for ${JSON.stringify(changes)}`, () => {
    const config = parsePeftConfig({ ...CONFIG, ...changes }, "adapter_config.json");
    assert.equal(config.rankOf(module), rank);
    assert.equal(config.scaleOf(module), scale);
  });
}

const REFUSED_CONFIGS: readonly (readonly [changes: object, expected: RegExp])[] = [
  [{ peft_type: "IA3" }, /adapter_config\.json: peft_type: expected "LORA", got "IA3"/],
  [{ use_dora: true }, /use_dora: expected none: DoRA is not supported, got true/],
  [{ bias: "all" }, /bias: expected "none": trained biases/],
  [{ modules_to_save: ["lm_head"] }, /modules_to_save: expected none/],
  [{ layer_replication: [[0, 2]] }, /layer_replication: expected none/],
  [{ init_lora_weights: "pissa_niter_4" }, /init_lora_weights: expected one that leaves the model's own weights/],
  [{ r: 0 }, /r: expected an integer from 1 to 4096, got 0/],
  [{ r: 1e9 }, /r: expected an integer from 1 to 4096/],
  [{ lora_alpha: -1 }, /lora_alpha: expected a number above zero/],
  [{ rank_pattern: { "(a*)*b": 4 } }, /rank_pattern: expected names of modules, not expressions, got "\(a\*\)\*b"/],
  [{ alpha_pattern: { q_proj: "x" } }, /alpha_pattern: expected a number above zero for "q_proj"/],
  [{ rank_pattern: [1] }, /rank_pattern: expected numbers by the names of modules/],
  [{ target_modules: [7] }, /target_modules: expected at most 4096 names/],
];
for (const [changes, expected] of REFUSED_CONFIGS) {
  test(`readPeft() refuses the config ${JSON.stringify(changes)}`, async () => {
    const path = await folder({ ...CONFIG, ...changes }, pair(Q0, QUERY));
    await assert.rejects(readPeft(path, TARGETS), expected);
    await assert.rejects(inspectPeft(path, TARGETS), expected);
  });
}

const LACKS_B = { [named(Q0, "A")]: floats([2, 4]) };
const REFUSED_TENSORS: readonly (readonly [name: string, tensors: Record<string, TensorDraft>, expected: RegExp])[] = [
  ["no tensor", {}, /adapter_model\.safetensors: expected 1 to 65536 modules, got 0/],
  ["half a pair", LACKS_B, /lacks tensor "base_model\.model\.model\.layers\.0\.self_attn\.q_proj\.lora_B\.weight"/],
  ["another rank", pair(Q0, QUERY, 3), /q_proj\.lora_A\.weight": expected F32\|F16\|BF16\[2, 4\], got F32\[3, 4\]/],
  [
    "another width",
    pair(Q0, { ...QUERY, outputs: 7 }),
    /q_proj\.lora_B\.weight": expected F32\|F16\|BF16\[6, 2\], got F32\[7, 2\]/,
  ],
  [
    "integers",
    { ...pair(Q0, QUERY), [named(Q0, "A")]: { dtype: "I32", shape: [2, 4], data: new Int32Array(8) } },
    /lora_A\.weight": expected F32\|F16\|BF16\[2, 4\], got I32\[2, 4\]/,
  ],
  ["a layer beyond the last", pair("model.layers.2.self_attn.q_proj", QUERY), /is of layer 2, the model has 2/],
  ["a module that is not changed", pair("model.layers.0.self_attn.r_proj", QUERY), /r_proj" is not supported; those/],
  ["an MLP of experts", pair("model.layers.1.mlp.down_proj", DOWN), /layers\.1\.mlp\.down_proj" is not supported/],
  ["the output layer", pair("lm_head", QUERY), /module "lm_head" is no layer of this model/],
  ["another tower", pair("vision.model.layers.0.self_attn.q_proj", QUERY), /is no layer of this model/],
  ["a number that is none", pair("model.layers.x.self_attn.q_proj", QUERY), /is no layer of this model/],
  [
    "a magnitude of DoRA",
    { ...pair(Q0, QUERY), [`base_model.model.${Q0}.lora_magnitude_vector`]: floats([6]) },
    /lora_magnitude_vector": expected a name like base_model\.model\.\*\.lora_A\.weight/,
  ],
];
for (const [name, tensors, expected] of REFUSED_TENSORS) {
  test(`readPeft() names file and tensor when it finds ${name}`, async () => {
    await assert.rejects(readPeft(await folder(CONFIG, tensors), TARGETS), expected);
  });
}

test("readPeft() names a target module that cannot be changed", async () => {
  const path = await folder({ ...CONFIG, target_modules: ["q_proj", "embed_tokens"] }, pair(Q0, QUERY));
  await assert.rejects(
    readPeft(path, TARGETS),
    /target module "embed_tokens" is not supported; those of this model are/,
  );
});

test("readPeft() names what is not there, not JSON, or a pickle", async () => {
  const empty = await mkdtemp(join(directory, "empty-"));
  await assert.rejects(readPeft(empty, TARGETS), /adapter_config\.json: expected a file/);
  await assert.rejects(readPeft(await folder("{", {}), TARGETS), /adapter_config\.json: expected JSON/);
  await writeFile(join(empty, "adapter_config.json"), JSON.stringify(CONFIG));
  await assert.rejects(readPeft(empty, TARGETS), /adapter_model\.safetensors: expected a safetensors file/);
  await writeFile(join(empty, "adapter_model.bin"), "pickle");
  await assert.rejects(readPeft(empty, TARGETS), /adapter_model\.bin is a pickle, which is not read/);
});
