import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { LOADER_FLAGS, SOURCE_LOADER } from "../../../tests/support/source-loader.ts";
import {
  addressOf,
  copyFromMemory,
  cString,
  functionAt,
  openLibrary,
  readCString,
  structType,
  viewMemory,
} from "./ffi.ts";

const libc = openLibrary("libc.so.6");

test("openLibrary() tells why a library cannot be loaded", () => {
  assert.throws(() => openLibrary("/nowhere/libnothing.so"), /No such file/);
});

test("func() calls a C function and names the missing one", () => {
  const labs = libc.func<[number], number>("labs", "long", ["long"]);
  assert.equal(labs(-42), 42);
  assert.throws(() => libc.func("no_such_function", "int", []), /no_such_function/);
});

test("has() tells exported symbols from others", () => {
  assert.equal(libc.has("memcpy"), true);
  assert.equal(libc.has("no_such_function"), false);
});

test("functionAt() calls through an address", () => {
  const abs = functionAt<[number], number>(libc.symbol("abs"), "int", ["int"]);
  assert.equal(abs(-7), 7);
});

test("functionAt() goes on working after its library's handle has been collected", async () => {
  const program = `
    import { functionAt, openLibrary } from ${JSON.stringify(new URL("./ffi.ts", import.meta.url).href)};
    import { findLibrary } from ${JSON.stringify(new URL("./library.ts", import.meta.url).href)};
    import { onnxRuntimeLibrary } from ${JSON.stringify(new URL("./onnxruntime/onnxruntime.ts", import.meta.url).href)};
    const path = findLibrary(onnxRuntimeLibrary(process.platform, process.arch));
    const base = functionAt(openLibrary(path).symbol("OrtGetApiBase"), "void*", []);
    const before = base();
    for (let round = 0; round < 5; round++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    process.stdout.write(String(before === base()));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--expose-gc",
    "--conditions=nereid-source",
    ...LOADER_FLAGS,
    "--input-type=module",
    `--eval=${program}`,
  ]);
  assert.equal(stdout, "true");
});

test("structType() passes and returns structures by value", () => {
  const pair = structType("ffi_test_ldiv", { quot: "long", rem: "long" });
  const ldiv = libc.func<[number, number], { quot: number; rem: number }>("ldiv", pair, ["long", "long"]);
  assert.deepEqual({ ...ldiv(17, 5) }, { quot: 3, rem: 2 });
});

test("async() runs on another thread while the event loop goes on", async () => {
  const usleep = libc.func<[number], number>("usleep", "int", ["uint32"]);
  let ticks = 0;
  const timer = setInterval(() => {
    ticks++;
  }, 5);
  const result = await new Promise((resolve, reject) => {
    usleep.async(80_000, (error, value) => (error === null ? resolve(value) : reject(error)));
  });
  clearInterval(timer);
  assert.equal(result, 0);
  assert.ok(ticks > 0);
});

test("the settings can be applied again in a worker thread", async () => {
  const worker = new Worker(
    `import(${JSON.stringify(SOURCE_LOADER)}).then(async () => {
      const { openLibrary } = await import(${JSON.stringify(new URL("./ffi.ts", import.meta.url).href)});
      const abs = openLibrary("libc.so.6").func("abs", "int", ["int"]);
      require("node:worker_threads").parentPort.postMessage(abs(-3));
    });`,
    { eval: true },
  );
  const answer = await new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
  await worker.terminate();
  assert.equal(answer, 3);
});

test("addressOf() and viewMemory() see the same bytes, also of small arrays and of slices", () => {
  for (const length of [1, 16, 64, 65, 4096]) {
    const whole = new Uint8Array(length + 3).fill(7);
    const slice = whole.subarray(3);
    const view = viewMemory(addressOf(slice), length);
    slice[length - 1] = 200;
    assert.equal(view[length - 1], 200);
    assert.equal(addressOf(slice) - addressOf(whole), 3n);
  }
});

test("copyFromMemory() copies exactly the target's length", () => {
  const source = Uint8Array.of(1, 2, 3, 4, 5);
  const target = new Uint8Array(4);
  copyFromMemory(target.subarray(1, 3), addressOf(source));
  assert.deepEqual([...target], [0, 1, 2, 0]);
  copyFromMemory(target.subarray(4), 0n);
  assert.deepEqual([...target], [0, 1, 2, 0]);
});

test("cString() and readCString() carry multibyte text", () => {
  const bytes = cString("zażółć 😀");
  assert.equal(bytes.at(-1), 0);
  assert.equal(readCString(addressOf(bytes)), "zażółć 😀");
});
