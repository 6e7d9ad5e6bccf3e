import assert from "node:assert/strict";
import { test } from "node:test";
import { type ModelName, parseModelName } from "./model-name.ts";

const CONTEXT = { endpoint: "https://mirror.test", exists: (path: string) => path === "models/tiny" };
const hub = (id: string, quantization?: string, revision?: string): ModelName => ({
  kind: "hub",
  id,
  revision,
  quantization,
});
const registry = (model: string, tag: string, namespace = "library", host?: string): ModelName => ({
  kind: "registry",
  host,
  namespace,
  model,
  tag,
});
const path = (text: string): ModelName => ({ kind: "path", path: text });

const NAMES: readonly (readonly [text: string, expected: ModelName])[] = [
  ["models/tiny", path("models/tiny")],
  ["./models", path("./models")],
  ["/srv/model", path("/srv/model")],
  ["~/model", path("~/model")],
  ["..", path("..")],
  ["tiny.gguf", path("tiny.gguf")],
  ["a/b/c", path("a/b/c")],
  ["org/model", hub("org/model")],
  ["org/model@v1", hub("org/model", undefined, "v1")],
  ["org/model:Q4_K_M", hub("org/model", "Q4_K_M")],
  ["hf.co/org/model:Q4_K_M", hub("org/model", "Q4_K_M")],
  ["hf://org/model@main:q8_0", hub("org/model", "q8_0", "main")],
  ["https://huggingface.co/org/model", hub("org/model")],
  ["https://huggingface.co/org/model/blob/main/sub/m-Q4_0.gguf", hub("org/model", "sub/m-Q4_0.gguf", "main")],
  ["https://mirror.test/org/model/resolve/v2/m.gguf?download=true", hub("org/model", "m.gguf", "v2")],
  ["https://files.test/m.gguf?key=1", { kind: "url", url: new URL("https://files.test/m.gguf?key=1") }],
  ["llama3.2", registry("llama3.2", "latest")],
  ["llama3.2:3b", registry("llama3.2", "3b")],
  ["ollama:someone/llama:8b", registry("llama", "8b", "someone")],
  ["ollama.com/library/qwen3:4b", registry("qwen3", "4b")],
  ["ollama://localhost:5000/library/tiny:q4", registry("tiny", "q4", "library", "localhost:5000")],
];

for (const [text, expected] of NAMES) {
  test(`parseModelName() reads ${text} as a ${expected.kind}`, () => {
    assert.deepEqual(parseModelName(text, CONTEXT), expected);
  });
}

for (const [text, reason] of [
  ["", /it is empty/],
  ["https://files.test/page", /ends in \.gguf/],
  ["s3://bucket/model", /--model-repository takes object stores/],
  ["hf.co/model", /organisation\/model/],
  ["org/mo--del", /organisation\/model/],
  ["org/model:", /organisation\/model/],
  ["org/model@../x", /no revision/],
  ["a b", /llama3\.2:3b/],
] as const) {
  test(`parseModelName() refuses '${text}'`, () => {
    assert.throws(() => parseModelName(text, CONTEXT), reason);
  });
}
