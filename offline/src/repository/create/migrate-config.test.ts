import assert from "node:assert/strict";
import { test } from "node:test";
import { migratedConfig } from "./migrate-config.ts";

const VALUES = new Map([
  ["engine_dir", "/models/tiny"],
  ["tokenizer_dir", "/models/tokenizer"],
  ["triton_max_batch_size", "4"],
]);

const engine = (path: string): string => `name: "tensorrt_llm"
backend: "\${triton_backend}"
max_batch_size: \${triton_max_batch_size}
parameters: {
  key: "gpt_model_path"
  value: {
    string_value: "${path}"
  }
}
parameters: { key: "batch_scheduler_policy" value: { string_value: "max_utilization" } }
`;

for (const [title, path] of [
  ["a template", `\${engine_dir}`],
  ["a filled repository", '/engines/of \\"A100\\"'],
] as const) {
  test(`migratedConfig() gives the engine of ${title} the new model, and keeps its settings`, () => {
    const text = migratedConfig(engine(path), VALUES);
    assert.match(text, /key: "gpt_model_path"\n {2}value: \{\n {4}string_value: "\/models\/tiny"\n/);
    assert.match(text, /^backend: "tensorrtllm"\nmax_batch_size: 4$/m);
    assert.match(text, /key: "batch_scheduler_policy" value: \{ string_value: "max_utilization" \}/);
  });
}

test("migratedConfig() replaces the Python models of a pipeline, and no others", () => {
  const of = (content: string): string | undefined =>
    /^backend: "(\w+)"/m.exec(migratedConfig(`backend: "python"\n${content}`, VALUES))?.[1];
  assert.equal(of('input [ { name: "QUERY" } ]'), "tokenizer");
  const path = 'parameters: { key: "gpt_model_path" value: { string_value: "/e" } }';
  assert.equal(of(`input [ { name: "QUERY" } ]\n${path}`), "tokenizer");
  assert.equal(of('input [ { name: "TOKENS_BATCH" } ]'), "tokenizer");
  assert.equal(of('parameters: { key: "accumulate_tokens" value: { string_value: "true" } }'), "bls");
  assert.equal(of('input [ { name: "image" } ]'), "python");
});

test("migratedConfig() sets the tokenizer's folder where there is one, and leaves ensembles alone", () => {
  const post =
    'input [ { name: "TOKENS_BATCH" } ]\nparameters { key: "tokenizer_dir", value: { string_value: "/old" } }';
  assert.match(migratedConfig(post, VALUES), /value: \{ string_value: "\/models\/tokenizer" \}/);
  const ensemble =
    'platform: "ensemble"\nensemble_scheduling { step [ { input_map { key: "QUERY" value: "text_input" } } ] }\n';
  assert.equal(migratedConfig(ensemble, VALUES), ensemble);
});
