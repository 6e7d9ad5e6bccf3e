import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { runCli } from "@nereid/server/cli/cli.test-support";
import { shimFiles } from "../shims/shim-files.ts";
import { writeShims } from "../shims/write-shims.ts";

/** Prints its arguments in place of nereid. */
const ECHO = "console.log(JSON.stringify(process.argv.slice(2)))";

let root = "";
let folder = "";
before(async () => {
  root = mkdtempSync(join(tmpdir(), 'nereid it\'s "shims" $HOME-'));
  folder = join(root, "shims");
  const program = join(root, "echo.cjs");
  writeFileSync(program, ECHO);
  const nereid = [process.execPath, program, "nereid"];
  await writeShims(folder, { nereid, tritonserver: [process.execPath, program, "tritonserver"] });
});
after(() => rmSync(root, { recursive: true, force: true }));

function run(command: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const options = { cwd: root, encoding: "utf8", env: { ...process.env, ...env } } as const;
  const { status, stdout, stderr } = spawnSync(command, argv, options);
  return { status, stderr, words: stdout === "" ? [] : (JSON.parse(stdout) as unknown) };
}

for (const [name, words] of [
  ["trtllm-build", ["nereid", "build"]],
  ["trtexec", ["nereid", "trtexec"]],
  ["tritonserver", ["tritonserver"]],
  ["convert_checkpoint.py", ["nereid", "convert-checkpoint"]],
  ["quantize.py", ["nereid", "quantize"]],
  ["run.py", ["nereid", "run", "--engine_dir=engine_outputs"]],
  ["summarize.py", ["nereid", "summarize"]],
  ["fill_template.py", ["nereid", "fill-template"]],
  ["launch_triton_server.py", ["nereid", "launch"]],
] as const) {
  test(`${name} hands its arguments on as they are`, () => {
    const argv = ["--a=b c", "$HOME", "it's", ""];
    const expected = { status: 0, stderr: "", words: [...words, ...argv] };
    assert.deepEqual(run(join(folder, name), argv), expected);
    if (name.endsWith(".py")) assert.deepEqual(run("python3", [join(folder, name), ...argv]), expected);
  });
}

for (const name of ["huggingface-cli", "hf"]) {
  test(`${name} downloads, and says what else there is`, () => {
    const program = join(folder, name);
    assert.deepEqual(run(program, ["download", "org/model"]).words, ["nereid", "download", "org/model"]);
    const login = run(program, ["login", "--token", "x"]);
    assert.deepEqual([login.status, login.words], [1, []]);
    assert.match(login.stderr, /set HF_TOKEN/);
    const upload = run(program, ["upload"]);
    assert.equal(upload.status, 2);
    assert.match(upload.stderr, /only 'download' is here, got 'upload'/);
  });
}

test("scripts find the same commands where clones have them", () => {
  const places = shimFiles({ nereid: ["x"], tritonserver: ["y"] }).map(({ path }) => path);
  for (const place of [
    "TensorRT-LLM/examples/quantization/quantize.py",
    "TensorRT-LLM/examples/models/core/gpt/convert_checkpoint.py",
    "tensorrtllm_backend/tools/fill_template.py",
  ])
    assert.ok(places.includes(place), place);
  const models = readdirSync(join(folder, "tensorrtllm_backend/all_models/inflight_batcher_llm")).sort();
  assert.deepEqual(models, ["ensemble", "postprocessing", "preprocessing", "tensorrt_llm", "tensorrt_llm_bls"]);
});

test("snapshot_download() becomes a command line", () => {
  const script = `import huggingface_hub
path = huggingface_hub.snapshot_download(repo_id="org/m", local_dir="d", local_dir_use_symlinks=False, allow_patterns="*.json")
print(path)`;
  const { words, stderr } = run("python3", ["-c", script], { PYTHONPATH: join(folder, "python") });
  const flags = ["--local-dir", "d", "--max-workers", "8", "--include", "*.json"];
  assert.deepEqual(words, ["nereid", "download", "org/m", ...flags], stderr);
});

test("nereid shims replaces its own files and no others", async () => {
  const target = join(root, "again");
  const first = await runCli(["shims", target]);
  assert.deepEqual([first.code, first.stderr], [0, ""]);
  assert.match(first.stdout, /trtllm-build, .*\nNext:\n {2}export PATH=/);
  assert.equal((await runCli(["shims", target])).code, 0);
  writeFileSync(join(target, "trtexec"), "another program");
  const second = await runCli(["shims", target]);
  assert.equal(second.code, 1);
  assert.match(second.stderr, /trtexec is there, and nereid shims did not write it/);
  assert.equal(readFileSync(join(target, "trtexec"), "utf8"), "another program");
});

test("flags without a meaning here are named in one warning", async () => {
  const { stderr } = await runCli([
    "quantize",
    "--model_dir",
    root,
    "--batch_size",
    "12",
    "--device_map=auto",
    "--seed=1",
  ]);
  assert.deepEqual(stderr.match(/^Warning: .*$/gm), [
    "Warning: --batch_size, --device_map, --seed have no effect here",
  ]);
});
