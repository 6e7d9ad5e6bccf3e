import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "@nereid/server/cli/cli.test-support";

const MINILM = fileURLToPath(new URL("../../../tests/parity/encoders/minilm/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-onnx-cli-"));
after(() => rmSync(folder, { recursive: true }));

test("nereid onnx export, onnx quantize and trtexec go from safetensors to an engine", async () => {
  const model = join(folder, "onnx", "model.onnx");
  const exported = await runCli(["onnx", "export", "--model", MINILM, "-o", join(folder, "onnx"), "--json"]);
  const last: unknown = JSON.parse(exported.stdout.trim().split("\n").at(-1) ?? "");
  const { event, files } = last as { event: string; files: readonly { path: string; outputs: readonly string[] }[] };
  assert.deepEqual([event, files[0]?.path, files[0]?.outputs], ["done", model, ["last_hidden_state"]]);
  const quantized = await runCli(["onnx", "quantize", "-i", model, "-o", join(folder, "int8", "model.onnx"), "-q"]);
  assert.equal(quantized.code, 0, quantized.stderr);
  assert.match(quantized.stdout, /12 matrix products quantized, \S+ \S+ -> /);
  assert.match(
    quantized.stdout,
    /last_hidden_state: error at most 0\.\d+, mean 0\.\d+ \(values .* on average\), cosine 0\.9/,
  );
  const shapes = (sizes: string): string =>
    ["input_ids", "attention_mask", "token_type_ids"].map((name) => `${name}:${sizes}`).join(",");
  const engine = join(folder, "repo", "m", "1", "model.plan");
  const sizes = [`--minShapes=${shapes("1x1")}`, `--optShapes=${shapes("1x4")}`, `--maxShapes=${shapes("2x12")}`];
  const flags = ["--fp16", "--workspace=4096", "--explicitBatch", "--duration=0", "--warmUp=0", "--iterations=3"];
  const built = await runCli(["trtexec", `--onnx=${model}`, `--saveEngine=${engine}`, ...sizes, ...flags]);
  assert.equal(built.code, 0, built.stderr);
  assert.match(built.stdout, /weights in fp16\n {2}input_ids: 1x1 <= 1x4 <= 2x12\n/);
  assert.match(built.stdout, /^Throughput: \S+ qps\nLatency: min = \S+ ms, max = \S+ ms, mean = /m);
  assert.deepEqual(readdirSync(join(engine, "..")), ["model.plan"]);
  const tooLong = await runCli(["trtexec", `--onnx=${model}`, `--saveEngine=${engine}`, `--shapes=${shapes("1x13")}`]);
  assert.equal(tooLong.code, 1);
  assert.match(
    tooLong.stderr,
    /The model does not run with --minShapes=input_ids:1x13,.*\nGive --minShapes that the model takes/,
  );
});

test("nereid onnx and trtexec say what is wrong with a command line", async () => {
  const table: [readonly string[], RegExp][] = [
    [["onnx", "exprot"], /there is no command 'exprot'; did you mean 'export'\?/],
    [["onnx", "quantize", "-i", "a", "-o", "b", "--shapes", "x"], /--shapes: expected name:1x2x3,…, got 'x'/],
    [["trtexec"], /give --onnx=model.onnx to build an engine, or --loadEngine=model.plan to measure one/],
    [["trtexec", "--onnx=a"], /--saveEngine=model.plan is missing/],
  ];
  const runs = await Promise.all(table.map(([argv]) => runCli(argv)));
  for (const [index, [argv, message]] of table.entries()) {
    const run = runs[index];
    assert.match(run?.stderr ?? "", message, argv.join(" "));
    assert.notEqual(run?.code, 0);
  }
});
