import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { syntheticRequests, type TextRequestOptions, tracedRequests } from "./text-requests.ts";
import { tokenCounter, WORD_COUNTER } from "./text-source.ts";
import { readTrace } from "./trace.ts";

const TOKENIZER = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-traces-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const OPTIONS: TextRequestOptions = {
  model: "m",
  mix: [],
  input: { kind: "normal", mean: 100, spread: 20 },
  output: { kind: "uniform", mean: 50, spread: 10 },
  sharedPrefixTokens: 0,
  images: [],
  seed: 3,
};

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

test("syntheticRequests() draws lengths of the distribution, equal for equal seeds", () => {
  const requests = syntheticRequests(500, OPTIONS, WORD_COUNTER);
  const mean = requests.reduce((sum, { inputTokens }) => sum + inputTokens, 0) / requests.length;
  assert.ok(Math.abs(mean - 100) < 4, `${mean}`);
  assert.ok(requests.every(({ outputTokens = 0 }) => outputTokens >= 40 && outputTokens <= 60));
  assert.deepEqual(syntheticRequests(500, OPTIONS, WORD_COUNTER), requests);
});

test("syntheticRequests() mixes models by weight, and shares a prefix", () => {
  const mix = [
    { value: "a", weight: 3 },
    { value: "b", weight: 1 },
  ];
  const requests = syntheticRequests(400, { ...OPTIONS, mix, sharedPrefixTokens: 30 }, WORD_COUNTER);
  const share = requests.filter(({ model }) => model === "a").length / requests.length;
  assert.ok(Math.abs(share - 0.75) < 0.08, `${share}`);
  const prefixes = new Set(requests.map(({ prompt }) => WORD_COUNTER.cut(prompt, 30)));
  assert.equal(prefixes.size, 1);
});

test("syntheticRequests() makes prompts of about the length that a tokenizer counts", async () => {
  const counter = await tokenCounter(TOKENIZER);
  const requests = syntheticRequests(20, { ...OPTIONS, input: { kind: "normal", mean: 64, spread: 0 } }, counter);
  for (const { inputTokens } of requests) assert.ok(Math.abs(inputTokens - 64) <= 2, `${inputTokens}`);
});

test("tracedRequests() repeats the blocks of Mooncake's traces", () => {
  const path = file(
    "mooncake.jsonl",
    '{"timestamp":0,"input_length":1100,"output_length":9,"hash_ids":[4,5,6]}\n\n{"timestamp":27,"input_length":520,"output_length":3,"hash_ids":[4,7]}\n',
  );
  const entries = readTrace(path);
  assert.deepEqual(
    entries.map(({ atMs }) => atMs),
    [0, 27],
  );
  const [first, second] = tracedRequests(entries, OPTIONS, WORD_COUNTER);
  assert.deepEqual([first?.inputTokens, first?.outputTokens, second?.inputTokens], [1100, 9, 520]);
  const block = (prompt = ""): string => WORD_COUNTER.cut(prompt, 512);
  assert.equal(block(first?.prompt), block(second?.prompt));
  assert.notEqual(first?.prompt, second?.prompt);
});

test("readTrace() reads prompts, chats and ShareGPT's conversations", () => {
  const lines = file(
    "lines.jsonl",
    '{"text_input":"a","max_tokens":3}\n{"messages":[{"role":"user","content":"b"}]}\n',
  );
  assert.deepEqual(
    readTrace(lines).map(({ prompt, outputTokens }) => [prompt, outputTokens]),
    [
      ["a", 3],
      ["b", undefined],
    ],
  );
  const shared = file("share.json", '[{"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"yes"}]}]');
  assert.deepEqual(
    readTrace(shared).map(({ prompt }) => prompt),
    ["hi"],
  );
});

test("readTrace() names the line that is wrong", () => {
  const path = file("wrong.jsonl", '{"prompt":"a"}\n{"x":1}\n');
  assert.throws(() => readTrace(path), { message: /expected a line with input_length/, at: { file: path, line: 2 } });
  assert.throws(() => readTrace(join(folder, "none")), { message: /it does not exist/ });
});
