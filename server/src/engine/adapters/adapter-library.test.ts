import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { readNpy } from "../../formats/tensors/npy.ts";
import { createDecoderRunner } from "../cpu/cpu-runner.ts";
import type { AdapterChoice, AdapterSpec } from "./adapter-choice.ts";
import { AdapterLibrary } from "./adapter-library.ts";

const PARITY = fileURLToPath(new URL("../../../../tests/parity/", import.meta.url));
const ADAPTERS = `${PARITY}adapters/llama-3.2/`;
const NONE: AdapterSpec = { folders: [], maxBytes: 1 << 20, maxRank: 64 };

const directory = await mkdtemp(join(tmpdir(), "adapters-"));
const runner = await createDecoderRunner({ modelDir: `${PARITY}models/llama-3.2`, numBlocks: 4, blockSize: 4 });
after(async () => {
  await runner.close();
  await rm(directory, { recursive: true });
});

const open = (spec: Partial<AdapterSpec>): Promise<AdapterLibrary> =>
  AdapterLibrary.open(runner.adapters, { ...NONE, ...spec });

async function taskMatrices(): Promise<{ numRows: number; weights: Float32Array; config: Int32Array }> {
  const weights = await readNpy(`${PARITY}tasks/7/model.lora_weights.npy`);
  const config = await readNpy(`${PARITY}tasks/7/model.lora_config.npy`);
  assert.ok(weights.values instanceof Float32Array && config.values instanceof Int32Array);
  return { numRows: weights.shape[1] ?? 0, weights: weights.values, config: config.values };
}

test("hold() finds an adapter by its name, by its folder, and by that of a folder of folders", async () => {
  const library = await open({ folders: [["french", `${ADAPTERS}a`]], root: ADAPTERS });
  assert.deepEqual(library.names, ["a", "b", "c", "d", "e", "f", "g", "french"]);
  const held = await library.hold({ kind: "name", text: "french" });
  const same = await library.hold({ kind: "name", text: "a" });
  assert.equal(held.salt, same.salt);
  const byPath = await library.hold({ kind: "path", text: `${ADAPTERS}b/` });
  assert.equal(byPath, await library.hold({ kind: "name", text: "b" }));
});

test("hold() takes a task with its matrices once, and by its number from then on", async () => {
  const library = await open({});
  const id = 2n ** 64n - 1n;
  const first = await library.hold({ kind: "task", id, matrices: await taskMatrices() });
  assert.equal(await library.hold({ kind: "task", id }), first);
  library.release(first);
  library.release(first);
  library.cache.checkIntegrity(0);
});

test("open() loads the tasks of a folder, and hold() loads one again that had to go", async () => {
  const library = await open({ prefetch: `${PARITY}tasks`, root: ADAPTERS, maxBytes: 64_000 });
  assert.deepEqual(library.cache.keys, ["task:7"]);
  const first = await library.hold({ kind: "task", id: 7n });
  library.release(first);
  library.release(await library.hold({ kind: "name", text: "b" }));
  assert.equal(library.cache.has("task:7"), false);
  assert.equal((await library.hold({ kind: "task", id: 7n })).salt, first.salt);
});

const UNKNOWN: readonly (readonly [choice: AdapterChoice, expected: RegExp])[] = [
  [{ kind: "task", id: 5n }, /^LoRA task 5 not found in cache\. Please send LoRA weights with request$/],
  [{ kind: "task", id: -1n }, /^lora_task_id is -1, expected 0 to 2\^64 - 1$/],
  [{ kind: "name", text: "german" }, /^no adapter is named 'german', known are: french$/],
  [{ kind: "name", text: "../a" }, /^no adapter is named '\.\.\/a'/],
  [{ kind: "path", text: `${ADAPTERS}b` }, /^no adapter of this model lies at '.*b', known are: french$/],
  [
    { kind: "task", id: 5n, matrices: { numRows: 1, weights: new Float32Array(8), config: Int32Array.of(1, 0, 1) } },
    /^LoRA task 5 cannot be loaded: lora_config row 0: expected 128 numbers/,
  ],
];
for (const [choice, expected] of UNKNOWN) {
  test(`hold() refuses ${choice.kind} ${choice.kind === "task" ? choice.id : choice.text.slice(-8)}: ${expected.source.slice(1, 30)}`, async () => {
    const library = await open({ folders: [["french", `${ADAPTERS}a`]] });
    await assert.rejects(library.hold(choice), { name: "ServerError", code: "invalid_argument", message: expected });
    library.cache.checkIntegrity(0);
  });
}

test("open() names the adapter that does not fit the model", async () => {
  await assert.rejects(open({ folders: [["x", `${PARITY}adapters/gpt2/a`]] }), {
    message: /^adapter 'x' cannot be loaded: .*adapter_model\.safetensors: target module "c_/,
  });
  await assert.rejects(open({ folders: [["x", `${ADAPTERS}b`]], maxRank: 7 }), {
    message: "adapter 'x' has rank 8, expected at most 7: raise lora_cache_max_adapter_size",
  });
  await assert.rejects(open({ root: join(directory, "none") }), { message: /none: expected a folder of adapters/ });
});

test("open() passes over files and hidden folders of a folder of folders, and folders without a number among tasks", async () => {
  const root = await mkdtemp(join(directory, "root-"));
  await cp(`${ADAPTERS}a`, join(root, "a"), { recursive: true });
  await mkdir(join(root, ".git"));
  await writeFile(join(root, "README.md"), "");
  assert.deepEqual((await open({ root })).names, ["a"]);
  assert.deepEqual((await open({ prefetch: root })).cache.keys, []);
});
