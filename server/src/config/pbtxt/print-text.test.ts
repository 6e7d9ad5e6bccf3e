import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { printTextMessage } from "./print-text.ts";
import { parseTextMessage } from "./text-format.ts";

const GOLDEN = fileURLToPath(new URL("../../../../tests/golden/repository/main", import.meta.url));

test("printTextMessage() writes fields in the order of the schema", () => {
  const text = `instance_group [ { count: 2 kind: KIND_CPU } ] dynamic_batching { } max_batch_size: 8 name: "a\\"b\\n"
    input [ { dims: [ 2, -1 ] data_type: TYPE_FP32 name: "x" } ] parameters { key: "k" value { string_value: "v" } }
    dynamic_batching { priority_queue_policy { key: 3 value { max_queue_size: 1 } } }`.replace(
    "dynamic_batching { } ",
    "",
  );
  const expected = `name: "a\\"b\\n"
max_batch_size: 8
input {
  name: "x"
  data_type: TYPE_FP32
  dims: [ 2, -1 ]
}
dynamic_batching {
  priority_queue_policy {
    key: 3
    value {
      max_queue_size: 1
    }
  }
}
instance_group {
  kind: KIND_CPU
  count: 2
}
parameters {
  key: "k"
  value {
    string_value: "v"
  }
}
`;
  assert.equal(printTextMessage(parseTextMessage(text, "config.pbtxt", "ModelConfig"), "ModelConfig"), expected);
});

test("printTextMessage() writes every configuration of the golden repository so that it reads the same", () => {
  const files = readdirSync(GOLDEN, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".pbtxt"));
  assert.ok(files.length > 10);
  for (const file of files) {
    const read = parseTextMessage(readFileSync(join(GOLDEN, file), "utf8"), file, "ModelConfig");
    assert.deepEqual(parseTextMessage(printTextMessage(read, "ModelConfig"), file, "ModelConfig"), read);
  }
});

test("printTextMessage() keeps control characters, infinities and keys that objects inherit", () => {
  const text = String.raw`name: "\001\177\303\251" metric_tags { key: "__proto__" value: "x" }
    model_metrics { metric_control { histogram_options { buckets: [ inf, -inf, 0.1 ] } } }`;
  const read = parseTextMessage(text, "config.pbtxt", "ModelConfig");
  assert.deepEqual(parseTextMessage(printTextMessage(read, "ModelConfig"), "again", "ModelConfig"), read);
});
