import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigJson, parseModelConfigText } from "./model-config.ts";

test("parseModelConfigJson() and parseModelConfigText() read the same configuration", () => {
  const text = 'backend: "onnxruntime" max_batch_size: 2 input { name: "X" data_type: TYPE_INT32 dims: 4 }';
  const json =
    '{"backend":"onnxruntime","max_batch_size":2,"input":[{"name":"X","data_type":"TYPE_INT32","dims":[4]}]}';
  assert.equal(JSON.stringify(parseModelConfigJson(json)), JSON.stringify(parseModelConfigText(text, "f")));
});

test("parseModelConfigText() reads the style of published LLM repositories", () => {
  const config = parseModelConfigText(
    `# Redistribution and use
name: "ensemble"
platform: "ensemble"
max_batch_size: 8
input [
  {
    name: "text_input"
\tdata_type: TYPE_STRING
    dims: [ 1 ]
  },
  {
    name: "end_id"
    data_type: TYPE_INT32
    dims: [ 1 ]
    reshape: { shape: [ ] }
    optional: true
  }
  {
    name: "stop_words" data_type: TYPE_STRING dims: [ -1 ]
    allow_ragged_batch: true optional: true },
]
output [
  { name: "kv_cache_alloc_total_blocks" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "kv_cache_alloc_total_blocks" data_type: TYPE_INT32 dims: [ 1 ] }
]
instance_group [
  {
    count: 1
    kind : KIND_CPU
  }
]
parameters: {
  key: "gpt_model_path"
  value: {
    string_value: "\${engine_dir}"
  }
}
ensemble_scheduling {
  step [
    {
      model_name: "preprocessing"
      model_version: -1
      input_map {
        key: "QUERY"
        value: "text_input"
      },
      output_map {
        key: "INPUT_ID"
        value: "_INPUT_ID"
      }
    }
  ]
}
`,
    "config.pbtxt",
  );
  assert.deepEqual(
    config.input.map(({ name }) => name),
    ["text_input", "end_id", "stop_words"],
  );
  assert.deepEqual([config.input[1]?.reshape?.shape, config.output.length], [[], 2]);
  assert.equal(config.instance_group[0]?.kind, "KIND_CPU");
  assert.equal(config.parameters.gpt_model_path?.string_value, `\${engine_dir}`);
  assert.equal(config.ensemble_scheduling?.step[0]?.input_map.QUERY, "text_input");
});

test("parseModelConfigText() answers damaged files with a place and a reason, never otherwise", () => {
  const text =
    'name: "m" backend: "python" max_batch_size: 4 input [ { name: "X" data_type: TYPE_FP32 dims: [ 2, -1 ] } ] parameters { key: "a" value { string_value: "b\\\\n" } } dynamic_batching { priority_queue_policy { key: 3 value { } } }';
  const noise = `{}[]<>:,;"'\\\\$#-.0x9eE \n\u0000é`;
  let state = 1;
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
  let refused = 0;
  for (let round = 0; round < 3000; round++) {
    const at = random(text.length);
    const damaged = text.slice(0, at) + (noise[random(noise.length)] ?? "") + text.slice(at + random(3));
    try {
      parseModelConfigText(damaged, "f");
    } catch (error) {
      assert.match((error as Error).message, /^f:\d+:\d+: ./);
      refused++;
    }
  }
  assert.ok(refused > 1000, `${refused} of 3000 refused`);
});
