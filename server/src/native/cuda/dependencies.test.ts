import assert from "node:assert/strict";
import { test } from "node:test";
import { type FoundFiles, loadCudnn, missingLibrary, withFoundLibraries } from "./dependencies.ts";

const missing = (name: string): Error =>
  new Error(`Failed to load library /x/libp.so with error: ${name}: cannot open shared object file: No such file`);

/** Libraries in /cuda by name, each with what it needs, and a linker that finds nothing by itself. */
function linker(needs: Readonly<Record<string, readonly string[]>>): {
  readonly loaded: string[];
  readonly files: FoundFiles;
  expect(names: readonly string[]): void;
} {
  const loaded: string[] = [];
  const expect = (names: readonly string[]): void => {
    const absent = names.find((name) => !loaded.includes(name));
    if (absent !== undefined) throw missing(absent);
  };
  const files: FoundFiles = {
    find: (name) => (name in needs ? `/cuda/${name}` : undefined),
    open: (path) => {
      if (!path.startsWith("/cuda/")) throw missing(path);
      const name = path.slice("/cuda/".length);
      expect(needs[name] ?? []);
      loaded.push(name);
    },
  };
  return { loaded, files, expect };
}

for (const [message, name] of [
  ["libcurand.so.10: cannot open shared object file: No such file or directory", "libcurand.so.10"],
  ["Failed to load library /x/libp.so with error: libcublas.so.13: cannot open shared object file", "libcublas.so.13"],
  ["/x/libonnxruntime_providers_shared.so: cannot open shared object file", undefined],
  ["no CUDA-capable device is detected", undefined],
] as const) {
  test(`missingLibrary() reads ${name ?? "nothing"} out of "${message}"`, () => {
    assert.equal(missingLibrary(new Error(message)), name);
  });
}

test("withFoundLibraries() loads what is missing, and before it what that needs", () => {
  const { loaded, files, expect } = linker({ "libcublasLt.so.13": [], "libcublas.so.13": ["libcublasLt.so.13"] });
  withFoundLibraries(() => expect(["libcublas.so.13", "libcublasLt.so.13"]), files);
  assert.deepEqual(loaded, ["libcublasLt.so.13", "libcublas.so.13"]);
});

test("withFoundLibraries() throws what the linker said when a library is nowhere", () => {
  const { files, expect } = linker({ "libcublas.so.13": [] });
  assert.throws(
    () => withFoundLibraries(() => expect(["libcublas.so.13", "libcurand.so.10"]), files),
    /libcurand\.so\.10/,
  );
});

test("withFoundLibraries() ends when libraries need each other, or one stays missing though it was loaded", () => {
  const around = linker({ "liba.so.1": ["libb.so.1"], "libb.so.1": ["liba.so.1"] });
  assert.throws(() => withFoundLibraries(() => around.expect(["liba.so.1"]), around.files), /lib[ab]\.so\.1/);
  const always = linker({ "liba.so.1": [] });
  const attempt = (): void => {
    throw missing("liba.so.1");
  };
  assert.throws(() => withFoundLibraries(attempt, always.files), /liba\.so\.1/);
  assert.deepEqual(always.loaded, ["liba.so.1"]);
});

test("loadCudnn() loads the parts that are found and the whole last, and does without", () => {
  const { loaded, files } = linker({
    "libcudnn.so.9": [],
    "libcudnn_ops.so.9": ["libcublas.so.13"],
    "libcublas.so.13": [],
  });
  loadCudnn(files);
  assert.deepEqual(loaded, ["libcublas.so.13", "libcudnn_ops.so.9", "libcudnn.so.9"]);
  const none = linker({});
  loadCudnn(none.files);
  assert.deepEqual(none.loaded, []);
});

test("loadCudnn() leaves cuDNN to the linker that finds it", () => {
  const opened: string[] = [];
  loadCudnn({ find: (name) => `/cuda/${name}`, open: (path) => opened.push(path) });
  assert.deepEqual(opened, ["libcudnn.so.9"]);
});
