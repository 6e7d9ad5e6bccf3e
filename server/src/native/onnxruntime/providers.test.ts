import assert from "node:assert/strict";
import { test } from "node:test";
import { explainMissing } from "./providers.ts";
import { OnnxRuntimeError } from "./status.ts";

test("explainMissing() says what to do about a library that the linker does not find", () => {
  const message =
    "Failed to load library /x/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open shared object file: No such file or directory\n";
  const explained = explainMissing(new OnnxRuntimeError(1, message));
  assert.ok(explained instanceof OnnxRuntimeError);
  const advice = explained.message.slice(message.trim().length);
  assert.ok(explained.message.startsWith(message.trim()));
  assert.match(advice, /^: libcublasLt\.so\.13 is neither .*NEREID_CUDA_LIBRARIES/);
  assert.equal(explained.code, 1);
});

for (const error of [new OnnxRuntimeError(2, "no CUDA-capable device is detected"), new TypeError("x"), undefined]) {
  test(`explainMissing() passes on ${error?.message ?? "nothing"}`, () => {
    assert.equal(explainMissing(error), error);
  });
}
