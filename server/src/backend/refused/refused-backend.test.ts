import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeSource } from "../../../../tests/fakes/run-instance.ts";
import { refusedBackend } from "./refused-backend.ts";

for (const [config, message] of [
  [
    'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel"',
    /'m': the backend 'tensorflow' is not served here; .*tf2onnx\.convert --saved-model \/r\/m\/1\/model\.savedmodel --output \/r\/m\/1\/model\.onnx/,
  ],
  [
    `name: "m" backend: "tensorflow" platform: "tensorflow_graphdef" input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }
     output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }`,
    /--graphdef \/r\/m\/1\/model\.graphdef --inputs X:0 --outputs Y:0 --output/,
  ],
  ['name: "m" backend: "dali"', /the backend 'dali' is not served here; .*preprocessor_config\.json/],
] as const) {
  test(`refusedBackend() names the way out for ${config.slice(10, 40)}`, async () => {
    const source = fakeSource(config, "/r/m");
    const backend = refusedBackend(source.config.backend);
    assert.ok(backend);
    await assert.rejects(backend.load(source), message);
    await assert.rejects(async () => backend.describe?.(source), message);
  });
}

test("refusedBackend() knows no other names", () => {
  assert.equal(refusedBackend("tensorrt"), undefined);
});
