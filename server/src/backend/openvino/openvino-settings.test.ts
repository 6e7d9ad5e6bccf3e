import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { plannedShapes } from "./model-shapes.ts";
import { parseOpenvinoSettings } from "./openvino-settings.ts";

function configWith(parameters: Readonly<Record<string, string>>, rest = ""): ReturnType<typeof parseModelConfigText> {
  const listed = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  return parseModelConfigText(`name: "m" backend: "openvino" ${listed.join(" ")} ${rest}`, "config.pbtxt");
}

test("parseOpenvinoSettings() gives properties by OpenVINO's names", () => {
  const given = { NUM_STREAMS: "auto", HINT_BF16: "yes", PERFORMANCE_HINT: "latency", TARGET_DEVICE: "cpu", team: "a" };
  const { properties, device, note } = parseOpenvinoSettings(configWith(given));
  assert.deepEqual(Object.fromEntries(properties), {
    NUM_STREAMS: "AUTO",
    INFERENCE_PRECISION_HINT: "bf16",
    PERFORMANCE_HINT: "LATENCY",
  });
  assert.deepEqual([device, note], ["CPU", "model 'm': parameters without effect on this engine: team"]);
});

test("parseOpenvinoSettings() has a stream for each instance", () => {
  const group = "instance_group { count: 3 kind: KIND_CPU }";
  assert.equal(parseOpenvinoSettings(configWith({}, group)).properties.get("NUM_STREAMS"), "3");
  assert.equal(
    parseOpenvinoSettings(configWith({ PERFORMANCE_HINT: "latency" }, group)).properties.has("NUM_STREAMS"),
    false,
  );
});

test("plannedShapes() frees the first dimension, and takes the others from the configuration where asked", () => {
  const config = configWith({}, 'max_batch_size: 4 input { name: "X" data_type: TYPE_FP32 dims: [ 3, -1 ] }');
  const ports = [{ name: "X", datatype: "FP32", typeName: "f32", dims: [1, 3, 224] }] as const;
  const planned = (keepsBatchSize: boolean, reshapes: boolean): unknown =>
    plannedShapes(config, { keepsBatchSize, reshapes }, ports).get("X");
  assert.deepEqual(planned(false, false), [-1, 3, 224]);
  assert.deepEqual(planned(false, true), [-1, 3, -1]);
  assert.deepEqual(planned(true, true), [1, 3, -1]);
  assert.equal(planned(true, false), undefined);
});
