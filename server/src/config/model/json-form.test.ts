import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJsonMessage } from "./json-form.ts";

function plain(json: string): unknown {
  return JSON.parse(JSON.stringify(parseJsonMessage(json, "ModelConfig")));
}

const MAX = "18446744073709551615";

for (const [what, json, expected] of [
  ["names as in the file", '{"max_batch_size":2}', { max_batch_size: 2 }],
  ["names in camelCase", '{"maxBatchSize":2}', { max_batch_size: 2 }],
  ["null as not written", '{"name":null,"backend":"x"}', { backend: "x" }],
  ["64-bit integers as text", '{"input":[{"dims":["-1",3]}]}', { input: [{ dims: [-1, 3] }] }],
  ["enumerations in any case", '{"input":[{"data_type":"type_fp32"}]}', { input: [{ data_type: "TYPE_FP32" }] }],
  ["enumerations by number", '{"input":[{"data_type":13}]}', { input: [{ data_type: "TYPE_STRING" }] }],
  ["maps", '{"parameters":{"a":{"string_value":"b"}}}', { parameters: { a: { string_value: "b" } } }],
  [
    "maps with integer keys",
    '{"dynamic_batching":{"priority_queue_policy":{"3":{}}}}',
    { dynamic_batching: { priority_queue_policy: { 3: {} } } },
  ],
  [
    "floats as text",
    '{"sequence_batching":{"direct":{"minimum_slot_utilization":"0.5"}}}',
    { sequence_batching: { direct: { minimum_slot_utilization: 0.5 } } },
  ],
  [
    "one object or value in place of a list",
    '{"instance_group":{"count":2,"kind":"KIND_CPU","gpus":3},"input":[{"dims":4}],"output":null}',
    { instance_group: [{ count: 2, kind: "KIND_CPU", gpus: [3] }], input: [{ dims: [4] }] },
  ],
  [
    "the largest numbers of 64 bits, as a number, a text and a key",
    `{"dynamic_batching":{"priority_levels":${MAX},"default_priority_level":"${MAX}","priority_queue_policy":{"${MAX}":{}}}}`,
    {
      dynamic_batching: {
        priority_levels: 2 ** 64,
        default_priority_level: 2 ** 64,
        priority_queue_policy: { [MAX]: {} },
      },
    },
  ],
] as const) {
  test(`parseJsonMessage() reads ${what}`, () => {
    assert.deepEqual(plain(json), expected);
  });
}

for (const [json, expected] of [
  ["{", "Invalid config override: not valid JSON"],
  ["[]", "the configuration expects an object, got []"],
  ['{"max_batch_sise":2}', "the model configuration has no field 'max_batch_sise'; did you mean 'max_batch_size'?"],
  ['{"input":[{"nam":"x"}]}', "'input[0]' has no field 'nam'; did you mean 'name'?"],
  ['{"input":3}', "'input[0]' expects an object, got 3"],
  [
    '{"dynamic_batching":{"priority_levels":18446744073709555712}}',
    "takes uint64 values from 0 to 18446744073709551615",
  ],
  ['{"dynamic_batching":{"priority_levels":-1}}', "takes uint64 values from"],
  ['{"dynamic_batching":{"priority_levels":"18446744073709551616"}}', "takes uint64 values from"],
  ['{"name":3}', "'name' expects a quoted text, got 3"],
  ['{"max_batch_size":1.5}', "'max_batch_size' expects an integer, got 1.5"],
  ['{"max_batch_size":3000000000}', "'max_batch_size' takes int32 values from"],
  ['{"input":[{"dims":[1e300]}]}', "'input[0].dims[0]' takes int64 values from"],
  ['{"input":[{"optional":1}]}', "'input[0].optional' expects true or false, got 1"],
  ['{"input":[{"data_type":"TYPE_BYTES"}]}', "did you mean TYPE_STRING?"],
  ['{"dynamic_batching":{},"sequence_batching":{}}', "cannot be written beside 'dynamic_batching'"],
  ['{"maxBatchSize":1,"max_batch_size":2}', "'max_batch_size' is written twice"],
  ['{"dynamic_batching":{"priority_queue_policy":{"x":{}}}}', "key' expects a non-negative integer"],
  ['{"version_policy":5}', "'version_policy' expects an object, got 5"],
] as const) {
  test(`parseJsonMessage() refuses ${json}`, () => {
    assert.throws(
      () => plain(json),
      (error: Error & { code?: string }) =>
        error.code === "invalid_argument" &&
        error.message.startsWith("Invalid config override: ") &&
        error.message.includes(expected),
    );
  });
}

test("parseJsonMessage() keeps __proto__ as a plain map key", () => {
  const message = parseJsonMessage('{"metric_tags":{"__proto__":"a"}}', "ModelConfig");
  assert.equal(JSON.stringify(message), '{"metric_tags":{"__proto__":"a"}}');
});
