import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "@nereid/server/cli/cli.test-support";

const TINY = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model", import.meta.url));

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "summarize-"));
});
after(() => rm(folder, { recursive: true }));

async function dataset(name: string, lines: readonly unknown[]): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""));
  return path;
}

test("nereid summarize scores summaries, and fails below the threshold when asked to", async () => {
  const file = await dataset("texts.jsonl", [
    { article: "Once upon a time there was a robot in a library.", highlights: "A robot and the boy." },
    { text: "The sun is a star.", summary: "The star is the sun, and it is bright." },
    { article: "Never read.", highlights: "Never." },
  ]);
  const flags = ["--test_trt_llm", "--engine_dir", TINY, "--dataset", file, "--output_len", "24", "--max_ite", "1"];
  const { code, stdout, stderr } = await runCli(["summarize", ...flags, "--batch_size", "2", "--json"]);
  assert.equal(code, 0, stderr);
  const done = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as {
    numTexts: number;
    numTokens: number;
    scores: Record<string, number>;
  };
  assert.equal(done.numTexts, 2);
  assert.ok(done.numTokens > 0 && done.numTokens <= 48);
  assert.deepEqual(Object.keys(done.scores), ["rouge1", "rouge2", "rougeL", "rougeLsum"]);
  assert.ok((done.scores.rouge1 ?? 0) > 0 && (done.scores.rouge1 ?? 0) < 100);
  const strict = ["--check_accuracy", "--tensorrt_llm_rouge1_threshold", "99"];
  const checked = await runCli(["summarize", ...flags, ...strict]);
  assert.equal(checked.code, 1);
  assert.match(checked.stdout, /Engine beam 0 result\n {2}rouge1 : \d/);
  assert.match(checked.stderr, /rouge1 is \d+\.\d+, expected at least 99/);
});

test("nereid summarize names the line that it cannot read", async () => {
  const cases = [
    [["{"], /texts\.jsonl:1: Expected a JSON object on each line/],
    [[{ article: "a", highlights: "b" }, { article: "a" }], /texts\.jsonl:2: Expected a field named highlights/],
  ] as const;
  for (const [lines, expected] of cases) {
    const file = await dataset("texts.jsonl", lines);
    const { code, stderr } = await runCli(["summarize", "--engine_dir", TINY, "--dataset", file]);
    assert.equal(code, 1);
    assert.match(stderr, expected);
  }
});
