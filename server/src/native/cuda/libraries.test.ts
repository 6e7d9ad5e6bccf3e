import assert from "node:assert/strict";
import { test } from "node:test";
import { type CudaSearch, describeCudaLibraries, expectCudaLibrary, findCudaLibrary } from "./libraries.ts";

function machine(files: readonly string[], environment: Readonly<Record<string, string>> = {}): CudaSearch {
  return {
    environment,
    list: (folder) => [
      ...new Set(
        files.filter((f) => f.startsWith(`${folder}/`)).map((f) => f.slice(folder.length + 1).split("/")[0] ?? ""),
      ),
    ],
    isFile: (path) => files.includes(path),
  };
}

for (const [where, name, path, environment] of [
  ["a folder that the user names", "cublaslt", "/my/libcublasLt.so.13", { NEREID_CUDA_LIBRARIES: "/my" }],
  ["the path of the linker", "nccl", "/ld/libnccl.so.2", { LD_LIBRARY_PATH: "/none:/ld" }],
  ["the toolkit's folder of targets", "nvrtc", "/usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so.13", {}],
  ["a toolkit with a version in its name", "nvrtc", "/usr/local/cuda-12.8/lib64/libnvrtc.so.12", {}],
  [
    "an active virtual environment",
    "nccl",
    "/v/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
    { VIRTUAL_ENV: "/v" },
  ],
  ["the system", "driver", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", {}],
  ["the folder of containers", "nvml", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", {}],
] as const) {
  test(`findCudaLibrary() finds a library in ${where}`, () => {
    assert.equal(findCudaLibrary(name, machine([path], environment)).path, path);
  });
}

test("findCudaLibrary() looks beside the python3 on the path", () => {
  const path = "/opt/t/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13";
  const found = findCudaLibrary("cublaslt", machine([path, "/opt/t/bin/python3"], { PATH: "/bin:/opt/t/bin" }));
  assert.equal(found.path, path);
});

test("findCudaLibrary() prefers the newer of two toolkits", () => {
  const files = ["/usr/local/cuda-9.0/lib64/libnvrtc.so.12", "/usr/local/cuda-13.0/lib64/libnvrtc.so.13"];
  assert.equal(findCudaLibrary("nvrtc", machine(files)).path, files[1]);
});

test("expectCudaLibrary() says where it looked and what to install", () => {
  assert.throws(
    () => expectCudaLibrary("cublaslt", machine([], { LD_LIBRARY_PATH: "/ld" })),
    /cuBLASLt is missing: found no libcublasLt\.so\.13 or libcublasLt\.so\.12 in \/ld, .*pip install nvidia-cublas, or name/,
  );
});

test("describeCudaLibraries() has a line for each library", () => {
  const lines = describeCudaLibraries(machine(["/usr/lib64/libcuda.so.1"]));
  assert.equal(lines[0], "the CUDA driver: /usr/lib64/libcuda.so.1");
  assert.match(lines[1] ?? "", /^NVRTC: not found in \d+ folders/);
  assert.equal(lines.length, 5);
});
