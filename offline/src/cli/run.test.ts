import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "@nereid/server/cli/cli.test-support";

const TINY = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model", import.meta.url));
const STORY = ", there was a curious and adventurous boy named Joela. She lived in a small village surrounded by";

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "run-"));
});
after(() => rm(folder, { recursive: true }));

async function run(...argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(argv);
  assert.equal(code, 0, stderr);
  return stdout;
}

test("nereid convert-checkpoint, build and run write what run.py writes", async () => {
  const [checkpoint, engine] = [join(folder, "ckpt"), join(folder, "engine")];
  await run("convert-checkpoint", "--model_dir", TINY, "--dtype", "bfloat16", "--output_dir", checkpoint);
  await run("build", "--checkpoint_dir", checkpoint, "--gemm_plugin", "float32", "--output_dir", engine);
  const csv = join(folder, "ids.csv");
  const flags = ["--max_output_len", "22", "--output_csv", csv];
  const stdout = await run(
    "run",
    `--engine_dir=${engine}`,
    "--tokenizer_dir",
    TINY,
    ...flags,
    "--input_text",
    "Once upon a time",
  );
  assert.equal(stdout, `Input [Text 0]: "Once upon a time"\nOutput [Text 0 Beam 0]: "${STORY}"\n`);
  const ids = (await readFile(csv, "utf8")).trim().split(",");
  assert.equal(ids.length, 22);
  const prompts = join(folder, "prompts.csv");
  await writeFile(prompts, `${ids.slice(0, 4).join(",")}\n`);
  const streamed = await run(
    "run",
    "--engine_dir",
    engine,
    "--max_output_len",
    "4",
    "--input_file",
    prompts,
    "--streaming",
  );
  assert.match(streamed, /^Input \[Text 0\]: ".*"\nOutput \[Text 0 Beam 0\]: ".+"\n$/);
  const json = await run("run", "--engine_dir", engine, "--max_output_len", "4", "--num_beams", "2", "--json");
  const done = JSON.parse(json.trim().split("\n").at(-1) ?? "") as { event: string; outputs: { text: string }[][] };
  assert.equal(done.event, "done");
  assert.equal(done.outputs[0]?.length, 2);
});

const REFUSED: readonly (readonly [argv: readonly string[], expected: RegExp])[] = [
  [["run", "--engine_dir", "/nowhere", "--max_output_len", "4"], /nereid run: \/nowhere/],
  [["run", "--max_output_len", "4", "--output_npy", "x"], /--output_npy is not supported here\nUse --output_csv\./],
  [
    ["run", "--device", "cuda:999", "--max_output_len", "4", "--engine_dir", TINY],
    /--device cuda:999: no such GPU can be used: .+\nLeave --device out, or give --device cpu\./,
  ],
  [["quantize", "--device", "cuda:999", "--model_dir", TINY], /--device cuda:999: no such GPU can be used/],
  [["build", "--checkpoint_dir", "/nowhere"], /nereid build: \/nowhere/],
  [
    ["convert-checkpoint", "-sq", "0.5", "--model_dir", TINY],
    /--smoothquant is not supported here\nUse nereid quantize/,
  ],
  [["convert-checkpoint", "--model_dir", TINY, "--use_fp8"], /--use_fp8 is not supported here\nUse nereid quantize/],
];

for (const [argv, expected] of REFUSED) {
  test(`nereid ${argv[0]} says what is wrong with ${argv.slice(1, 3).join(" ")}`, async () => {
    const { code, stderr } = await runCli(argv);
    assert.equal(code, 1);
    assert.match(stderr, expected);
    assert.doesNotMatch(stderr, /\n {4}at /);
  });
}
