// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of templates are what is tested
import assert from "node:assert/strict";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { runCli } from "@nereid/server/cli/cli.test-support";

const TEMPLATE = 'max_batch_size: ${triton_max_batch_size}\nx: "${engine_dir}"\n';
let root = "";
let file = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-fill-"));
  mkdirSync(join(root, "tensorrt_llm"));
  file = join(root, "tensorrt_llm", "config.pbtxt");
  writeFileSync(file, TEMPLATE);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("nereid fill-template prints the filled text as the stock script does and leaves the file alone", async () => {
  const run = await runCli(["fill-template", file, "triton_max_batch_size:4"]);
  assert.deepEqual([run.code, run.stdout], [0, 'max_batch_size: 4\nx: "${engine_dir}"\n\n']);
  assert.match(run.stderr, /unfilled, so their defaults hold: engine_dir \(line 2\)/);
  assert.equal(readFileSync(file, "utf8"), TEMPLATE);
});

test("nereid fill-template -i writes in place, and a second run leaves the file and its date alone", async () => {
  const line = "triton_max_batch_size:4,engine_dir:s3://models/e,0";
  const first = await runCli(["fill-template", "-i", file, line]);
  assert.deepEqual([first.code, first.stdout, first.stderr], [0, "", ""]);
  const filled = 'max_batch_size: 4\nx: "s3://models/e,0"\n';
  assert.equal(readFileSync(file, "utf8"), filled);
  utimesSync(file, 1000, 1000);
  const second = await runCli(["fill-template", "-i", file, line]);
  assert.deepEqual([second.code, second.stderr], [0, ""]);
  assert.equal(readFileSync(file, "utf8"), filled);
  assert.equal(statSync(file).mtimeMs, 1_000_000);
  assert.deepEqual(readdirSync(join(root, "tensorrt_llm")), ["config.pbtxt"]);
});

test("nereid fill-template -o writes another file, with line ends as Python writes them", async () => {
  writeFileSync(file, "a: ${a}\r\nb: ${b}\r\n");
  const output = join(root, "out.pbtxt");
  assert.equal((await runCli(["fill-template", file, "-o", output, "a:1,b:2"])).code, 0);
  assert.equal(readFileSync(output, "utf8"), "a: 1\nb: 2\n");
});

test("nereid fill-template warns of unknown keys and fills the rest; --strict writes nothing", async () => {
  const strict = await runCli(["fill-template", "-i", "--strict", file, "triton_max_batch_size:4,engin_dir:/e"]);
  assert.equal(strict.code, 1);
  assert.match(strict.stderr, /there is no placeholder 'engin_dir'; did you mean 'engine_dir'\?/);
  assert.equal(readFileSync(file, "utf8"), TEMPLATE);
  const left = await runCli(["fill-template", "-i", "--strict", file, "triton_max_batch_size:4"]);
  assert.equal(left.code, 1);
  assert.match(left.stderr, /config\.pbtxt:2: 1 placeholders stay unfilled: engine_dir/);
  const lenient = await runCli(["fill-template", "-i", file, "triton_max_batch_size:4,engin_dir:/e"]);
  assert.equal(lenient.code, 0);
  assert.match(lenient.stderr, /Warning: there is no placeholder 'engin_dir'/);
  assert.match(readFileSync(file, "utf8"), /^max_batch_size: 4\n/);
});

test("nereid fill-template fills a whole repository and lists its placeholders", async () => {
  mkdirSync(join(root, "preprocessing"));
  writeFileSync(
    join(root, "preprocessing", "config.pbtxt"),
    'max_batch_size: ${triton_max_batch_size}\ny: "${tokenizer_dir}"\n',
  );
  const list = await runCli(["fill-template", "--list", root]);
  assert.match(
    list.stdout,
    /preprocessing\/config\.pbtxt\n {2}triton_max_batch_size +line 1 +unfilled: 64\n {2}tokenizer_dir +line 2 +unfilled: not set\n/,
  );
  const line = "triton_max_batch_size:4,engine_dir:/e,tokenizer_dir:/t";
  const run = await runCli(["fill-template", "-i", "--strict", root, line]);
  assert.deepEqual([run.code, run.stderr], [0, ""]);
  assert.equal(readFileSync(file, "utf8"), 'max_batch_size: 4\nx: "/e"\n');
});

test("nereid fill-template --json tells machines what was filled, unfilled and unknown", async () => {
  const run = await runCli(["fill-template", "-i", "--json", file, "triton_max_batch_size:4,typo:1"]);
  const events = run.stdout
    .trim()
    .split("\n")
    .map((line): Record<string, unknown> => JSON.parse(line));
  assert.deepEqual(events.at(-1), {
    event: "done",
    command: "fill-template",
    files: [{ file, filled: ["triton_max_batch_size"], unfilled: [{ name: "engine_dir", line: 2 }] }],
    unknown: ["typo"],
  });
});

for (const [title, argv, code, expected] of [
  ["a file that is not there", ["no/such.pbtxt", "a:1"], 1, /Cannot read no\/such\.pbtxt: it does not exist/],
  ["no values", ["FILE"], 2, /<key:value,key:value> is missing/],
  ["-i together with -o", ["FILE", "-i", "-o", "x", "a:1"], 2, /exclude each other/],
  ["a text that is no entry", ["FILE", "abc"], 1, /'abc' is no entry: expected key:value/],
] as const) {
  test(`nereid fill-template refuses ${title}`, async () => {
    const run = await runCli(["fill-template", ...argv.map((each) => (each === "FILE" ? file : each))]);
    assert.equal(run.code, code);
    assert.match(run.stderr, expected);
    assert.equal(readFileSync(file, "utf8"), TEMPLATE);
  });
}
