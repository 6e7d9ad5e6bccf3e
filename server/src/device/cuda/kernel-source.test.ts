import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CUDA_ARCHITECTURES, cudaCompiler, hasKernel } from "../../../kernels/testing/compile-cuda.test-support.ts";
import { compileOptions, kernelFolder, readKernelSource } from "./kernel-source.ts";

const compiler = await cudaCompiler();
const skip = compiler.reason ?? false;

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "nereid-kernels-"));
  for (const name of ["cuda", "copy"]) mkdirSync(join(folder, name));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const FILES = {
  "cuda/twice.cuh": "__device__ float twice(float x) { return FACTOR * x; }",
  "copy/copy.cu": '#include "twice.cuh"\nextern "C" __global__ void copy(float* x) { x[threadIdx.x] = twice(x[0]); }',
};

for (const arch of CUDA_ARCHITECTURES) {
  test(`readKernelSource() gives what the compiler needs for ${arch}`, { skip }, () => {
    const source = readKernelSource("copy/copy.cu", folderWith(FILES));
    const result = compiler.nvrtc?.compile(source, compileOptions(arch, { FACTOR: "2.0f" }));
    assert.ok(result !== undefined && hasKernel(result.cubin, "copy"));
  });
}

test("compile() tells where a source is wrong", { skip }, () => {
  const source = readKernelSource("copy/copy.cu", folderWith(FILES));
  assert.throws(() => compiler.nvrtc?.compile(source, compileOptions("sm_90a", {})), /copy\/copy\.cu[\s\S]*FACTOR/);
  assert.throws(() => compiler.nvrtc?.compile(source, ["--gpu-architecture=sm_1"]), /NVRTC_ERROR_INVALID_OPTION/);
});

test("compileOptions() does not depend on the order of the defines", () => {
  assert.deepEqual(compileOptions("sm_80", { B: 1, A: "x" }), compileOptions("sm_80", { A: "x", B: 1 }));
});

test("kernelFolder() names the folders where it looked", () => {
  assert.throws(() => kernelFolder({ NEREID_KERNELS: "/nowhere" }), /no cuda\/elem.cuh in \/nowhere/);
});
