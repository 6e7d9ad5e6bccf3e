import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { findGpuPackage } from "../../native/llama/gpu-packages.ts";
import { openLlama } from "../../native/llama/llama.ts";
import { chooseLlamaDevice } from "./choose-device.ts";

const root = mkdtempSync(join(tmpdir(), "gpu-packages-"));
after(() => rmSync(root, { recursive: true }));
const platform = `${process.platform}-${process.arch}`;

/** An installed package with the library of its backend. */
function install(suffix: string): string {
  const folder = join(root, suffix, "bins", `${platform}-${suffix}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `libggml-${suffix}.so`), "");
  return folder;
}

function resolver(...installed: readonly string[]): (name: string) => string {
  return (name) => {
    const suffix = installed.find((each) => name === `@node-llama-cpp/${platform}-${each}`);
    if (suffix === undefined) throw new Error(`Cannot find module '${name}'`);
    return join(root, suffix, "dist", "index.js");
  };
}

test("findGpuPackage() takes the first package whose driver is there, and says why others do not count", () => {
  const [cuda, vulkan] = [install("cuda"), install("vulkan")];
  const both = resolver("cuda", "vulkan");
  assert.equal(findGpuPackage({}, both, () => true).found?.directory, cuda);
  const withoutDriver = findGpuPackage({}, both, (library) => library === "libvulkan.so.1");
  assert.equal(withoutDriver.found?.directory, vulkan);
  assert.deepEqual(withoutDriver.misses, [
    `@node-llama-cpp/${platform}-cuda needs libcuda.so.1 of the driver, which is not there`,
  ]);
  const none = findGpuPackage({}, resolver(), () => true);
  assert.equal(none.found, undefined);
  assert.deepEqual(none.misses, [
    `@node-llama-cpp/${platform}-cuda is not installed`,
    `@node-llama-cpp/${platform}-vulkan is not installed`,
  ]);
  assert.equal(findGpuPackage({ NEREID_GGML_DIR: vulkan }, both, () => true).found?.directory, vulkan);
});

test("chooseLlamaDevice() stays on the CPU unless GPUs are asked for and found, and tells why", () => {
  const llama = openLlama();
  const open = (): typeof llama => llama;
  const found = { found: { name: "the package", directory: root }, misses: [] };
  const plain = chooseLlamaDevice({}, () => assert.fail("searches nothing"), open);
  assert.deepEqual([plain.numGpuLayers, plain.title, plain.note], [0, "the CPU", undefined]);
  const missing = chooseLlamaDevice(
    { gpuLayers: 4 },
    () => ({ found: undefined, misses: ["x is not installed"] }),
    open,
  );
  assert.deepEqual(
    [missing.numGpuLayers, missing.note],
    [0, "the llama.cpp engine computes on the CPU, although GPUs are asked for: x is not installed"],
  );
  const empty = chooseLlamaDevice({ gpu: { ordinal: 0, matrices: undefined } }, () => found, open);
  assert.deepEqual(
    [empty.numGpuLayers, empty.note],
    [0, "the llama.cpp engine computes on the CPU: the package finds no GPU"],
  );
  const withGpu = { ...llama, ggml: { ...llama.ggml, gpus: () => [{ name: "Some GPU", freeBytes: 8e9 }] } };
  const all = chooseLlamaDevice(
    { gpu: { ordinal: 0, matrices: undefined } },
    () => found,
    () => withGpu,
  );
  assert.deepEqual([all.title, all.freeBytes], ["Some GPU (all layers, the package)", 8e9]);
  const some = chooseLlamaDevice(
    { gpuLayers: 4 },
    () => found,
    () => withGpu,
  );
  assert.deepEqual([some.numGpuLayers, some.title, some.freeBytes], [4, "Some GPU (4 layers, the package)", undefined]);
});
